//! Forgeries between two requests that aren't detected yet. The test asserts that each one passes, so that it fails once a
//! gap is closed.

use super::{Command, Kind, Outcome, Scenario, Stack};
use crate::store::block_on;
use state_core::head::SealingPolicy;
use state_core::testkit::hostile::{Action, Forgery, Intervention};
use state_core::{Enveloped, Head};

/// A forgery that isn't detected yet.
struct Gap {
    /// Description of the attack.
    attack: &'static str,
    /// The required behaviour (docs/decisions/0001).
    expected: &'static str,
    command: Command,
    /// Whether only sealed stacks have to detect the attack.
    sealed_only: bool,
    /// Selects the objects that are attacked.
    aims_at: fn(&str) -> bool,
    action: fn() -> Action,
    /// Whether the attack succeeded.
    passes: fn(&Outcome) -> bool,
}

fn is_head(object: &str) -> bool {
    object.ends_with("head.json")
}

/// Forges a document and recomputes its public digest.
pub(super) fn forge<T: Enveloped + 'static>(name: &'static str, change: fn(&mut T)) -> Action {
    Action::Forge(Forgery::new(name, move |bytes| {
        let Ok(mut document) = T::decode("forged", bytes) else {
            return bytes.to_vec();
        };
        change(&mut document);
        document.encode()
    }))
}

/// Forgeries that pass until a stack is read through one authenticated view. When a gap is closed, the test fails; then
/// move its line to a test that asserts the required behaviour.
const KNOWN_GAPS: [Gap; 2] = [
    Gap {
        attack: "the policy in the head is forged while a session runs, and the session signs it",
        expected: "a swap authenticates the head that it replaces: exit 12",
        command: Command::Append,
        sealed_only: true,
        aims_at: is_head,
        action: || forge::<Head>("plaintext", |head| head.policy = SealingPolicy::Plaintext),
        passes: |outcome| {
            let is_plain = |stack: &Stack| stack.policy == Some(SealingPolicy::Plaintext);
            outcome.shown.is_ok() && matches!(&outcome.left, Ok(Some(stack)) if is_plain(stack))
        },
    },
    Gap {
        attack: "the file of the wrapped data key is deleted",
        expected: "a client that opened this stack before gets exit 12",
        command: Command::Read,
        sealed_only: true,
        aims_at: |object| object.contains("keys/") && object.ends_with(".age"),
        action: || Action::Delete,
        passes: |outcome| matches!(outcome.shown, Ok(Some(_))),
    },
];

/// Whether the attack succeeds at any request of its command.
async fn passes(gap: &Gap, scenario: &Scenario) -> bool {
    let honest = scenario.run(gap.command, Vec::new()).await;
    let known = honest.attacker.objects();
    let targets: Vec<_> = known.into_iter().filter(|object| (gap.aims_at)(object)).collect();
    assert!(!targets.is_empty(), "no object to attack: {}", gap.attack);
    for target in targets {
        for at in 0..honest.requests.len() {
            let plan = vec![Intervention::new(at, target.clone(), (gap.action)())];
            let outcome = scenario.run(gap.command, plan).await;
            if outcome.edits > 0 && (gap.passes)(&outcome) {
                return true;
            }
        }
    }
    false
}

#[test]
fn known_gaps_are_still_open() {
    block_on(async {
        for kind in [Kind::Files, Kind::Objects] {
            for policy in [SealingPolicy::Plaintext, SealingPolicy::All] {
                let scenario = Scenario::build(kind, policy).await.unwrap();
                for gap in &KNOWN_GAPS {
                    if gap.sealed_only && policy == SealingPolicy::Plaintext {
                        continue;
                    }
                    let open = passes(gap, &scenario).await;
                    eprintln!("hostile: {kind:?}, {policy:?}: {}: {open}", gap.attack);
                    assert!(
                        open,
                        "{kind:?}, {policy:?}: gap closed: {}. Assert instead: {}",
                        gap.attack, gap.expected
                    );
                }
            }
        }
    });
}
