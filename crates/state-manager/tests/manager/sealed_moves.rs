//! Interrupted moves between sealed stacks, after an attacker replaced one of them.

use super::moves::{BEFORE, Pair, cut_in, takeover};
use super::rotation::deploy_secret;
use super::*;
use state_core::backend::{NamePointer, NameTarget};
use state_core::{Backend, Head, Nonce};
use state_manager::{KnownStacks, MemoryKnownStacks, Rekey};

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

/// The rotation can't settle the move, because the crashed writer still holds the source.
#[tokio::test]
async fn rotation_reseals_the_entries_of_an_unfinished_move() {
    let identity = state_encrypt::generate_identity();
    let keyed = |stacks: Stacks| stacks.with_keys(keys(3, &identity));
    for policy in [SealingPolicy::All, SealingPolicy::Plaintext] {
        let pair = Pair::with_policy("shop/a", policy, keyed).await;
        deploy_secret(&pair.source, "secret").await;
        let (pair, source, there) = cut_in(pair, &["secret"], false).await;
        pair.plan.heal();
        drop(there);
        takeover(&pair.there).await;
        let request = Rekey {
            policy: Some(SealingPolicy::All),
            ..Rekey::default()
        };
        pair.there.rekey("rekey", request).await.unwrap();
        let key = pair.there.tip().await.unwrap().head.key_id.unwrap();
        let state = pair.there.tip().await.unwrap().state;
        let waiting = state.incoming().flat_map(|moved| &moved.entries);
        let inputs: Vec<_> = waiting
            .map(|entry| entry.inputs.as_ref().unwrap().json().as_str())
            .collect();
        let sealed = format!("v1:{}", &key.to_string()[..16]);
        assert!(
            matches!(inputs[..], [inputs] if inputs.contains(&sealed)),
            "{policy:?}: {inputs:?}"
        );
        drop(source);
    }
}
