//! Spooled results: provider results that are written to a local file because the store is unavailable. They are sealed
//! like the stack, and recorded later.

use super::*;
use state_core::mutation::Resolution;
use state_core::testkit::fault::{Fault, FaultPlan, FaultyBackend, Operation};
use state_core::{Backend, ErrorKind, Json, Outcome, Properties};
use state_encrypt::generate_identity;
use state_manager::{Error, Mutation, SpoolConflict, SpoolOutcome, SpoolPlacement, SpooledResult};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// The sensitive output, which must not be readable in the spool file of a sealed stack.
const CANARY: &str = "correct-horse-battery";

/// A created resource with a sensitive output, as a provider returns it.
fn made(name: &str) -> Entry {
    let outputs = Json::parse(&format!(r#"{{"password":"{CANARY}"}}"#)).unwrap();
    Entry {
        id: Some("i-17".to_owned()),
        outputs: Properties::new(outputs),
        sensitive_outputs: vec!["password".to_owned()],
        ..entry(name, &[])
    }
}

/// A session with a step that has begun. The append of its end will fail with this fault.
async fn begun(stacks: Stacks, plan: &FaultPlan, fault: Fault) -> (Session, Mutation) {
    let stack = stacks
        .get(&"shop/production".parse().unwrap())
        .await
        .unwrap()
        .unwrap();
    let session = stack.lock("deploy").await.unwrap();
    let update = start(&session).await;
    let step = update.begin(Intent::create(made("a"))).await.unwrap();
    plan.fail(Operation::Append, 0, fault);
    (session, step)
}

/// The path of the only file in a folder.
fn file_in(folder: &std::path::Path) -> PathBuf {
    let files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect();
    assert_eq!(files.len(), 1, "{files:?}");
    files[0].clone()
}

fn request() -> UpdateRequest {
    UpdateRequest::new(UpdateKind::Edit)
}

/// Takes the writer lock over from its holder, as the next client.
async fn taken_over(stacks: &Stacks) -> Session {
    let stack = stacks
        .get(&"shop/production".parse().unwrap())
        .await
        .unwrap()
        .unwrap();
    let seen = stack.lock_status().await.unwrap().epoch;
    stack.break_lock("next", seen).await.unwrap()
}

#[tokio::test]
async fn unrecorded_result_is_spooled_and_recorded_later() {
    for (fault, outcome, known) in [
        (Fault::BeforeEffect, Outcome::Succeeded, false),
        (Fault::BeforeEffect, Outcome::Partial, false),
        (Fault::BeforeEffect, Outcome::Failed, false),
        (Fault::AfterEffect, Outcome::Succeeded, true),
    ] {
        let (backend, _stack) = new_stack().await;
        let folder = tempfile::tempdir().unwrap();
        let wrapped = FaultyBackend::new(Arc::new(backend.clone()));
        let plan = wrapped.plan();
        let spool = folder.path().join("spool");
        let gone = Stacks::new(Arc::new(wrapped), environment(2)).with_spool(&spool);
        let (session, step) = begun(gone, &plan, fault).await;
        let id = step.id();
        let entry = (outcome != Outcome::Failed).then(|| made("a"));
        let reasons: Vec<String> = match outcome {
            Outcome::Partial => vec!["no disk".to_owned()],
            _ => Vec::new(),
        };
        let error = step.end(outcome, entry, reasons.clone()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Indeterminate);
        assert!(matches!(&error, Error::Indeterminate { mutations, .. } if *mutations == [id]));
        let file = file_in(&spool);
        assert!(error.to_string().contains(&*file.to_string_lossy()), "{error}");
        let mode = std::fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        session.close().await.unwrap_err();

        let next = taken_over(&stacks(&backend, 3)).await;
        let spooled = SpooledResult::read(&file).unwrap();
        let back = next.record_spooled(request(), &spooled).await.unwrap();
        assert_eq!(
            matches!(back, SpoolOutcome::Known),
            known,
            "{fault:?} {outcome:?}"
        );
        assert_eq!(next.state().pending().count(), 0);
        let entry = next.state().entry(&key("a")).cloned();
        let recorded = entry
            .as_ref()
            .map_or_else(Vec::new, |entry| entry.init_errors.clone());
        assert_eq!(recorded, reasons, "{fault:?} {outcome:?}");
        let id = entry.and_then(|entry| entry.id.clone());
        assert_eq!(id.as_deref(), (outcome != Outcome::Failed).then_some("i-17"));
        assert_eq!(
            next.record_spooled(request(), &spooled).await.unwrap(),
            SpoolOutcome::Known,
            "recording the result twice must change nothing"
        );
        next.close().await.unwrap();
    }
}

/// After a failed append the queue takes no results any more. The providers of steps that began before still return some.
#[tokio::test]
async fn result_after_a_failed_append_is_spooled_too() {
    let (backend, _stack) = new_stack().await;
    let folder = tempfile::tempdir().unwrap();
    let wrapped = FaultyBackend::new(Arc::new(backend.clone()));
    let plan = wrapped.plan();
    let stacks_with_spool = Stacks::new(Arc::new(wrapped), environment(2)).with_spool(folder.path());
    let name = "shop/production".parse().unwrap();
    let stack = stacks_with_spool.get(&name).await.unwrap().unwrap();
    let session = stack.lock("deploy").await.unwrap();
    let update = start(&session).await;
    let mut steps = Vec::new();
    for name in ["a", "b"] {
        steps.push(update.begin(Intent::create(made(name))).await.unwrap());
    }
    plan.fail(Operation::Append, 0, Fault::BeforeEffect);
    for (step, name) in steps.into_iter().zip(["a", "b"]) {
        let id = step.id();
        let error = step.succeed(Some(made(name))).await.unwrap_err();
        assert!(
            matches!(&error, Error::Indeterminate { mutations, .. } if *mutations == [id]),
            "{error}"
        );
    }
    drop((update, session));

    let next = taken_over(&stacks(&backend, 3)).await;
    let files = std::fs::read_dir(folder.path()).unwrap();
    for file in files {
        let spooled = SpooledResult::read(&file.unwrap().path()).unwrap();
        next.record_spooled(request(), &spooled).await.unwrap();
    }
    let state = next.state();
    let keys: Vec<_> = state.entries().map(|entry| entry.key().to_string()).collect();
    assert_eq!(keys.len(), 2, "{keys:?}");
    assert_eq!(state.pending().count(), 0);
    next.close().await.unwrap();
}

#[tokio::test]
async fn without_a_spool_folder_the_store_error_is_returned() {
    let (backend, _stack) = new_stack().await;
    let wrapped = FaultyBackend::new(Arc::new(backend));
    let plan = wrapped.plan();
    let (_session, step) = begun(
        Stacks::new(Arc::new(wrapped), environment(2)),
        &plan,
        Fault::BeforeEffect,
    )
    .await;
    let error = step.succeed(Some(made("a"))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotApplied);
}

#[tokio::test]
async fn spooled_result_of_a_sealed_stack_is_sealed() {
    let identity = generate_identity();
    let memory: Arc<dyn Backend> = Arc::new(MemoryBackend::new());
    let name = "shop/production".parse().unwrap();
    let plain = Stacks::new(Arc::clone(&memory), environment(1)).with_keys(keys(1, &identity));
    plain.new_stack(&name).await.unwrap();
    let wrapped = FaultyBackend::new(Arc::clone(&memory));
    let plan = wrapped.plan();
    let folder = tempfile::tempdir().unwrap();
    let gone = Stacks::new(Arc::new(wrapped), environment(2))
        .with_keys(keys(2, &identity))
        .with_spool(folder.path());
    let (session, step) = begun(gone, &plan, Fault::BeforeEffect).await;
    let reasons = vec![format!("the server said {CANARY}")];
    let error = step
        .end(Outcome::Partial, Some(made("a")), reasons)
        .await
        .unwrap_err();
    let file = file_in(folder.path());
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(
        !text.contains(CANARY) && !format!("{error:?}").contains(CANARY),
        "{text}"
    );
    drop(session);

    // The data key may have changed since the result was spooled.
    let next = taken_over(&plain).await;
    next.close().await.unwrap();
    let stack = plain.get(&name).await.unwrap().unwrap();
    stack
        .rekey("rekey", state_manager::Rekey::default())
        .await
        .unwrap();
    let next = stack.lock("next").await.unwrap();
    let spooled = SpooledResult::read(&file).unwrap();
    next.record_spooled(request(), &spooled).await.unwrap();
    next.close().await.unwrap();
    let stored = stack.current().await.unwrap();
    assert!(!outputs_of(&stored).contains(CANARY));
    assert!(!stored.entries[0].init_errors.concat().contains(CANARY));
    let open = stack.reveal(stored).await.unwrap();
    assert!(outputs_of(&open).contains(CANARY));
    assert!(stack.verify(true).await.unwrap().report.is_valid());
}

#[tokio::test]
async fn damaged_or_foreign_spool_file_is_refused() {
    let (backend, _stack) = new_stack().await;
    let folder = tempfile::tempdir().unwrap();
    let wrapped = FaultyBackend::new(Arc::new(backend));
    let plan = wrapped.plan();
    let gone = Stacks::new(Arc::new(wrapped), environment(2)).with_spool(folder.path());
    let (_session, step) = begun(gone, &plan, Fault::BeforeEffect).await;
    step.succeed(Some(made("a"))).await.unwrap_err();
    let file = file_in(folder.path());
    let spooled = SpooledResult::read(&file).unwrap();

    let other = MemoryBackend::default();
    let other = stacks(&other, 7)
        .new_stack_with(&"other".parse().unwrap(), SealingPolicy::Plaintext)
        .await
        .unwrap();
    let session = other.lock("work").await.unwrap();
    let refused = session.record_spooled(request(), &spooled).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict);

    let mut bytes = std::fs::read(&file).unwrap();
    bytes[40] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    assert_eq!(SpooledResult::read(&file).unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(
        SpooledResult::read(&folder.path().join("none"))
            .unwrap_err()
            .kind(),
        ErrorKind::NotFound
    );
}

/// The outputs of the snapshot's first resource, as JSON.
fn outputs_of(snapshot: &state_core::Snapshot) -> String {
    let outputs = snapshot.entries[0].outputs.clone();
    outputs.unwrap().json().as_str().to_owned()
}

/// An attacker can write to the spool folder and has no key: the attacker can compute the digest of a file, but not its
/// tag.
#[tokio::test]
async fn edited_or_untagged_spool_of_a_sealed_stack_is_refused() {
    let identity = generate_identity();
    let memory: Arc<dyn Backend> = Arc::new(MemoryBackend::new());
    let name = "shop/production".parse().unwrap();
    let stacks = Stacks::new(Arc::clone(&memory), environment(1)).with_keys(keys(1, &identity));
    stacks.new_stack(&name).await.unwrap();
    let wrapped = FaultyBackend::new(Arc::clone(&memory));
    let plan = wrapped.plan();
    let folder = tempfile::tempdir().unwrap();
    let gone = Stacks::new(Arc::new(wrapped), environment(2))
        .with_keys(keys(2, &identity))
        .with_spool(folder.path());
    let (session, step) = begun(gone, &plan, Fault::BeforeEffect).await;
    step.succeed(Some(made("a"))).await.unwrap_err();
    drop(session);
    let honest = SpooledResult::read(&file_in(folder.path())).unwrap();
    assert!(honest.tag.is_some());

    let changes: [fn(&mut SpooledResult); 5] = [
        |spooled| spooled.end.outcome = Outcome::Failed,
        |spooled| spooled.end.reasons.push("forged".to_owned()),
        |spooled| spooled.end.entry = None,
        |spooled| (spooled.key_id, spooled.tag) = (None, None),
        |spooled| spooled.key_id = Some(state_core::KeyId::from_bytes([7; 16]).unwrap()),
    ];
    let next = taken_over(&stacks).await;
    for change in changes {
        let mut forged = honest.clone();
        change(&mut forged);
        let refused = next.record_spooled(request(), &forged).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Distrusted, "{refused}");
        assert_eq!(next.state().pending().count(), 1);
    }
    next.record_spooled(request(), &honest).await.unwrap();
    assert_eq!(next.state().pending().count(), 0);
    next.close().await.unwrap();
}

/// A session on a stack whose operation was resolved by hand, and the spooled result of that operation.
async fn resolved_by_hand(resolution: Resolution) -> (MemoryBackend, Session, SpooledResult) {
    let (backend, _stack) = new_stack().await;
    let folder = tempfile::tempdir().unwrap();
    let wrapped = FaultyBackend::new(Arc::new(backend.clone()));
    let plan = wrapped.plan();
    let gone = Stacks::new(Arc::new(wrapped), environment(2)).with_spool(folder.path());
    let (session, step) = begun(gone, &plan, Fault::BeforeEffect).await;
    let id = step.id();
    step.succeed(Some(made("a"))).await.unwrap_err();
    drop(session);
    let spooled = SpooledResult::read(&file_in(folder.path())).unwrap();
    let next = taken_over(&stacks(&backend, 3)).await;
    next.resolve(request(), id, resolution).await.unwrap();
    (backend, next, spooled)
}

async fn conflict(session: &Session, spooled: &SpooledResult) -> SpoolConflict {
    let before = session.state().current().cloned();
    let outcome = session.record_spooled(request(), spooled).await.unwrap();
    assert_eq!(session.state().current().cloned(), before, "nothing is written");
    match outcome {
        SpoolOutcome::Conflict(conflict) => conflict,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn spooled_create_settled_as_not_done_is_a_conflict() {
    for placement in [SpoolPlacement::Entry, SpoolPlacement::Deposed] {
        let (_backend, session, spooled) = resolved_by_hand(Resolution::NotDone).await;
        let found = conflict(&session, &spooled).await;
        assert_eq!(
            (found.operation, &found.missing),
            (spooled.end.id, &Some(key("a")))
        );
        assert!(found.reason.contains("i-17"), "{}", found.reason);
        session
            .record_spooled_resource(request(), &spooled, placement)
            .await
            .unwrap();
        let state = session.state();
        let entry = state.entries().next().unwrap();
        assert_eq!(entry.id.as_deref(), Some("i-17"));
        assert_eq!(entry.is_live(), placement == SpoolPlacement::Entry);
        let again = session.record_spooled(request(), &spooled).await.unwrap();
        assert_eq!(again, SpoolOutcome::Known, "the state proves it now");
        session.close().await.unwrap();
    }
}

#[tokio::test]
async fn spooled_create_done_with_another_id_is_a_conflict() {
    let other = Entry {
        id: Some("i-18".to_owned()),
        ..made("a")
    };
    let (_backend, session, spooled) = resolved_by_hand(Resolution::Done(Some(Arc::new(other)))).await;
    let found = conflict(&session, &spooled).await;
    assert_eq!(found.missing, Some(key("a")), "{}", found.reason);
    let refused = session
        .record_spooled_resource(request(), &spooled, SpoolPlacement::Entry)
        .await
        .unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict);
    assert!(refused.to_string().contains("i-18"), "{refused}");
    session
        .record_spooled_resource(request(), &spooled, SpoolPlacement::Deposed)
        .await
        .unwrap();
    let ids: Vec<_> = session.state().entries().map(|entry| entry.id.clone()).collect();
    assert_eq!(ids, [Some("i-18".to_owned()), Some("i-17".to_owned())]);
    session.close().await.unwrap();
}
