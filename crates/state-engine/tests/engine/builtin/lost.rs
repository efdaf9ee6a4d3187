//! A password whose create couldn't be recorded: whatever is done about it, the next run ends well, and all that is made
//! of the password is made of the one that is on record.

use super::file_text;
use crate::stage::{Stage, environment};
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

/// It must go well, and the page has the password that is on record.
async fn done(stage: &Stage, folder: &Path) -> Report {
    let report = stage.run(update().await, run(folder)).await;
    assert!(report.succeeded() && report.pending.is_empty(), "{report:?}");
    let snapshot = stage.stack.current().await.unwrap();
    let open = stage.stack.reveal(snapshot).await.unwrap();
    let password = open.outputs["password"].view().as_str().unwrap().into_owned();
    assert_eq!(password.chars().count(), 24);
    assert_eq!(file_text(folder, "page"), format!("the password is {password}"));
    report
}

/// A run whose append fails that comes after so many.
async fn fail(stage: &Stage, engine: &Engine, folder: &Path, after: usize, fault: Fault) {
    stage.faults.fail(Call::Append, after, fault);
    let ended = engine.run(&stage.name, update().await, run(folder)).await;
    let is_stopped = ended.map_or(true, |report| report.stopped_by.is_some());
    assert!(is_stopped, "the append after {after} was to fail");
    stage.free().await;
}

/// A password was made, its intent is on record, and its result isn't.
async fn unrecorded(stage: &Stage, engine: &Engine) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fail(stage, engine, folder.path(), RESULT, Fault::BeforeEffect).await;
    let state = stage.state();
    let pending: Vec<String> = state
        .pending()
        .map(|pending| format!("{} {}", pending.op, pending.target))
        .collect();
    assert_eq!(pending, ["create password"]);
    folder
}

/// The append that has the password's result: after those of the update's start and of the intent.
const RESULT: usize = 2;

#[tokio::test]
async fn the_next_run_makes_a_new_one_whichever_append_failed() {
    for fault in [Fault::BeforeEffect, Fault::AfterEffect] {
        for after in 0..5 {
            let stage = Stage::sealed(1).await;
            let folder = tempfile::tempdir().unwrap();
            fail(&stage, &stage.engine, folder.path(), after, fault).await;
            done(&stage, folder.path()).await;
            let again = done(&stage, folder.path()).await;
            assert!(!again.has_changes(), "{after} {fault:?}: {again:?}");
        }
    }
}

#[tokio::test]
async fn a_result_that_was_kept_in_a_file_is_the_one_once_it_is_brought_back() {
    let stage = Stage::sealed(2).await;
    let spool = tempfile::tempdir().unwrap();
    let spooling = stage.stacks.clone().with_spool(spool.path());
    let engine = Engine::new(spooling, environment(3));
    let folder = unrecorded(&stage, &engine).await;
    let mut files = std::fs::read_dir(spool.path()).unwrap();
    let spooled = SpooledResult::read(&files.next().unwrap().unwrap().path()).unwrap();
    assert!(files.next().is_none());
    let session = stage.lock().await;
    let request = UpdateRequest::new(UpdateKind::Edit);
    let back = session.record_spooled(request, &spooled).await.unwrap();
    assert!(matches!(back, SpoolOutcome::Recorded(_)), "{back:?}");
    session.close().await.unwrap();
    let kept = stage.entry("password").unwrap();
    done(&stage, folder.path()).await;
    assert_eq!(stage.entry("password").unwrap().id, kept.id);
}

#[tokio::test]
async fn a_password_that_is_on_record_without_its_value_is_made_anew() {
    let stage = Stage::sealed(4).await;
    let folder = unrecorded(&stage, &stage.engine).await;
    // Somebody says that it was done, and knows no more than an id.
    let session = stage.lock().await;
    let state = session.state();
    let pending = state.pending().find(|pending| pending.op == Op::Create).unwrap();
    let mut entry = Entry::clone(pending.entry.as_ref().unwrap());
    entry.id = Some("it".to_owned());
    let done_by_hand = Resolution::Done(Some(entry.into()));
    let request = UpdateRequest::new(UpdateKind::Edit);
    session.resolve(request, pending.id, done_by_hand).await.unwrap();
    session.close().await.unwrap();
    let planned = stage.preview(update().await, run(folder.path())).await;
    assert!(planned.succeeded() && planned.has_changes(), "{planned:?}");
    done(&stage, folder.path()).await;
    assert!(!done(&stage, folder.path()).await.has_changes());
}
