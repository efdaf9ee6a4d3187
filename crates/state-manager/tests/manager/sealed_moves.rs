//! Interrupted moves between sealed stacks, after an attacker replaced one of them.

use super::moves::{BEFORE, Pair, cut_in, takeover};
use super::*;
use state_core::backend::{NamePointer, NameTarget};
use state_core::{Backend, Head, Nonce};
use state_manager::{KnownStacks, MemoryKnownStacks};

/// A store with a copy of the destination, and with an empty plain stack under the lineage and the name of the source.
async fn with_forged_source(pair: &Pair, keyed: impl FnOnce(Stacks) -> Stacks) -> Stacks {
    let backend = MemoryBackend::default();
    let stacks = keyed(Stacks::new(Arc::new(backend.clone()), environment(40)));
    stacks.copy_from(&pair.there).await.unwrap();
    let (lineage, name) = (pair.source.lineage(), pair.source.name().clone());
    let mut forged = Head::new(lineage, name.clone(), Nonce::from_bytes([7; 16]));
    forged.policy = SealingPolicy::Plaintext;
    backend.create_stack(&forged).await.unwrap();
    let pointer = NamePointer::new(
        name.clone(),
        NameTarget::Lineage(lineage),
        Nonce::from_bytes([8; 16]),
    );
    backend.swap_name(&name, None, &pointer).await.unwrap();
    stacks
}

#[tokio::test]
async fn plain_stack_settles_no_move_of_a_sealed_one() {
    let identity = state_encrypt::generate_identity();
    let keyed = |stacks: Stacks| stacks.with_keys(keys(3, &identity));
    for committed in [true, false] {
        let pair = Pair::with_policy("shop/a", SealingPolicy::Sensitive, keyed).await;
        let (pair, source, there) = cut_in(pair, &["a", "b"], committed).await;
        drop((source, there));
        // A client with memory remembers the forged stack as a plain one, from its first contact.
        let known: Arc<MemoryKnownStacks> = Arc::default();
        let forged = with_forged_source(&pair, keyed).await;
        let forged = forged.with_known_stacks(Arc::clone(&known) as Arc<dyn KnownStacks>);
        let find = async |stack: &Stack| forged.get(stack.name()).await.unwrap().unwrap();
        let (source, there) = (find(&pair.source).await, find(&pair.there).await);
        source.tip().await.unwrap();
        for _ in 0..2 {
            let locked = Stacks::lock_both(&source, &there, async |stack| stack.lock("mv").await).await;
            let (source, there) = locked.unwrap();
            assert_eq!(there.state().incoming().count(), 1, "committed: {committed}");
            source.close().await.unwrap();
            there.close().await.unwrap();
            takeover(&find(&pair.there).await).await;
        }
        assert_eq!(names(&there).await, BEFORE[1]);
    }
}
