//! Names and removals that an attacker forges between two requests of a command: a client that knows the stack never
//! treats the stack as missing.

use super::forge;
use super::{Command, Kind, Scenario};
use crate::store::block_on;
use state_core::backend::{NamePointer, NameTarget};
use state_core::head::SealingPolicy;
use state_core::testkit::hostile::{Action, Intervention};
use state_core::{Head, Lineage, Nonce};
use state_manager::MemoryKnownStacks;
use std::sync::Arc;

/// A change that hides the stack, or forges its name.
struct Attack {
    name: &'static str,
    /// Selects the objects that are attacked.
    aims_at: fn(&str) -> bool,
    action: fn() -> Action,
    /// Whether a client without a [`memory`] of the stack detects the attack too.
    needs_no_memory: bool,
}

fn is_pointer(object: &str) -> bool {
    object.contains("names/") && object.ends_with(".json")
}

fn is_head(object: &str) -> bool {
    object.ends_with("head.json")
}

const ATTACKS: [Attack; 4] = [
    Attack {
        name: "the name pointer is deleted",
        aims_at: is_pointer,
        action: || Action::Delete,
        needs_no_memory: false,
    },
    Attack {
        name: "the name pointer says that the stack was removed",
        aims_at: is_pointer,
        action: || {
            forge::<NamePointer>("removed", |pointer| {
                pointer.target = NameTarget::Removed(pointer.subject());
            })
        },
        needs_no_memory: true,
    },
    Attack {
        name: "the name pointer says that the stack was renamed",
        aims_at: is_pointer,
        action: || {
            forge::<NamePointer>("moved", |pointer| {
                pointer.target = NameTarget::MovedTo {
                    lineage: pointer.subject(),
                    name: "tests/elsewhere".parse().expect("a valid name"),
                };
            })
        },
        needs_no_memory: true,
    },
    Attack {
        name: "the head says that the stack was removed",
        aims_at: is_head,
        action: || forge::<Head>("removed", |head| head.removed = true),
        needs_no_memory: true,
    },
];

/// Returns the memory of a client that read the intact stack.
async fn memory(scenario: &Scenario) -> Arc<MemoryKnownStacks> {
    let memory: Arc<MemoryKnownStacks> = Arc::default();
    let honest = scenario
        .run_as(Command::Read, Vec::new(), Some(memory.clone()))
        .await;
    assert!(honest.shown.expect("the store is intact").is_some());
    memory
}

/// Runs a command once per request, with the attack right before this request. The command must show the unchanged
/// stack or return an error. `knows` states whether the client read the stack before the attack.
async fn never_hides(attack: &Attack, scenario: &Scenario, command: Command, knows: bool) {
    let honest = scenario.run(command, Vec::new()).await;
    let before = honest.shown.expect("the store is intact");
    let objects = honest.attacker.objects().into_iter();
    let targets: Vec<_> = objects.filter(|object| (attack.aims_at)(object)).collect();
    assert!(!targets.is_empty(), "no object to attack: {}", attack.name);
    let mut refused = 0;
    for target in targets {
        for at in 0..honest.requests.len() {
            let memory = match knows {
                true => Some(memory(scenario).await),
                false => None,
            };
            let plan = vec![Intervention::new(at, target.clone(), (attack.action)())];
            let outcome = scenario.run_as(command, plan, memory).await;
            let context = format!("{:?}, {command:?}: {} at {at}", scenario.kind, attack.name);
            match outcome.shown {
                // Compare only the tip. `observe` reads the policy from a head that it doesn't authenticate, so the
                // observed policy may be forged.
                Ok(Some(shown)) => assert_eq!(
                    Some(shown.tip),
                    before.as_ref().map(|one| one.tip.clone()),
                    "{context}"
                ),
                Ok(None) => panic!("the stack is hidden: {context}"),
                Err(_) => refused += 1,
            }
        }
    }
    assert!(refused > 0, "{:?}, {command:?}: {}", scenario.kind, attack.name);
}

#[test]
fn known_stack_is_never_hidden_by_forged_names() {
    block_on(async {
        for kind in [Kind::Files, Kind::Objects] {
            let scenario = Scenario::build(kind, SealingPolicy::All).await.unwrap();
            for attack in &ATTACKS {
                for command in [Command::Read, Command::Create] {
                    never_hides(attack, &scenario, command, true).await;
                    if attack.needs_no_memory {
                        never_hides(attack, &scenario, command, false).await;
                    }
                }
            }
        }
    });
}

#[test]
fn known_plain_stack_is_never_hidden_by_a_forged_pointer() {
    block_on(async {
        for kind in [Kind::Files, Kind::Objects] {
            let scenario = Scenario::build(kind, SealingPolicy::Plaintext).await.unwrap();
            for attack in ATTACKS
                .iter()
                .filter(|attack| (attack.aims_at)("names/tests/main.json"))
            {
                never_hides(attack, &scenario, Command::Read, true).await;
            }
        }
    });
}

/// Forged name pointers without a valid tag. The tag is a MAC with the stack's key, which the attacker doesn't have.
const UNTAGGED: [Attack; 3] = [
    Attack {
        name: "the name pointer has no tag",
        aims_at: is_pointer,
        action: || forge::<NamePointer>("untagged", |pointer| pointer.tags.clear()),
        needs_no_memory: true,
    },
    Attack {
        name: "the name pointer has another nonce",
        aims_at: is_pointer,
        action: || forge::<NamePointer>("nonce", |pointer| pointer.nonce = Nonce::from_bytes([9; 16])),
        needs_no_memory: true,
    },
    Attack {
        name: "the name pointer leads to a stack that doesn't exist",
        aims_at: is_pointer,
        action: || {
            forge::<NamePointer>("redirected", |pointer| {
                pointer.target = NameTarget::Lineage(Lineage::from_bits([9; 16]));
            })
        },
        needs_no_memory: true,
    },
];

#[test]
fn redirected_name_is_refused_by_every_client_with_the_key() {
    block_on(async {
        for kind in [Kind::Files, Kind::Objects] {
            let scenario = Scenario::build(kind, SealingPolicy::All).await.unwrap();
            for attack in UNTAGGED
                .iter()
                .chain(&ATTACKS)
                .filter(|attack| attack.needs_no_memory)
            {
                for command in [Command::Read, Command::Create] {
                    never_hides(attack, &scenario, command, false).await;
                }
            }
        }
    });
}

/// A known limit, which `docs/threat-model.md` states: a client without memory can't distinguish a deleted name from a
/// name that never existed.
#[test]
fn client_without_memory_finds_no_stack_under_a_deleted_name() {
    block_on(async {
        let scenario = Scenario::build(Kind::Files, SealingPolicy::All).await.unwrap();
        let honest = scenario.run(Command::Read, Vec::new()).await;
        let pointer = honest
            .attacker
            .objects()
            .into_iter()
            .find(|object| is_pointer(object));
        let plan = vec![Intervention::new(0, pointer.expect("a pointer"), Action::Delete)];
        let outcome = scenario.run(Command::Read, plan).await;
        assert!(matches!(outcome.shown, Ok(None)));
    });
}
