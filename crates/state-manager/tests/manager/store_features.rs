//! Features of stacks beyond updates: crypters, pages of the history, logs, exported deployments, and logout.

use super::*;
use state_core::backend::{Backend, ObjectKind};
use state_core::crypter::CrypterProvider;
use state_core::testkit::fault::{Fault, FaultyBackend, Operation};
use state_core::{Crypter, ErrorKind, Lineage, LogLevel, LogLine, Result, RevisionId, StackName, Timestamp};
use state_manager::LogQuery;

/// Supplies the crypter [`Reverse`] for the stack with this lineage.
#[derive(Debug)]
struct Keys(Lineage);

impl CrypterProvider for Keys {
    fn crypter(&self, _name: &StackName, lineage: Lineage) -> Result<Arc<dyn Crypter>> {
        assert_eq!(lineage, self.0);
        Ok(Arc::new(Reverse))
    }
}

/// Encrypts a text by reversing it.
#[derive(Debug)]
struct Reverse;

impl Crypter for Reverse {
    fn encrypt(&self, _context: &str, plaintext: &[u8]) -> Result<String> {
        Ok(plaintext.iter().rev().map(|&b| char::from(b)).collect())
    }

    fn decrypt(&self, _context: &str, ciphertext: &str) -> Result<Vec<u8>> {
        Ok(ciphertext.bytes().rev().collect())
    }
}

#[tokio::test]
async fn configured_provider_supplies_the_crypter() {
    let (backend, stack) = new_stack().await;
    let stacks = stacks(&backend, 2);
    let without = stacks.crypter(stack.name()).await.unwrap_err();
    assert_eq!(without.kind(), ErrorKind::Sealed);
    let stacks = stacks.with_crypters(Arc::new(Keys(stack.lineage())));
    let crypter = stacks.crypter(stack.name()).await.unwrap();
    let sealed = crypter.encrypt("config", b"abc").unwrap();
    assert_eq!(crypter.decrypt("config", &sealed).unwrap(), b"abc");
    let missing = stacks.crypter(&"no/body".parse().unwrap()).await.unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    stacks.logout().await.unwrap();
}

#[tokio::test]
async fn history_pages_concatenate_to_the_whole_history() {
    let (backend, stack) = new_stack().await;
    for round in 0..7 {
        deploy(&stack, &[&format!("e{round}")]).await;
    }
    let session = stack.lock("x").await.unwrap();
    let forgotten = stack.list().await.unwrap()[3].clone();
    session.delete(&forgotten).await.unwrap();
    session.close().await.unwrap();
    let whole = stack.history().await.unwrap();
    assert_eq!(whole.len(), 6);
    for size in 1..=7 {
        let mut pages = Vec::new();
        let mut before: Option<RevisionId> = None;
        loop {
            let page = stack.history_page(before.as_ref(), size).await.unwrap();
            assert!(page.len() <= size);
            let Some(last) = page.last() else { break };
            before = Some(last.id.clone());
            pages.extend(page);
        }
        assert_eq!(pages, whole, "in pages of {size}");
    }
    assert_eq!(stack.history_page(None, 0).await.unwrap(), []);
    let objects = backend.list(stack.lineage(), ObjectKind::Update).await.unwrap();
    assert_eq!(
        objects,
        [],
        "no history page may be stored while all revisions are in the journal"
    );
}

/// A log line, about a resource if `about` names one.
fn line(time: &str, level: LogLevel, about: Option<&str>, message: &str) -> LogLine {
    let line = LogLine::new(Timestamp::new(time), level, message);
    match about {
        Some(name) => line.about(address(name)),
        None => line,
    }
}

/// Runs an update that logs these lines.
async fn log_lines(stack: &Stack, lines: &[LogLine]) -> RevisionId {
    let session = stack.lock("deploy").await.unwrap();
    let update = start(&session).await;
    for line in lines {
        update.clone().log(line);
    }
    let revision = update.finish(UpdateResult::Succeeded).await.unwrap();
    session.close().await.unwrap();
    revision
}

/// The messages of the log lines that a query finds.
async fn messages(stack: &Stack, query: LogQuery) -> Vec<String> {
    let lines = stack.logs(&query).await.unwrap();
    lines.into_iter().map(|stored| stored.line.message).collect()
}

#[tokio::test]
async fn logs_are_stored_by_update_and_found_by_queries() {
    use LogLevel::{Debug, Error, Info};
    let (_, stack) = new_stack().await;
    log_lines(
        &stack,
        &[
            line("2026-01-01T00:00:00Z", Info, None, "begin"),
            line("2026-01-01T00:00:00.5Z", Debug, Some("module.net.vpc"), "half"),
            line("2026-01-01T02:00:00+02:00", Info, Some("module.network"), "zone"),
        ],
    )
    .await;
    log_lines(&stack, &[]).await;
    let third = log_lines(
        &stack,
        &[line("2026-01-01T01:00:00Z", Error, Some("module.net"), "late")],
    )
    .await;
    let all = LogQuery::default;
    assert_eq!(messages(&stack, all()).await, ["begin", "half", "zone", "late"]);
    let level = Some(Info);
    assert_eq!(
        messages(&stack, LogQuery { level, ..all() }).await,
        ["begin", "zone", "late"]
    );
    let address = Some(address("module.net"));
    assert_eq!(
        messages(&stack, LogQuery { address, ..all() }).await,
        ["half", "late"],
        "the query must match children, but not names with the same prefix"
    );
    let update = Some(third.serial());
    assert_eq!(messages(&stack, LogQuery { update, ..all() }).await, ["late"]);
    let since = Some(Timestamp::new("2026-01-01T00:00:00.1Z"));
    let until = Some(Timestamp::new("2026-01-01T01:00:00Z"));
    let spans = LogQuery {
        since: since.clone(),
        until: until.clone(),
        ..all()
    };
    assert_eq!(messages(&stack, spans).await, ["half"]);
    assert_eq!(
        messages(&stack, LogQuery { until, ..all() }).await,
        ["begin", "half", "zone"]
    );
    assert_eq!(
        messages(&stack, LogQuery { since, ..all() }).await,
        ["half", "late"]
    );
    let limit = Some(2);
    assert_eq!(
        messages(&stack, LogQuery { limit, ..all() }).await,
        ["zone", "late"]
    );
    let since = Some(Timestamp::new("yesterday"));
    let wrong = stack.logs(&LogQuery { since, ..all() }).await.unwrap_err();
    assert_eq!(wrong.kind(), ErrorKind::Invalid);
}

#[tokio::test]
async fn failure_to_store_a_log_does_not_hide_its_revision() {
    // The end of the update tries to store the log. If this fails, the close of the session tries again.
    for (failures, kept) in [(0, true), (1, true), (2, false)] {
        let (backend, stack) = new_stack().await;
        let wrapped = FaultyBackend::new(Arc::new(backend.clone()));
        let plan = wrapped.plan();
        let stacks = Stacks::new(Arc::new(wrapped), environment(2));
        let faulty = stacks.get(stack.name()).await.unwrap().unwrap();
        let session = faulty.lock("deploy").await.unwrap();
        let update = start(&session).await;
        update.log(&line("2026-01-01T00:00:00Z", LogLevel::Info, None, "said"));
        let before = plan.calls(Operation::Create);
        for call in 0..failures {
            plan.fail(Operation::Create, call, Fault::BeforeEffect);
        }
        let revision = update.finish(UpdateResult::Succeeded).await.unwrap();
        let closed = session.close().await;
        assert_eq!(stack.current_rev().await.unwrap(), revision);
        let attempts = plan.calls(Operation::Create) - before;
        assert_eq!(
            attempts,
            if failures == 0 { 1 } else { 2 },
            "no object except the log may be created"
        );
        if kept {
            closed.unwrap();
            assert_eq!(messages(&stack, LogQuery::default()).await, ["said"]);
        } else {
            let error = closed.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotApplied, "{error}");
            // The reader reports the missing log instead.
            let shown = messages(&stack, LogQuery::default()).await;
            assert!(!shown.iter().any(|message| message == "said"), "{shown:?}");
        }
    }
}

#[tokio::test]
async fn exported_deployment_can_be_imported_again() {
    let (backend, stack) = new_stack().await;
    deploy(&stack, &["a", "b"]).await;
    let stacks = stacks(&backend, 2);
    let exported = stacks.export_deployment(stack.name()).await.unwrap();
    assert_eq!(exported.version, 1);
    let import = |exported: state_core::UntypedDeployment, forced: bool| {
        let request = UpdateRequest {
            forced,
            ..UpdateRequest::new(UpdateKind::Import)
        };
        let stacks = stacks.clone();
        let name = stack.name().clone();
        async move { stacks.import_deployment(&name, &exported, request).await }
    };
    import(exported.clone(), false).await.unwrap();
    assert_eq!(names(&stack).await, ["a", "b"]);
    let stale = import(exported.clone(), false).await.unwrap_err();
    assert_eq!(
        stale.kind(),
        ErrorKind::Conflict,
        "the deployment must be outdated after its own import made a newer revision"
    );
    assert!(stale.to_string().contains("serial 1"), "{stale}");

    let other = stacks.new_stack(&"shop/other".parse().unwrap()).await.unwrap();
    deploy(&other, &["c"]).await;
    let foreign = stacks.export_deployment(other.name()).await.unwrap();
    let unrelated = import(foreign.clone(), false).await.unwrap_err();
    assert_eq!(unrelated.kind(), ErrorKind::Conflict);
    import(foreign, true).await.unwrap();
    assert_eq!(names(&stack).await, ["c"]);

    let newer = state_core::UntypedDeployment {
        version: 3,
        ..exported
    };
    assert_eq!(import(newer, true).await.unwrap_err().kind(), ErrorKind::Format);
}

#[tokio::test]
async fn deployment_with_pending_operations_is_refused() {
    let (backend, stack) = new_stack().await;
    let stacks = stacks(&backend, 2);
    let session = stack.lock("deploy").await.unwrap();
    let update = start(&session).await;
    drop(update.begin(Intent::create(entry("a", &[]))).await.unwrap());
    update.finish(UpdateResult::Failed).await.unwrap();
    session.close().await.unwrap();
    let exported = stacks.export_deployment(stack.name()).await.unwrap();
    let request = || UpdateRequest::new(UpdateKind::Import);
    let other = stacks.new_stack(&"shop/other".parse().unwrap()).await.unwrap();
    let refused = stacks
        .import_deployment(other.name(), &exported, request())
        .await
        .unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict);
    assert!(refused.to_string().contains("pending"), "{refused}");
    stacks
        .import_deployment(stack.name(), &exported, request())
        .await
        .unwrap();
    assert_eq!(stack.tip().await.unwrap().state.pending().count(), 1);
}
