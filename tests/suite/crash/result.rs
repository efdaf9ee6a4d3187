//! Promise P7 of `docs/architecture.md`: a provider's result that violates a rule is kept with its pending operation.

use crate::store::{block_on, stack, verify};
use state_core::mutation::Resolution;
use state_core::verify::Rule;
use state_core::{Address, Dependency, Entry, EntryKey, ErrorKind, Op, Outcome, UpdateKind, UpdateResult};
use state_manager::{Intent, Session, UpdateRequest};
use state_tests::workload;
use std::path::Path;
use std::sync::Arc;

#[test]
fn result_that_violates_a_rule_is_kept_as_pending() {
    let dir = tempfile::tempdir().expect("a folder");
    block_on(async {
        let id = break_a_rule(dir.path()).await;
        let stack = stack(dir.path()).await.expect("the stack opens");
        let tip = stack.tip().await.expect("the tip can be read");
        let pending: Vec<_> = tip.state.pending().collect();
        assert_eq!(
            pending.len(),
            1,
            "only the operation with the refused result must be pending"
        );
        assert_eq!((pending[0].id, pending[0].op), (id, Op::Create));
        let result = pending[0].result.as_ref().expect("the result is kept");
        let entry = result.entry.as_ref().expect("the entry of the result is kept");
        assert_eq!(result.outcome, Outcome::Succeeded);
        assert_eq!(
            entry.id.as_deref(),
            Some("i-4711"),
            "the provider's id must be kept"
        );
        assert_eq!(
            entry.outputs,
            Some(workload::outputs("i-4711")),
            "the outputs must be kept"
        );
        assert!(!result.violations.is_empty(), "the violations must be kept");
        assert!(!tip.is_reliable(), "the state must be marked as unreliable");
        assert_eq!(tip.state.len(), 0, "the state must have no entry");

        let session = stack.lock("resolve").await.expect("the stack can be locked");
        resolve(&session, id).await;
        session.close().await.expect("the session closes");
        verify(&stack).await;
    });
}

/// Begins a create, deletes the entry on which the create depends, and ends the create with a result that still has
/// this dependency. Returns the id of the create.
async fn break_a_rule(dir: &Path) -> state_core::MutationId {
    let stack = stack(dir).await.expect("a new stack");
    let session = stack.lock("break a rule").await.expect("the stack can be locked");
    let update = session
        .start_update(UpdateRequest::new(UpdateKind::Update))
        .await
        .expect("an update starts");
    let base = Entry::leaf(address("base"), "thing");
    let begun = update
        .begin(Intent::create(base.clone()))
        .await
        .expect("the begin is recorded");
    assert!(
        begun
            .succeed(Some(base))
            .await
            .expect("the end is recorded")
            .is_empty()
    );

    let top = Entry {
        depends_on: vec![Dependency::Entry(address("base"))],
        ..Entry::leaf(address("top"), "thing")
    };
    let create = update
        .begin(Intent::create(top.clone()))
        .await
        .expect("the begin is recorded");
    let delete = Intent::delete(EntryKey::live(address("base")));
    let deleted = update
        .begin(delete)
        .await
        .expect("no entry depends on `base` yet");
    assert!(
        deleted
            .succeed(None)
            .await
            .expect("the end is recorded")
            .is_empty()
    );

    let id = create.id();
    let made = Entry {
        id: Some("i-4711".to_owned()),
        outputs: Some(workload::outputs("i-4711")),
        ..top
    };
    let violations = create.succeed(Some(made)).await.expect("the result is recorded");
    let rules: Vec<_> = violations.iter().map(|violation| violation.rule).collect();
    assert_eq!(rules, [Rule::ReferenceExists], "the caller must get violations");
    let revision = update
        .finish(UpdateResult::Failed)
        .await
        .expect("the update ends");
    let refused = session
        .rollback(UpdateRequest::new(UpdateKind::Rollback), &revision)
        .await
        .expect_err("a rollback is refused while an operation is pending");
    assert_eq!(refused.kind(), ErrorKind::Conflict);
    session.close().await.expect("the session closes");
    id
}

/// Resolves the operation as done, with the entry of the kept result. Removes the dependencies of the entry, because
/// they violate a rule.
async fn resolve(session: &Session, id: state_core::MutationId) {
    let pending = session.recovered()[0].clone();
    let entry = pending
        .result
        .and_then(|result| result.entry)
        .expect("the result is kept");
    let mended = Entry {
        depends_on: Vec::new(),
        ..Entry::clone(&entry)
    };
    let resolution = Resolution::Done(Some(Arc::new(mended)));
    session
        .resolve(UpdateRequest::new(UpdateKind::Edit), id, resolution)
        .await
        .expect("the operation is resolved");
    let state = session.state();
    assert_eq!(state.pending().count(), 0);
    let kept = state
        .entry(&EntryKey::live(address("top")))
        .expect("the entry is in the state");
    assert_eq!(kept.id.as_deref(), Some("i-4711"));
}

fn address(text: &str) -> Address {
    text.parse().expect("an address")
}
