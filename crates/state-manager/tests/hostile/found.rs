//! Defects that the random schedules found, each as a test of its own.

use crate::block_on;
use crate::commands::Command;
use crate::disk::Kind;
use crate::scenario::Scenario;
use state_core::ErrorKind;

#[test]
fn known_stack_that_was_rolled_back_is_not_copied() {
    block_on(async {
        for kind in [Kind::Files, Kind::Objects] {
            let scenario = Scenario::build(kind).await.expect("the scenario is built");
            let stages = scenario.stages.len() - 1;
            for (number, stage) in scenario.stages[..stages].iter().enumerate() {
                let run = scenario.run(stage, Command::Copy, Vec::new(), true).await;
                let refused = run.answer.expect_err("an older state");
                assert_eq!(refused.kind(), ErrorKind::Distrusted, "{kind:?}, stage {number}: {refused}");
            }
            let run = scenario.run(scenario.last(), Command::Copy, Vec::new(), true).await;
            run.answer.expect("the state that the client knows");
        }
    });
}
