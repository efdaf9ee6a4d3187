//! Defects that the random schedules of `main.rs` found, each as a test of its own.

use crate::client::Answer;
use crate::commands::Command;
use crate::disk::Kind;
use crate::scenario::Scenario;
use crate::{Bench, block_on};
use state_core::testkit::hostile::schedule::singles;
use state_core::testkit::hostile::{Intervention, StoredKind};
use state_core::{ErrorKind, Result};
use state_manager::Authenticity;

#[test]
fn known_stack_that_was_rolled_back_is_not_copied() {
    block_on(async {
        for kind in [Kind::Files, Kind::Objects] {
            let scenario = Scenario::build(kind).await.expect("the scenario is built");
            let stages = scenario.stages.len() - 1;
            for (number, stage) in scenario.stages[..stages].iter().enumerate() {
                let run = scenario.run(stage, Command::Copy, Vec::new(), true).await;
                let refused = run.answer.expect_err("an older state");
                assert_eq!(
                    refused.kind(),
                    ErrorKind::Distrusted,
                    "{kind:?}, stage {number}: {refused}"
                );
            }
            let run = scenario
                .run(scenario.last(), Command::Copy, Vec::new(), true)
                .await;
            run.answer.expect("the state that the client knows");
        }
    });
}

/// One schedule of [`attack_reads`]: the requests before which the two forgeries were placed, and the answer.
struct Attempt {
    context: String,
    answer: Result<Answer>,
}

/// Reads the stack, without a memory, while the attacker applies the forgery `first` before a read of an object whose
/// name begins with `on`, and `second` before a later read of an object whose name begins with `then`. Does so for each
/// pair of such reads.
async fn attack_reads(
    scenario: &Scenario,
    [first, second]: [&str; 2],
    [on, then]: [&str; 2],
) -> Vec<Attempt> {
    let rows = &scenario.catalogue;
    let row = |name: &str| {
        let row = rows.iter().find(|row| row.name == name);
        row.expect("a row of the catalogue").action.clone()
    };
    let read = (scenario.last(), Command::Read);
    let honest = scenario.run(read.0, read.1, Vec::new(), false).await;
    let reads = |of: &str| {
        let reads = honest.requests.iter().enumerate();
        let reads = reads.filter(|(_, request)| request.object.starts_with(of));
        reads.map(|(at, _)| at).collect::<Vec<_>>()
    };
    let mut attempts = Vec::new();
    for at in reads(on) {
        for later in reads(then).into_iter().filter(|later| *later > at) {
            let plan = [(at, row(first)), (later, row(second))];
            let plan = plan.map(|(at, action)| Intervention::on_request(at, action));
            let run = scenario.run(read.0, read.1, plan.to_vec(), false).await;
            attempts.push(Attempt {
                context: format!("{:?}: {first} at {at}, {second} at {later}", scenario.kind),
                answer: run.answer,
            });
        }
    }
    attempts
}

/// A client that authenticated a head must not accept a frame without a tag because a later head is plain.
#[test]
fn authenticated_stack_is_not_plain_later_in_one_command() {
    block_on(async {
        for kind in [Kind::Files, Kind::Objects] {
            let scenario = Scenario::build(kind).await.expect("the scenario is built");
            let (head, journal) = (scenario.head(), scenario.head().replace("head.json", "journal"));
            let forgeries = ["no key and plaintext", "last frame edited, no tag, head adapted"];
            let mut refused = 0;
            for Attempt { context, answer } in attack_reads(&scenario, forgeries, [&head, &journal]).await {
                match answer.map(|answer| answer.shown) {
                    Ok(Some(shown)) => assert!(
                        shown.authenticity != Authenticity::Checked
                            || !(shown.is_foreign || shown.is_history_foreign),
                        "{context}"
                    ),
                    Ok(None) => panic!("{context}: the stack is hidden"),
                    Err(_) => refused += 1,
                }
            }
            assert!(refused > 0, "{kind:?}");
        }
    });
}

/// A client that authenticated a head must not accept frames under a key that this head lists as replaced, because a
/// later head names that key.
#[test]
fn replaced_key_authenticates_nothing_later_in_one_command() {
    block_on(async {
        for kind in [Kind::Files, Kind::Objects] {
            let scenario = Scenario::build(kind).await.expect("the scenario is built");
            let honest = scenario
                .run(scenario.last(), Command::Read, Vec::new(), false)
                .await;
            let honest = honest.answer.ok().and_then(|answer| answer.shown);
            let honest = honest.expect("an honest store is read");
            let (head, journal) = (scenario.head(), scenario.head().replace("head.json", "journal"));
            let forgeries = [
                "invented frame appended, tag under a former key, head adapted",
                "former key",
            ];
            let mut refused = 0;
            for Attempt { context, answer } in attack_reads(&scenario, forgeries, [&journal, &head]).await {
                let Ok(Some(shown)) = answer.map(|answer| answer.shown) else {
                    refused += 1;
                    continue;
                };
                // A client without memory can't refuse a former key that it sees first.
                if shown.key == honest.key {
                    assert_eq!(shown.revisions, honest.revisions, "{context}");
                }
            }
            assert!(refused > 0, "{kind:?}");
        }
    });
}

/// The attacker damages a frame that the running session itself wrote. The session doesn't read the frame again, and its
/// next frames continue what it wrote: that signs nothing forged, and the next reader refuses the damage.
#[test]
fn damaged_frame_of_the_own_session_is_not_a_signed_forgery() {
    let bench = Bench::set_up(Kind::Files);
    let mut effective = 0;
    for remembers in [false, true] {
        let requests = &bench.requests[&(Command::Append, remembers)];
        for (at, row) in singles(requests, &bench.scenario.catalogue) {
            let row = &bench.scenario.catalogue[row];
            if row.kind != StoredKind::Journal || row.name != "flipped bit" {
                continue;
            }
            let plan = vec![Intervention::on_request(at, row.action.clone())];
            let (is_effective, broken) = block_on(bench.attempt(Command::Append, remembers, plan));
            effective += usize::from(is_effective);
            assert_eq!(broken, [""; 0], "memory: {remembers}, at {at}");
        }
    }
    assert!(effective > 20, "{effective}");
}
