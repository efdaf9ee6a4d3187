//! What is counted: bytes, and steps at once.

use crate::program::{Spec, spec, update};
use crate::stage::Stage;
use crate::world::Mood;
use state_core::codec::encode_stored;

/// Resources of the usual size: about 1 KiB each.
fn thousand() -> Vec<Spec> {
    (0..1000)
        .map(|number| {
            let one = spec(&format!("module.network.aws_instance.server_{number:04}"));
            match number {
                0 => one.padded(400),
                _ => one.padded(400).uses(&[&format!(
                    "module.network.aws_instance.server_{:04}",
                    (number - 1) / 7
                )]),
            }
        })
        .collect()
}

#[tokio::test]
async fn a_deployment_of_1000_resources_writes_at_most_3_times_its_final_state() {
    let stage = Stage::new(1).await;
    stage.witness.lock().unwrap().only_count();
    let report = stage.run(update(&thousand()), stage.usual()).await;
    assert!(report.succeeded(), "{:?}", report.failures.first());
    let snapshot = stage.stack.current().await.unwrap();
    let state = encode_stored(&snapshot).len();
    let written = stage.witness.lock().unwrap().bytes;
    println!(
        "{written} bytes for a state of {state}: {:.2}",
        written as f64 / state as f64
    );
    assert!(written <= 3 * state, "{written} bytes for a state of {state}");
    let again = stage.run(update(&thousand()), stage.usual()).await;
    assert!(again.succeeded() && !again.has_changes());
}

#[tokio::test]
async fn no_more_steps_are_under_way_at_once_than_may_be() {
    for limit in [1, 3, 10] {
        let stage = Stage::new(2).await;
        stage.world.moods(|_, _| (Mood::Well, 5, 5));
        let program: Vec<Spec> = (0..40).map(|number| spec(&format!("r{number}"))).collect();
        let mut run = stage.usual();
        run.options.parallel = limit;
        stage.run(update(&program), run).await;
        assert_eq!(stage.world.most_running(), limit);
    }
}
