//! Tests of approvals: a command that is only in the state, and not in the program, doesn't run without approval.

mod derived;

use super::{ProviderHarness, goal, refusals, shell, update};
use state_engine::settle::{Decision, Decisions};
use state_engine::{Basis, CommandApprovals, Goal, Operation, Report, ResourceCommand, Run};

/// A resource whose commands each append a line to the file `log`.
fn job() -> Goal {
    shell(&[
        ("create", "echo create >> log"),
        ("read", "echo read >> log"),
        ("update", "echo update >> log"),
        ("delete", "echo delete >> log"),
        ("stdin", "a"),
    ])
}

impl ProviderHarness {
    /// A run on a client that has never run the program, and so has no approvals.
    fn strange_run(&self) -> Run {
        let mut run = self.default_run();
        run.approvals = CommandApprovals::default();
        run
    }

    /// A harness whose state contains the commands of `job`, with an empty log.
    async fn with_recorded_job() -> Self {
        let harness = Self::new().await;
        harness.done(&[job()]).await;
        harness.put("log", "");
        harness
    }

    #[track_caller]
    fn assert_nothing_ran(&self, report: &Report) {
        assert!(
            refusals(report).contains("isn't approved on this client"),
            "{report:?}"
        );
        assert_eq!(self.text("log"), "");
    }
}

#[tokio::test]
async fn refresh_runs_no_command_that_only_the_state_names() {
    let harness = ProviderHarness::with_recorded_job().await;
    let report = harness.run(Operation::Refresh, harness.strange_run()).await;
    harness.assert_nothing_ran(&report);
    assert!(
        report.revision.is_none(),
        "the run must end before it begins an update"
    );
}

#[tokio::test]
async fn destroy_runs_no_command_that_only_the_state_names() {
    let harness = ProviderHarness::with_recorded_job().await;
    let run = harness.strange_run();
    let approvals = run.approvals.clone();
    let report = harness.run(Operation::Destroy, run).await;
    assert_eq!(harness.text("log"), "");
    assert!(
        report.revision.is_none(),
        "the run must end before it begins an update"
    );
    let mut refused: Vec<_> = approvals.refused().iter().map(|it| it.command.name).collect();
    refused.sort_unstable();
    assert_eq!(refused, ["delete", "read"]);
    assert!(harness.entry("job").await.is_some());
}

#[tokio::test]
async fn update_runs_no_unapproved_delete_command() {
    let harness = ProviderHarness::with_recorded_job().await;
    let report = harness.run(update(&[]), harness.strange_run()).await;
    assert_eq!(harness.text("log"), "");
    assert!(report.revision.is_none());
}

#[tokio::test]
async fn unapproved_plan_is_not_executed_when_applied_anyway() {
    let harness = ProviderHarness::with_recorded_job().await;
    let session = harness.stack.lock("test").await.unwrap();
    let planned = harness
        .engine
        .plan(Basis::locked(&session), Operation::Destroy, harness.strange_run());
    let report = harness
        .engine
        .apply(&session, planned.await.unwrap())
        .await
        .unwrap();
    session.close().await.unwrap();
    harness.assert_nothing_ran(&report);
    assert!(harness.entry("job").await.is_some());
}

#[tokio::test]
async fn approval_covers_the_same_command_of_another_resource() {
    let harness = ProviderHarness::new().await;
    let mut other = job();
    other.address = "other".parse().unwrap();
    harness.done(&[job(), other]).await;
    harness.put("log", "");
    let run = harness.strange_run();
    let read = harness.approvals_of("job", "read").await;
    run.approvals.approve([read]);
    // Both resources have the same `read` command, so one approval covers both.
    assert!(harness.run(Operation::Refresh, run).await.succeeded());
    assert_eq!(harness.text("log"), "read\nread\n");
}

impl ProviderHarness {
    /// The digest by which the recorded command `name` of a resource is approved.
    async fn approvals_of(&self, address: &str, name: &str) -> state_engine::state_core::Digest {
        let basis = Basis::tip(&self.stack).await.unwrap();
        let found = self.engine.unapproved_commands(basis, &self.strange_run()).await;
        let found = found.unwrap();
        let its = |it: &&state_engine::UnapprovedCommand| {
            it.key.address.as_str() == address && it.command.name == name
        };
        found.iter().find(its).unwrap().digest
    }
}

#[tokio::test]
async fn destroy_requires_approval_of_delete_and_read() {
    let harness = ProviderHarness::with_recorded_job().await;
    let run = harness.strange_run();
    run.approvals
        .approve([harness.approvals_of("job", "delete").await]);
    let refused = harness.run(Operation::Destroy, run.clone()).await;
    assert_eq!(
        harness.text("log"),
        "",
        "`read` may follow a failed delete, so it needs approval too"
    );
    assert!(refused.revision.is_none());
    run.approvals.approve([harness.approvals_of("job", "read").await]);
    assert!(harness.run(Operation::Destroy, run).await.succeeded());
    assert_eq!(harness.text("log"), "delete\n");
}

#[tokio::test]
async fn approval_is_not_valid_for_a_changed_command() {
    let harness = ProviderHarness::with_recorded_job().await;
    let approved = [
        harness.approvals_of("job", "delete").await,
        harness.approvals_of("job", "read").await,
    ];
    for (input, value) in [
        ("delete", r#""echo forged >> log""#),
        ("dir", r#""/""#),
        ("environment", r#"{"BASH_ENV":"log"}"#),
    ] {
        let forged = ProviderHarness::new().await;
        let mut goal = job();
        let inputs = goal.inputs.json().as_str().to_owned();
        let others = inputs.replace(r#""delete":"echo delete >> log","#, "");
        let inputs = match input {
            "delete" => others,
            _ => inputs,
        };
        let inputs = format!(r#"{},"{input}":{value}}}"#, inputs.trim_end_matches('}'));
        goal.inputs = self::goal("job", "command", &inputs).inputs;
        forged.record(goal).await;
        let run = forged.strange_run();
        run.approvals.approve(approved);
        let report = forged.run(Operation::Destroy, run).await;
        assert!(report.revision.is_none(), "{input}");
    }
}

impl ProviderHarness {
    /// Records a resource with any id, without running its commands.
    async fn record(&self, goal: Goal) {
        self.record_with_id(goal, "forged").await;
    }

    /// Records a create whose writer crashed before it ended.
    async fn record_pending_create(&self, goal: Goal) {
        let session = self.stack.lock("test").await.unwrap();
        let mut entry = state_engine::state_core::Entry::leaf(goal.address, &goal.kind);
        entry.inputs = Some(goal.inputs);
        let request = state_manager::UpdateRequest::new(state_engine::state_core::UpdateKind::Update);
        let update = session.start_update(request).await.unwrap();
        let mutation = update.begin(state_manager::Intent::create(entry)).await.unwrap();
        drop((mutation, update));
        session.close().await.unwrap();
    }

    /// Records a resource with an id, without calling its provider.
    async fn record_with_id(&self, goal: Goal, id: &str) {
        let mut entry = state_engine::state_core::Entry::leaf(goal.address, &goal.kind);
        entry.inputs = Some(goal.inputs);
        entry.id = Some(id.to_owned());
        self.record_entry(entry).await;
    }

    async fn record_entry(&self, entry: state_engine::state_core::Entry) {
        let session = self.stack.lock("test").await.unwrap();
        let request = state_manager::UpdateRequest::new(state_engine::state_core::UpdateKind::Edit);
        let update = session.start_update(request).await.unwrap();
        let mutation = update
            .begin(state_manager::Intent::create(entry.clone()))
            .await
            .unwrap();
        let succeeded = state_engine::state_core::Outcome::Succeeded;
        mutation.end(succeeded, Some(entry), Vec::new()).await.unwrap();
        update
            .finish(state_engine::state_core::UpdateResult::Succeeded)
            .await
            .unwrap();
        session.close().await.unwrap();
    }
}

#[tokio::test]
async fn command_that_the_program_declares_needs_no_approval() {
    let harness = ProviderHarness::with_recorded_job().await;
    let mut run = harness.strange_run();
    run.options.refresh = true;
    assert!(harness.run(update(&[job()]), run).await.succeeded());
    assert_eq!(harness.text("log"), "read\n");
}

#[tokio::test]
async fn declared_command_does_not_allow_another_in_the_state() {
    let harness = ProviderHarness::with_recorded_job().await;
    let mut run = harness.strange_run();
    run.options.refresh = true;
    let changed = shell(&[("create", "echo create >> log"), ("read", "echo other >> log")]);
    let report = harness.run(update(&[changed]), run).await;
    harness.assert_nothing_ran(&report);
}

#[tokio::test]
async fn ignored_change_runs_no_recorded_command() {
    let harness = ProviderHarness::with_recorded_job().await;
    let mut goal = shell(&[
        ("create", "echo create >> log"),
        ("update", "echo mine >> log"),
        ("stdin", "b"),
    ]);
    goal.options.ignore_changes = vec!["update".to_owned()];
    let report = harness.run(update(&[goal]), harness.strange_run()).await;
    assert_eq!(harness.text("log"), "");
    assert!(report.revision.is_none());
}

#[tokio::test]
async fn settling_runs_no_command_that_only_the_state_names() {
    let harness = ProviderHarness::new().await;
    let gone = harness
        .up(&[shell(&[
            ("create", "exit 1"),
            ("read", "echo read >> log; exit 75"),
        ])])
        .await;
    assert_eq!(gone.pending.len(), 1, "{gone:?}");
    harness.put("log", "");
    let mut run = harness.strange_run();
    run.decisions = Decisions::default();
    assert_eq!(run.decisions.otherwise, Decision::Ask);
    let approvals = run.approvals.clone();
    let session = harness.stack.lock("test").await.unwrap();
    harness.engine.settle(&session, &run).await.unwrap();
    session.close().await.unwrap();
    assert_eq!(harness.text("log"), "");
    assert_eq!(approvals.refused().len(), 1);
    let pending = harness.stack.tip().await.unwrap().state.pending().count();
    assert_eq!(pending, 1, "the outcome stays unknown");
}

#[tokio::test]
async fn preview_lists_commands_that_need_approval() {
    let harness = ProviderHarness::with_recorded_job().await;
    let run = harness.strange_run();
    let approvals = run.approvals.clone();
    let basis = Basis::tip(&harness.stack).await.unwrap();
    let plan = harness.engine.plan(basis, Operation::Destroy, run).await.unwrap();
    assert!(plan.report().succeeded(), "{plan:?}");
    assert!(!approvals.is_complete());
    assert_eq!(harness.text("log"), "");
}

impl ProviderHarness {
    /// A harness with a file `identity` of the user, and a forged entry that claims this file: the entry's id is the
    /// path of `identity`, and its inputs contain the path `named`.
    async fn with_recorded_file(kind: &str, named: &str) -> Self {
        let harness = Self::new().await;
        harness.put("identity", "AGE-SECRET-KEY");
        let inputs = format!(r#"{{"content":"","path":{:?}}}"#, harness.id(named));
        let goal = goal("f", kind, &inputs);
        harness.record_with_id(goal, &harness.id("identity")).await;
        harness
    }
}

#[tokio::test]
async fn file_that_only_the_state_names_is_not_read_or_deleted() {
    // The path in the inputs equals the id, or differs from the id.
    for named in ["identity", "other"] {
        let harness = ProviderHarness::with_recorded_file("file", named).await;
        let recorded = harness.entry("f").await;
        for operation in [Operation::Refresh, Operation::Destroy, update(&[])] {
            let run = harness.strange_run();
            let approvals = run.approvals.clone();
            let report = harness.run(operation, run).await;
            assert!(report.revision.is_none(), "{report:?}");
            assert_eq!(approvals.refused().len(), 1);
            assert_eq!(harness.text("identity"), "AGE-SECRET-KEY");
            assert_eq!(harness.entry("f").await, recorded);
        }
        let mut preview = harness.strange_run();
        preview.options.refresh = true;
        let basis = Basis::tip(&harness.stack).await.unwrap();
        let plan = harness.engine.plan(basis, update(&[]), preview).await.unwrap();
        assert!(!format!("{:?}", plan.into_report()).contains("AGE-SECRET"));
    }
}

#[tokio::test]
async fn approved_or_declared_file_is_read_and_deleted() {
    let harness = ProviderHarness::with_recorded_file("file", "identity").await;
    let run = harness.strange_run();
    run.approvals.approve([harness.approvals_of("f", "path").await]);
    assert!(harness.run(Operation::Refresh, run.clone()).await.succeeded());
    assert!(harness.run(Operation::Destroy, run).await.succeeded());
    assert!(!harness.path("identity").exists());

    let harness = ProviderHarness::with_recorded_file("file", "identity").await;
    let mut run = harness.strange_run();
    run.options.refresh = true;
    let declared = goal("f", "file", r#"{"content":"mine","path":"identity"}"#);
    assert!(harness.run(update(&[declared]), run).await.succeeded());
    assert_eq!(harness.text("identity"), "mine");
}

#[tokio::test]
async fn source_that_only_the_state_names_is_not_compared() {
    let harness = ProviderHarness::new().await;
    harness.put("identity", "AGE-SECRET-KEY");
    harness.put("mine", "AGE-SECRET-KEY");
    let [source, path] = ["identity", "mine"].map(|name| harness.id(name));
    let copy = goal(
        "f",
        "file",
        &format!(r#"{{"path":{path:?},"source":{source:?}}}"#),
    );
    harness.record_pending_create(copy).await;
    let run = harness.strange_run();
    run.approvals.approve([ResourceCommand::file(path).digest()]);
    let approvals = run.approvals.clone();
    let session = harness.stack.lock("test").await.unwrap();
    harness.engine.settle(&session, &run).await.unwrap();
    session.close().await.unwrap();
    let refused: Vec<_> = approvals.refused().iter().map(|refused| refused.digest).collect();
    assert_eq!(refused, [ResourceCommand::source(source).digest()]);
    let pending = harness.stack.tip().await.unwrap().state.pending().count();
    assert_eq!(pending, 1, "the outcome stays unknown");
}

#[tokio::test]
async fn directory_that_only_the_state_names_is_not_deleted() {
    let harness = ProviderHarness::new().await;
    std::fs::create_dir(harness.path("mine")).unwrap();
    let inputs = format!(r#"{{"path":{:?}}}"#, harness.id("mine"));
    let id = harness.id("mine");
    harness.record_with_id(goal("d", "directory", &inputs), &id).await;
    let report = harness.run(Operation::Destroy, harness.strange_run()).await;
    assert!(report.revision.is_none(), "{report:?}");
    assert!(harness.path("mine").is_dir());
}
