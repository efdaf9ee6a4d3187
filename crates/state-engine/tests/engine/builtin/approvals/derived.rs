//! Tests of derived commands, which contain outputs of other resources, and of pending creates of files.

use super::*;

/// The job, whose commands use outputs of the resource `other`.
fn derived_job() -> Goal {
    let mut goal = job();
    for input in ["create", "read", "update", "delete"] {
        let dependencies = &mut goal.options.property_dependencies;
        dependencies.insert(input.to_owned(), vec![super::super::address("other")]);
    }
    goal
}

fn other() -> Goal {
    goal("other", "random:id", "{}")
}

impl ProviderHarness {
    /// A harness whose state contains the derived commands of `job`, with an empty log.
    async fn with_derived_job() -> Self {
        let harness = Self::new().await;
        harness.done(&[other(), derived_job()]).await;
        harness.put("log", "");
        harness
    }

    async fn pending(&self) -> usize {
        self.stack.tip().await.unwrap().state.pending().count()
    }
}

fn refused_names(approvals: &CommandApprovals) -> Vec<&'static str> {
    approvals.refused().iter().map(|it| it.command.name).collect()
}

#[tokio::test]
async fn derived_command_is_not_approved_without_changes() {
    let harness = ProviderHarness::with_derived_job().await;
    let run = harness.strange_run();
    let approvals = run.approvals.clone();
    let unchanged = harness.run(update(&[other(), derived_job()]), run).await;
    assert!(unchanged.succeeded(), "{unchanged:?}");
    assert!(approvals.confirmed().is_empty());
    for operation in [Operation::Refresh, Operation::Destroy] {
        let mut run = harness.strange_run();
        run.approvals = approvals.clone();
        assert!(harness.run(operation, run).await.revision.is_none());
    }
    assert_eq!(harness.text("log"), "");
}

#[tokio::test]
async fn applied_plan_approves_its_derived_commands() {
    let harness = ProviderHarness::new().await;
    let run = harness.strange_run();
    let approvals = run.approvals.clone();
    let made = harness.run(update(&[other(), derived_job()]), run).await;
    assert!(made.succeeded(), "{made:?}");
    let mut run = harness.strange_run();
    run.approvals = CommandApprovals::of(approvals.confirmed());
    assert!(harness.run(Operation::Destroy, run).await.succeeded());
    assert_eq!(harness.text("log"), "create\ndelete\n");
}

#[tokio::test]
async fn derived_delete_of_a_replaced_resource_is_refused() {
    let harness = ProviderHarness::with_derived_job().await;
    let mut replacement = derived_job();
    replacement.options.replace_on_changes = vec!["stdin".to_owned()];
    let inputs = replacement.inputs.json().as_str().to_owned();
    let inputs = inputs.replace(r#""stdin":"a""#, r#""stdin":"b""#);
    replacement.inputs = goal("job", "command", &inputs).inputs;
    let run = harness.strange_run();
    let approvals = run.approvals.clone();
    let report = harness.run(update(&[other(), replacement]), run).await;
    assert!(report.revision.is_none(), "{report:?}");
    assert_eq!(refused_names(&approvals), ["delete", "read"]);
    assert_eq!(harness.text("log"), "");
}

#[tokio::test]
async fn literal_command_beside_a_derived_input_is_declared() {
    let harness = ProviderHarness::with_recorded_job().await;
    let mut goal = job();
    let dependencies = &mut goal.options.property_dependencies;
    dependencies.insert("stdin".to_owned(), vec![super::super::address("other")]);
    let run = harness.strange_run();
    let approvals = run.approvals.clone();
    assert!(harness.run(update(&[other(), goal]), run).await.succeeded());
    let mut confirmed = Vec::new();
    for name in ["create", "read", "update", "delete"] {
        let digest = harness.approvals_of("job", name).await;
        confirmed.push(approvals.confirmed().contains(&digest));
    }
    assert_eq!(
        confirmed,
        [false, true, false, true],
        "only `create` and `update` get the standard input"
    );
}

#[tokio::test]
async fn plan_lists_the_derived_commands_of_its_steps() {
    let harness = ProviderHarness::new().await;
    let planned = async || {
        let basis = Basis::tip(&harness.stack).await.unwrap();
        let operation = update(&[other(), derived_job()]);
        let plan = harness.engine.plan(basis, operation, harness.strange_run());
        let derived = plan.await.unwrap().into_report().derived_commands;
        derived.iter().map(|it| it.command.name).collect::<Vec<_>>()
    };
    assert_eq!(planned().await, ["create", "read", "update", "delete"]);
    harness.done(&[other(), derived_job()]).await;
    assert!(
        planned().await.is_empty(),
        "an unchanged resource runs no command"
    );
}

#[tokio::test]
async fn pending_create_of_a_file_is_not_searched_unapproved() {
    for (kind, content) in [("file", r#""content":"guess","#), ("directory", "")] {
        let harness = ProviderHarness::new().await;
        harness.put("identity", "guess");
        let path = harness.id("identity");
        let recorded = goal("f", kind, &format!(r#"{{{content}"path":{path:?}}}"#));
        harness.record_pending_create(recorded).await;
        let run = harness.strange_run();
        let approvals = run.approvals.clone();
        let report = harness.run(Operation::Refresh, run).await;
        assert!(report.revision.is_none(), "{report:?}");
        let refused: Vec<_> = approvals.refused().iter().map(|it| it.digest).collect();
        assert_eq!(refused, [ResourceCommand::file(path).digest()]);
        assert_eq!(harness.pending().await, 1, "the outcome stays unknown");
    }
}

#[tokio::test]
async fn update_settles_a_pending_file_that_its_program_declares() {
    let harness = ProviderHarness::new().await;
    harness.put("mine", "text");
    let path = harness.id("mine");
    let mine = || goal("f", "file", &format!(r#"{{"content":"text","path":{path:?}}}"#));
    harness.record_pending_create(mine()).await;
    let report = harness.run(update(&[mine()]), harness.strange_run()).await;
    assert!(report.succeeded(), "{report:?}");
    assert_eq!(harness.pending().await, 0);
}

#[tokio::test]
async fn given_path_of_a_pending_create_needs_no_approval() {
    let harness = ProviderHarness::new().await;
    harness.put("mine", "text");
    let [mine, other] = ["mine", "other"].map(|name| harness.id(name));
    let recorded = goal("f", "file", &format!(r#"{{"content":"","path":{other:?}}}"#));
    harness.record_pending_create(recorded).await;
    let mut run = harness.strange_run();
    run.decisions.otherwise = Decision::Exists { id: mine.clone() };
    assert!(harness.run(Operation::Refresh, run).await.succeeded());
    assert_eq!(harness.entry("f").await.unwrap().id, Some(mine));
}

#[tokio::test]
async fn file_of_an_entry_without_inputs_is_listed() {
    let harness = ProviderHarness::new().await;
    let path = harness.id("identity");
    let mut entry = state_engine::state_core::Entry::leaf(super::super::address("f"), "file");
    entry.id = Some(path.clone());
    harness.record_entry(entry).await;
    let listed = harness.approvals_of("f", "path").await;
    assert_eq!(listed, ResourceCommand::file(path).digest());
}
