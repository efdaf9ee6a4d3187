//! Defects that the random schedules of `main.rs` found, each as a test of its own.

use crate::block_on;
use crate::commands::Command;
use crate::disk::Kind;
use crate::scenario::Scenario;
use state_core::ErrorKind;
use state_core::testkit::hostile::Intervention;
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

/// Forges two objects of one command: at one read a head without a key, at a later read a frame without a tag. A client
/// that authenticated the first head must not accept the frame because a later head is plain.
#[test]
fn authenticated_stack_is_not_plain_later_in_one_command() {
    block_on(async {
        for kind in [Kind::Files, Kind::Objects] {
            let scenario = Scenario::build(kind).await.expect("the scenario is built");
            let rows = &scenario.catalogue;
            let row = |name| {
                rows.iter()
                    .find(|row| row.name == name)
                    .map(|row| row.action.clone())
            };
            let plain = row("no key and plaintext").expect("a row of the catalogue");
            let edited = row("last frame edited, no tag, head adapted").expect("a row of the catalogue");
            let honest = scenario
                .run(scenario.last(), Command::Read, Vec::new(), false)
                .await;
            let reads = |of: &str| {
                let reads = honest.requests.iter().enumerate();
                let reads = reads.filter(|(_, request)| request.object.starts_with(of));
                reads.map(|(at, _)| at).collect::<Vec<_>>()
            };
            let journal = scenario.head().replace("head.json", "journal");
            let mut refused = 0;
            for head in reads(&scenario.head()) {
                for frame in reads(&journal).into_iter().filter(|frame| *frame > head) {
                    let plan = [(head, &plain), (frame, &edited)];
                    let plan = plan.map(|(at, action)| Intervention::on_request(at, action.clone()));
                    let run = scenario
                        .run(scenario.last(), Command::Read, plan.to_vec(), false)
                        .await;
                    match run.answer.map(|answer| answer.shown) {
                        Ok(Some(shown)) => assert!(
                            shown.authenticity != Authenticity::Checked
                                || !(shown.is_foreign || shown.is_history_foreign),
                            "{kind:?}: head at {head}, frame at {frame}"
                        ),
                        Ok(None) => panic!("{kind:?}: the stack is hidden"),
                        Err(_) => refused += 1,
                    }
                }
            }
            assert!(refused > 0, "{kind:?}");
        }
    });
}
