//! States that intact objects seem to contain, but don't prove: a salvage never makes one of them current.

use super::*;
use state_manager::Rekey;

/// Deletes the objects with this part of a key. Returns their keys.
async fn delete(client: &Client, part: &str) -> Vec<String> {
    let all = contents(&client.objects).await;
    let keys: Vec<String> = all.into_keys().filter(|key| key.contains(part)).collect();
    for key in &keys {
        client.objects.delete(&Path::parse(key).unwrap()).await.unwrap();
    }
    keys
}

#[tokio::test]
async fn reset_proves_no_state_while_an_operation_is_pending() {
    let (client, stack) = Client::with_stack(false).await;
    let first = deploy(&stack, &["a"]).await;
    let session = stack.lock("import").await.unwrap();
    let request = UpdateRequest::new(UpdateKind::Import);
    session.import(request, imported(), None).await.unwrap();
    session.close().await.unwrap();
    let stored = contents(&client.objects).await;
    let snapshots: Vec<&String> = stored.keys().filter(|key| key.contains("/snapshots/")).collect();
    let session = stack.lock("deploy").await.unwrap();
    let update = start(&session).await;
    drop(update.begin(Intent::create(entry("pending", &[]))).await.unwrap());
    update.finish(UpdateResult::Failed).await.unwrap();
    let request = UpdateRequest::new(UpdateKind::Import);
    session.import(request, imported(), None).await.unwrap();
    session.close().await.unwrap();
    let [snapshot] = snapshots[..] else {
        panic!("{snapshots:?}");
    };
    delete(&client, snapshot).await;

    let report = client.salvage().salvage(None).await.unwrap();
    let salvaged = &report.stacks[0];
    assert_eq!(salvaged.obstacle, None);
    assert_eq!(salvaged.lost.len(), 3, "{salvaged:?}");
    assert!(!salvaged.lost.contains(&first));
    let view = client.view().await.unwrap();
    let export = client.export(view.head.lineage, &first).await;
    assert!(export.is_ok(), "{export:?}");
    assert_eq!(view.history().await.unwrap().len(), 2);
}

#[tokio::test]
async fn remembered_key_makes_no_head_for_a_stack_with_a_later_key() {
    let (client, stack) = Client::with_stack(true).await;
    deploy(&stack, &["a"]).await;
    let lineage = client.view().await.unwrap().head.lineage;
    let known = MemoryKnownStacks::default();
    let pin = client.known.seen(lineage).await.unwrap();
    assert!(known.replace(lineage, None, pin.as_ref()).await);
    assert!(known.replace_name(&shop(), None, Some(lineage)).await);
    stack.rekey("rekey", Rekey::default()).await.unwrap();
    deploy(&stack, &["b"]).await;

    let earlier = Client {
        known: Arc::new(known),
        ..client
    };
    let heads = delete(&earlier, "/head.json").await;
    assert_eq!(heads.len(), 1);
    let before = contents(&earlier.objects).await;
    let report = earlier.salvage().salvage(None).await.unwrap();
    let obstacle = report.stacks[0].obstacle.as_deref();
    assert!(
        obstacle.is_some_and(|reason| reason.contains("several data keys")),
        "{obstacle:?}"
    );
    assert!(!contents(&earlier.objects).await.contains_key(&heads[0]));
    let unchanged = |key: &&String| !key.contains("lease") && !key.contains("clock");
    let after = contents(&earlier.objects).await;
    for key in before.keys().filter(unchanged) {
        assert_eq!(after.get(key), before.get(key), "{key}");
    }
}
