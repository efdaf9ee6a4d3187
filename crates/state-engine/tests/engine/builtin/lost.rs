//! Tests of a password whose create couldn't be recorded. After every way to settle the operation, the next run
//! succeeds, and all dependent resources use the recorded password.

use super::file_text;
use crate::harness::{Harness, environment};
use state_core::mutation::Resolution;
use state_core::testkit::fault::{Fault, Operation as Call};
use state_core::{Entry, Op, UpdateKind};
use state_engine::builtin::registry;
use state_engine::program::Program;
use state_engine::{Engine, Operation, Report, Run};
use state_manager::{SpoolOutcome, SpooledResult, UpdateRequest};
use std::collections::BTreeMap;
use std::path::Path;
use tempfile::TempDir;

const PROGRAM: &str = r#"
resources:
  password:
    kind: "random:password"
  page:
    kind: file
    inputs:
      path: page
      content: "the password is ${password.result}"
outputs:
  password: ${password.result}
"#;

async fn update() -> Operation {
    let program = Program::parse("p.yaml", PROGRAM.as_bytes()).unwrap();
    let configured = program.configure(BTreeMap::new(), None).await.unwrap();
    Operation::Update(Box::new(configured.into_source().unwrap()))
}

fn run(folder: &Path) -> Run {
    let mut run = Run::new(registry(&environment(7), folder));
    run.options.timeout = None;
    run
}

/// Runs an update that must succeed, and checks that the page contains the recorded password.
async fn done(harness: &Harness, folder: &Path) -> Report {
    let report = harness.run(update().await, run(folder)).await;
    assert!(report.succeeded() && report.pending.is_empty(), "{report:?}");
    let snapshot = harness.stack.current().await.unwrap();
    let open = harness.stack.reveal(snapshot).await.unwrap();
    let password = open.outputs["password"].view().as_str().unwrap().into_owned();
    assert_eq!(password.chars().count(), 24);
    assert_eq!(file_text(folder, "page"), format!("the password is {password}"));
    report
}

/// Runs an update whose append number `after`, counted from 0, fails. Then breaks the lock that the run still holds.
async fn fail(harness: &Harness, engine: &Engine, folder: &Path, after: usize, fault: Fault) {
    harness.faults.fail(Call::Append, after, fault);
    let ended = engine.run(&harness.name, update().await, run(folder)).await;
    let is_stopped = ended.map_or(true, |report| report.stopped_by.is_some());
    assert!(is_stopped, "the run must stop at append {after}");
    harness.free().await;
}

/// Runs an update that records the intent of the password's create, but not its result. Returns the working directory.
async fn unrecorded(harness: &Harness, engine: &Engine) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fail(harness, engine, folder.path(), RESULT, Fault::BeforeEffect).await;
    let state = harness.state();
    let pending: Vec<String> = state
        .pending()
        .map(|pending| format!("{} {}", pending.op, pending.target))
        .collect();
    assert_eq!(pending, ["create password"]);
    folder
}

/// Number of the append that stores the result of the password. Append 0 stores the start of the update, and append 1
/// the intent.
const RESULT: usize = 2;

#[tokio::test]
async fn next_run_succeeds_after_any_failed_append() {
    for fault in [Fault::BeforeEffect, Fault::AfterEffect] {
        for after in 0..5 {
            let harness = Harness::sealed(1).await;
            let folder = tempfile::tempdir().unwrap();
            fail(&harness, &harness.engine, folder.path(), after, fault).await;
            done(&harness, folder.path()).await;
            let again = done(&harness, folder.path()).await;
            assert!(!again.has_changes(), "{after} {fault:?}: {again:?}");
        }
    }
}

#[tokio::test]
async fn spooled_password_is_kept_after_it_is_restored() {
    let harness = Harness::sealed(2).await;
    // The spool is a local folder for results that the store didn't accept.
    let spool = tempfile::tempdir().unwrap();
    let spooling = harness.stacks.clone().with_spool(spool.path());
    let engine = Engine::new(spooling, environment(3));
    let folder = unrecorded(&harness, &engine).await;
    let mut files = std::fs::read_dir(spool.path()).unwrap();
    let spooled = SpooledResult::read(&files.next().unwrap().unwrap().path()).unwrap();
    assert!(files.next().is_none());
    let session = harness.lock().await;
    let request = UpdateRequest::new(UpdateKind::Edit);
    let back = session.record_spooled(request, &spooled).await.unwrap();
    assert!(matches!(back, SpoolOutcome::Recorded(_)), "{back:?}");
    session.close().await.unwrap();
    let kept = harness.entry("password").unwrap();
    done(&harness, folder.path()).await;
    assert_eq!(harness.entry("password").unwrap().id, kept.id);
}

#[tokio::test]
async fn password_recorded_without_its_value_is_replaced() {
    let harness = Harness::sealed(4).await;
    let folder = unrecorded(&harness, &harness.engine).await;
    // The user resolves the operation as done, with an id but without the password.
    let session = harness.lock().await;
    let state = session.state();
    let pending = state.pending().find(|pending| pending.op == Op::Create).unwrap();
    let mut entry = Entry::clone(pending.entry.as_ref().unwrap());
    entry.id = Some("it".to_owned());
    let done_by_hand = Resolution::Done(Some(entry.into()));
    let request = UpdateRequest::new(UpdateKind::Edit);
    session.resolve(request, pending.id, done_by_hand).await.unwrap();
    session.close().await.unwrap();
    let planned = harness.preview(update().await, run(folder.path())).await;
    assert!(planned.succeeded() && planned.has_changes(), "{planned:?}");
    done(&harness, folder.path()).await;
    assert!(!done(&harness, folder.path()).await.has_changes());
}
