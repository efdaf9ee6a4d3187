//! Key files that an attacker deletes, garbles, or replaces by files for other recipients: a client that opened the
//! stack's key before refuses the stack and keeps its pin (what it remembers of the stack).

use super::{Command, Kind, Scenario};
use crate::store::block_on;
use state_core::head::SealingPolicy;
use state_core::sealing::KeyProvider;
use state_core::testkit::hostile::{Action, Attacker, Forgery, Intervention};
use state_core::{Error, ErrorKind};
use state_encrypt::{AgeKeys, Identities, generate_identity};
use state_manager::{KnownStacks, MemoryKnownStacks};
use std::sync::Arc;

fn is_key(object: &str) -> bool {
    object.contains("keys/") && object.ends_with(".age")
}

/// Returns a key file with another data key, encrypted for a recipient whose identity the client doesn't have.
fn foreign(scenario: &Scenario) -> Vec<u8> {
    let identity = generate_identity();
    let identities = Identities::parse("identity", identity.file()).expect("a valid identity");
    let recipients = identity.recipient().parse().expect("a valid recipient");
    let keys = AgeKeys::new(identities, recipients, crate::store::environment().entropy);
    let lineage = state_core::Lineage::from_bits([scenario.kind as u8; 16]);
    let key = keys.generate(lineage).expect("a key");
    keys.wrap(key.id(), None)
        .expect("the key is wrapped")
        .files
        .remove(0)
}

#[test]
fn vanished_key_is_refused_by_a_client_that_opened_it() {
    block_on(async {
        for kind in [Kind::Files, Kind::Objects] {
            let scenario = Scenario::build(kind, SealingPolicy::All).await.unwrap();
            let wrapped = foreign(&scenario);
            let actions = || {
                let wrapped = wrapped.clone();
                [
                    Action::Delete,
                    Action::Forge(Forgery::new("garbled", |bytes| vec![b'x'; bytes.len()])),
                    Action::Forge(Forgery::new("empty", |_| Vec::new())),
                    Action::Forge(Forgery::new("wrapped to others", move |_| wrapped.clone())),
                ]
            };
            for (number, _) in actions().iter().enumerate() {
                for command in [Command::Read, Command::Append] {
                    let disk = scenario.disk.copy().await;
                    let known = Arc::new(MemoryKnownStacks::default());
                    let remembering = |backend| {
                        let known: Arc<dyn KnownStacks> = Arc::<MemoryKnownStacks>::clone(&known);
                        scenario.stacks(backend).with_known_stacks(known)
                    };
                    let stacks = remembering(disk.under(&Attacker::default()).await.unwrap());
                    let stack = stacks.get(&super::name()).await.unwrap().unwrap();
                    stack.tip().await.unwrap();
                    let pin = known.seen(stack.lineage()).await.unwrap();

                    let attacker = Attacker::default();
                    let backend = disk.under(&attacker).await.unwrap();
                    let target = attacker
                        .objects()
                        .into_iter()
                        .find(|object| is_key(object))
                        .expect("a key file");
                    let action = actions().into_iter().nth(number).expect("one of the actions");
                    let context = format!("{kind:?}, {command:?}, {action:?}");
                    attacker.plan(vec![Intervention::new(0, target, action)]);
                    let refused: Error = command.run(&remembering(backend)).await.expect_err(&context);
                    assert!(
                        matches!(refused.kind(), ErrorKind::Distrusted | ErrorKind::Sealed),
                        "{context}: {refused}"
                    );
                    assert_eq!(known.seen(stack.lineage()).await.unwrap(), pin, "{context}");
                }
            }
        }
    });
}
