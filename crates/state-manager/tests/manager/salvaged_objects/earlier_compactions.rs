//! Compactions before the base: the head may name one that was never stored.

use super::*;
use crate::early_frames::add;

#[tokio::test]
async fn unstored_compaction_before_the_base_is_no_damage() {
    let (client, stack) = Client::with_stack(false).await;
    let first = deploy(&stack, &["a"]).await;
    deploy(&stack, &["b"]).await;
    // As after a crash between a head and the compaction that it names.
    let stored = contents(&client.objects).await;
    for key in stored.keys().filter(|key| is_compaction(key)) {
        client.objects.delete(&Path::parse(key).unwrap()).await.unwrap();
    }
    assert!(!client.salvage().survey().await.unwrap().is_intact());

    // Each revision adds 200 KB to the journal. The base moves, so nothing writes the compaction again.
    let session = stack.lock("deploy").await.unwrap();
    for number in 0..12 {
        add(&session, &format!("r{number}")).await;
    }
    session.close().await.unwrap();
    let view = client.view().await.unwrap();
    let base = view.head.base.start;
    assert!(view.head.compactions.iter().any(|named| named.start < base));
    view.get(&first).await.unwrap();
    assert!(client.salvage().survey().await.unwrap().is_intact());
}
