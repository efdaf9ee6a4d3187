//! An attacker must not use a client as a signing oracle: if the attacker edits the head between two requests of a
//! command, the client never signs the edited head with the stack's key.

use super::{COLLEAGUE, Command, Kind, Outcome, Scenario, forge};
use crate::store::block_on;
use state_core::head::SealingPolicy;
use state_core::testkit::hostile::{Action, Attacker, Intervention, Verb};
use state_core::{ErrorKind, Head};
use state_manager::Authenticity;
use std::collections::BTreeMap;

/// The recipient that the attacker adds to forged heads.
const MALLORY: &str = "age1lggyhqrw2nlhcxprm67z43rta597azn8gknawjehu9d9dl0jq3yqqvfafg";

/// A change of the head by the attacker, who doesn't have the key.
struct Forged {
    /// The changed part of the head, for messages.
    what: &'static str,
    change: fn(&mut Head),
}

const FORGERIES: [Forged; 4] = [
    Forged {
        what: "recipients",
        change: |head| {
            if let Some(keys) = &mut head.keys {
                keys.recipients.push(MALLORY.to_owned());
            }
        },
    },
    Forged {
        what: "recipients of the outputs",
        change: |head| {
            if let Some(keys) = &mut head.keys {
                keys.outputs.push(MALLORY.to_owned());
            }
        },
    },
    Forged {
        what: "policy",
        change: |head| head.policy = SealingPolicy::Plaintext,
    },
    Forged {
        what: "client lock",
        change: |head| {
            head.client_lock = Some(state_core::backend::ClientLock {
                id: "mallory".to_owned(),
                holder: state_core::backend::Holder::default(),
                message: String::new(),
                expires: None,
            });
        },
    },
];

fn edit(forged: &Forged) -> Action {
    let change = forged.change;
    forge::<Head>(forged.what, change)
}

/// Asserts that a reader with the key isn't deceived by the store that a command left: the reader refuses the stack, or
/// sees none of the [`FORGERIES`].
async fn require_unsigned(scenario: &Scenario, outcome: &Outcome, context: &str) {
    let backend = outcome
        .disk
        .under(&Attacker::default())
        .await
        .expect("the store opens");
    let stacks = scenario.stacks(backend);
    let Ok(Some(stack)) = stacks.get(&super::name()).await else {
        // A rename was interrupted, or the head is refused.
        return;
    };
    let view = match stack.tip().await {
        Ok(view) => view,
        Err(error) => {
            let kind = error.kind();
            assert!(
                matches!(kind, ErrorKind::Sealed | ErrorKind::Distrusted),
                "{context}: {error}"
            );
            return;
        }
    };
    assert_eq!(view.authenticity, Authenticity::Checked, "{context}");
    let keys = view.head.keys.expect("a sealed stack");
    let honest = [scenario.recipient(), COLLEAGUE.to_owned()];
    assert!(
        keys.recipients.iter().all(|one| honest.contains(one)),
        "{context}"
    );
    assert!(keys.outputs.iter().all(|one| honest.contains(one)), "{context}");
    assert_eq!(view.head.policy, scenario.policy, "{context}");
    assert!(
        view.head.client_lock.is_none_or(|lock| lock.id != "mallory"),
        "{context}"
    );
}

/// Runs the command once per forgery and request for the head, and edits the head right before this request.
async fn attack(scenario: &Scenario, command: Command, counts: &mut BTreeMap<&'static str, usize>) {
    let honest = scenario.run(command, Vec::new()).await;
    honest.shown.expect("nothing is forged");
    for (at, request) in honest.requests.iter().enumerate() {
        if !request.object.ends_with("head.json") || request.verb == Verb::List {
            continue;
        }
        for forged in &FORGERIES {
            let context = format!("{:?}, {command:?}: {} at {at}", scenario.kind, forged.what);
            let plan = vec![Intervention::new(at, request.object.clone(), edit(forged))];
            let outcome = scenario.run(command, plan).await;
            if outcome.edits == 0 {
                *counts.entry("without effect").or_default() += 1;
                continue;
            }
            *counts
                .entry(if outcome.shown.is_err() {
                    "refused"
                } else {
                    "overwritten"
                })
                .or_default() += 1;
            require_unsigned(scenario, &outcome, &context).await;
        }
    }
}

/// Attacks each command that signs a head, on a sealed stack in a store of this kind.
async fn no_head_is_signed_by(kind: Kind) {
    let mut counts = BTreeMap::new();
    let scenario = Scenario::build(kind, SealingPolicy::All)
        .await
        .expect("the scenario is built");
    for command in Command::SIGNING {
        attack(&scenario, command, &mut counts).await;
    }
    assert!(counts["refused"] > 50, "{kind:?}: {counts:?}");
}

#[test]
fn forged_head_in_files_is_never_signed() {
    block_on(no_head_is_signed_by(Kind::Files));
}

#[test]
fn forged_head_in_objects_is_never_signed() {
    block_on(no_head_is_signed_by(Kind::Objects));
}

#[test]
fn older_authentic_head_is_not_signed_again() {
    block_on(async {
        for kind in [Kind::Files, Kind::Objects] {
            let scenario = Scenario::build(kind, SealingPolicy::All).await.unwrap();
            let honest = scenario.run(Command::ClientLock, Vec::new()).await;
            let head = honest
                .attacker
                .objects()
                .into_iter()
                .find(|object| object.ends_with("head.json"));
            let head = head.expect("a head");
            let versions = honest.attacker.versions(&head);
            let locked = versions.iter().flatten().find_map(|bytes| {
                let head = <Head as state_core::Enveloped>::decode("head", bytes).ok()?;
                head.client_lock.is_some().then_some(head)
            });
            let locked = locked.expect("a version with the client lock");
            for (at, request) in honest.requests.iter().enumerate() {
                if !request.object.ends_with("head.json") {
                    continue;
                }
                // The tag doesn't cover the epoch, so the attacker can give an older head the epoch of the present
                // lock holder.
                let older = locked.clone();
                let replay = forge::<Head>("an older head", move |head| {
                    let (epoch, generation) = (head.epoch, head.generation);
                    head.clone_from(&older);
                    (head.epoch, head.generation) = (epoch, generation);
                });
                let plan = vec![Intervention::new(at, request.object.clone(), replay)];
                let outcome = scenario.run(Command::Append, plan).await;
                if outcome.edits == 0 || outcome.shown.is_err() {
                    continue;
                }
                let backend = outcome.disk.under(&Attacker::default()).await.unwrap();
                let stack = scenario
                    .stacks(backend)
                    .get(&super::name())
                    .await
                    .unwrap()
                    .unwrap();
                let left = stack.tip().await.unwrap().head;
                // A head that the attacker replayed after the last swap of the session is still in the store, with
                // the same content. A head that the session signed differs, because closing sets the watermark.
                let is_replay = left.has_content_of(&locked);
                assert!(
                    left.client_lock.is_none() || is_replay,
                    "{kind:?} at {at}: the session signed a replayed head"
                );
            }
        }
    });
}
