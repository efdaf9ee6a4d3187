//! Each kind of step, and the order of steps.

use crate::program::{spec, update};
use crate::stage::Stage;
use state_engine::{Operation, StepOp};

#[tokio::test]
async fn a_program_is_made_changed_and_unmade_in_the_order_of_its_dependencies() {
    let stage = Stage::new(1).await;
    let first = [spec("c").uses(&["b"]), spec("b").needs(&["a"]), spec("a")];
    let report = stage.run(update(&first), stage.usual()).await;
    assert!(report.succeeded(), "{report:?}");
    assert_eq!(stage.world.calls(), ["create a", "create b", "create c"]);
    assert_eq!(stage.keys(), ["a", "b", "c"]);
    let again = stage.run(update(&first), stage.usual()).await;
    assert!(again.succeeded() && !again.has_changes(), "{again:?}");
    assert_eq!(stage.world.calls().len(), 3);
    let changed = [spec("a").size(2), spec("b").needs(&["a"])];
    stage.world.forget_calls();
    let report = stage.run(update(&changed), stage.usual()).await;
    assert!(report.succeeded(), "{report:?}");
    assert_eq!(stage.world.calls(), ["update a", "delete c"]);
    stage.world.forget_calls();
    let report = stage.run(Operation::Destroy, stage.usual()).await;
    assert!(report.succeeded(), "{report:?}");
    assert_eq!(stage.world.calls(), ["delete b", "delete a"]);
    assert_eq!(report.counts()[&StepOp::Delete], 2);
    assert!(stage.keys().is_empty() && stage.world.things().is_empty());
    assert_eq!(stage.complaints(), Vec::<String>::new());
}
