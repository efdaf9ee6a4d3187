//! Tests of calls whose effect the engine can't know: their operations stay pending, and the next run finds out.

use crate::cloud::CallMode;
use crate::harness::Harness;
use crate::program::{Spec, spec, update};
use state_core::Op;
use state_engine::Operation;
use std::time::Duration;

/// Fails a create, an update and a delete in this mode. Asserts that each operation stays pending, and that the next run
/// settles it by the objects that exist.
async fn is_pending_until_the_next_run(mode: CallMode) {
    let old = [spec("a"), spec("b")];
    let steps: [(&str, Op, &[Spec]); 3] = [
        ("create", Op::Create, &[spec("a"), spec("b"), spec("c")]),
        ("update", Op::Update, &[spec("a").size(2), spec("b")]),
        ("delete", Op::Delete, &[spec("b")]),
    ];
    for (failing, op, new) in steps {
        let harness = Harness::new(1).await;
        harness.run(update(&old), harness.default_run()).await;
        harness
            .cloud
            .set_modes(move |what, _| (if what == failing { mode } else { CallMode::Normal }, 0, 0));
        let mut run = harness.default_run();
        run.options.timeout =
            matches!(mode, CallMode::Hangs | CallMode::HangsAfter).then_some(Duration::from_secs(60));
        let report = harness.run(update(new), run).await;
        harness.cloud.calm();
        let pending: Vec<Op> = report.pending.iter().map(|operation| operation.op).collect();
        assert_eq!(pending, [op], "{mode:?}: {report:?}");
        assert_eq!(
            report.failures[0].pending,
            Some(report.pending[0].id),
            "{report:?}"
        );
        let recorded: Vec<Op> = harness.state().pending().map(|operation| operation.op).collect();
        assert_eq!(recorded, [op], "{mode:?}: the store has the operation");
        // The outcome is found out by a read, so nothing is created, updated or deleted twice.
        let had_effect = matches!(
            mode,
            CallMode::HangsAfter | CallMode::PanicAfter | CallMode::UnknownAfter
        );
        harness.cloud.forget_calls();
        let settled = harness.run(update(new), harness.default_run()).await;
        assert!(
            settled.succeeded() && settled.pending.is_empty(),
            "{mode:?}: {settled:?}"
        );
        assert_eq!(
            harness.cloud.calls().len(),
            usize::from(!had_effect),
            "{mode:?}: {:?}",
            harness.cloud.calls()
        );
        assert_eq!(harness.cloud.things().len(), new.len());
        let end = harness.run(Operation::Destroy, harness.default_run()).await;
        assert!(
            end.succeeded() && harness.cloud.things().is_empty(),
            "{mode:?}: {end:?}"
        );
        assert_eq!(harness.complaints(), Vec::<String>::new());
    }
}

#[tokio::test]
async fn timed_out_call_is_pending_until_the_next_run() {
    is_pending_until_the_next_run(CallMode::Hangs).await;
    is_pending_until_the_next_run(CallMode::HangsAfter).await;
}

#[tokio::test]
async fn panicked_call_is_pending_until_the_next_run() {
    is_pending_until_the_next_run(CallMode::PanicBefore).await;
    is_pending_until_the_next_run(CallMode::PanicAfter).await;
}

#[tokio::test]
async fn call_that_failed_unknown_is_pending_until_the_next_run() {
    is_pending_until_the_next_run(CallMode::UnknownBefore).await;
    is_pending_until_the_next_run(CallMode::UnknownAfter).await;
}

/// An update whose outcome was unknown is settled by two records: the current object, and the resolution. If a crash
/// came after the resolution only, the recorded object would be the old one, and nothing would be pending.
#[tokio::test]
async fn crash_while_settling_leaves_it_pending_or_records_the_object() {
    let mut crashes = 0;
    for at in 0.. {
        let harness = Harness::new(2).await;
        harness.run(update(&[spec("a")]), harness.default_run()).await;
        harness.cloud.set_modes(|what, _| {
            let mode = if what == "update" {
                CallMode::UnknownAfter
            } else {
                CallMode::Normal
            };
            (mode, 0, 0)
        });
        harness
            .run(update(&[spec("a").size(2)]), harness.default_run())
            .await;
        harness.cloud.calm();
        let crash = std::sync::Arc::new(tokio::sync::Notify::new());
        let crashes_here = std::sync::Arc::clone(&crash);
        harness.at_append(at, false, move || crashes_here.notify_one());
        let crashed = tokio::select! {
            biased;
            () = crash.notified() => true,
            _ = harness.engine.run(&harness.name, Operation::Refresh, harness.default_run()) => false,
        };
        harness.check_only();
        harness.free().await;
        let recorded = harness.entry("a").unwrap();
        let size = recorded
            .inputs
            .as_ref()
            .and_then(|inputs| inputs.get("size").map(|size| size.text().to_owned()));
        let is_pending = harness.state().pending().count() > 0;
        assert!(
            is_pending || size.as_deref() == Some("2"),
            "append {at}: nothing is pending, and the recorded size is {size:?}"
        );
        let back = harness.run(update(&[spec("a")]), harness.default_run()).await;
        assert!(back.succeeded(), "{back:?}");
        let thing = harness.cloud.things().remove("i-1").unwrap();
        assert_eq!(thing.inputs.get("size").unwrap().text(), "1", "append {at}");
        if !crashed {
            break;
        }
        crashes += 1;
    }
    assert!(crashes >= 2, "only {crashes} crashes");
}
