//! `mv --to-stack`: the command shows the plans of both stacks, asks for one confirmation, and creates one revision in
//! each stack.

use crate::sandbox::{CommandOutput, Sandbox, fixture};
use serde_json::Value;
use state_core::backend::Opening;
use state_core::edits::{MovePlan, MoveRequest};
use state_core::testkit::fault::{Fault, FaultyBackend, Operation};
use state_core::{ErrorKind, UpdateKind};
use state_manager::{Actor, BackendRegistry, Environment, Stack, Stacks, StoreRequest, UpdateRequest};
use std::sync::Arc;

const DATABASE: &str = "terraform_data.database";
const MIGRATION: &str = "terraform_data.migration";

/// Creates two stacks: `default` with the resources of the fixture `shop`, and the empty stack `data`.
fn two_stacks() -> Sandbox {
    let sandbox = Sandbox::with_shop();
    sandbox.run(&["stack", "new", "data"]).exits(0);
    sandbox
}

fn on(sandbox: &Sandbox, stack: &str, arguments: &[&str]) -> CommandOutput {
    sandbox.run(&[&["--stack", stack][..], arguments].concat())
}

fn addresses(sandbox: &Sandbox, stack: &str) -> Vec<String> {
    let listed = on(sandbox, stack, &["list", "--json"]).exits(0).data("list");
    let entries = listed["entries"].as_array().unwrap();
    let address = |entry: &Value| entry["address"].as_str().unwrap().to_owned();
    entries.iter().map(address).collect()
}

fn revisions(sandbox: &Sandbox, stack: &str) -> usize {
    let history = on(sandbox, stack, &["history", "--json"]).exits(0).stdout;
    history.lines().count()
}

/// Moves the database and the migration to the stack `data`.
fn moved(sandbox: &Sandbox) -> Value {
    let arguments = [
        "mv",
        DATABASE,
        MIGRATION,
        "--to-stack",
        "data",
        "--with-dependencies",
        "--yes",
        "--json",
    ];
    on(sandbox, "default", &arguments).exits(0).data("mv-to-stack")
}

fn all_addresses(sandbox: &Sandbox) -> Vec<String> {
    let mut all = addresses(sandbox, "default");
    all.append(&mut addresses(sandbox, "data"));
    all.sort();
    all
}

#[test]
fn move_between_stacks_shows_both_plans_first() {
    let sandbox = two_stacks();
    let before = all_addresses(&sandbox);
    let show = |stack: &str| {
        on(&sandbox, stack, &["show", DATABASE, "--json"]).data("show")["entries"][0]["uid"].clone()
    };
    let uid = show("default");
    let mv = ["mv", DATABASE, MIGRATION, "--to-stack", "data"];
    let refused = on(&sandbox, "default", &mv).exits(4);
    assert!(refused.stderr.contains("--with-depend"), "{refused:?}");
    let both = [&mv[..], &["--with-dependents", "--with-dependencies"]].concat();
    let asked = on(&sandbox, "default", &both).exits(4);
    for part in [
        "stack default/default:",
        "  - terraform_data.database",
        "stack default/data:",
        "  + terraform_data.database",
        "--yes",
    ] {
        assert!(asked.stderr.contains(part), "{part}: {asked:?}");
    }
    let dry = on(
        &sandbox,
        "default",
        &[&both[..], &["--dry-run", "--json"]].concat(),
    );
    let dry = dry.exits(0).data("mv-to-stack");
    assert_eq!(
        (dry["changed"].clone(), dry["dry-run"].clone(), dry["id"].clone()),
        (false.into(), true.into(), Value::Null)
    );
    assert_eq!(revisions(&sandbox, "default"), 1);
    assert_eq!(revisions(&sandbox, "data"), 0);
    let done = on(&sandbox, "default", &[&both[..], &["--yes", "--json"]].concat());
    let done = done.exits(0).data("mv-to-stack");
    assert_eq!(done["entries"], dry["entries"]);
    assert_eq!(done["source"]["changes"], dry["source"]["changes"]);
    assert_eq!(
        all_addresses(&sandbox),
        before,
        "no resource may be lost or duplicated"
    );
    let destination = addresses(&sandbox, "data");
    assert_eq!(done["entries"].as_array().unwrap().len(), destination.len());
    assert!(destination.contains(&DATABASE.to_owned()) && destination.contains(&MIGRATION.to_owned()));
    assert_eq!(show("data"), uid);
    assert_eq!(
        (revisions(&sandbox, "default"), revisions(&sandbox, "data")),
        (2, 1)
    );
    for stack in ["default", "data"] {
        on(&sandbox, stack, &["verify", "--deep"]).exits(0);
        let history = on(&sandbox, stack, &["history"]).stdout;
        assert!(history.contains("--to-stack data"), "{history}");
        let pending = on(&sandbox, stack, &["pending", "list", "--json"]).data("pending-list");
        assert_eq!(pending, Value::Array(Vec::new()));
    }
}

#[test]
fn impossible_move_is_refused_with_a_hint() {
    let sandbox = two_stacks();
    let mv = |arguments: &[&str]| {
        on(
            &sandbox,
            "default",
            &[&["mv"][..], arguments, &["--yes"]].concat(),
        )
    };
    let waits = mv(&[DATABASE, "--to-stack", "data", "--with-dependencies"]).exits(4);
    assert!(
        waits.stderr.contains(MIGRATION) && waits.stderr.contains("--with-dependents"),
        "{waits:?}"
    );
    let needs = mv(&[MIGRATION, "--to-stack", "data", "--with-dependents"]).exits(4);
    assert!(
        needs.stderr.contains(DATABASE) && needs.stderr.contains("--with-dependencies"),
        "{needs:?}"
    );
    mv(&[DATABASE, "--to-stack", "default"]).exits(2);
    mv(&[DATABASE]).exits(2);
    mv(&[DATABASE, "a", "b"]).exits(2);
    mv(&[DATABASE, "a", "--with-dependents"]).exits(2);
    mv(&[DATABASE, "--to-stack", "dat"]).exits(10);
    mv(&["terraform_data.databas", "--to-stack", "data"]).exits(10);
    moved(&sandbox);
    on(
        &sandbox,
        "data",
        &["mv", DATABASE, "terraform_data.network", "--yes"],
    )
    .exits(0);
    assert_eq!(revisions(&sandbox, "default"), 2);
    let file = crate::sandbox::fixture("shop.tfstate");
    on(&sandbox, "third", &["import", file.to_str().unwrap()]).exits(0);
    let taken = on(
        &sandbox,
        "third",
        &[
            "mv",
            DATABASE,
            MIGRATION,
            "--to-stack",
            "data",
            "--with-dependencies",
            "--yes",
        ],
    );
    let taken = taken.exits(13);
    assert!(taken.stderr.contains("already"), "{taken:?}");
}

#[test]
fn move_is_refused_while_either_stack_is_locked() {
    let sandbox = two_stacks();
    for held in ["default", "data"] {
        let lock = on(&sandbox, held, &["lock", "acquire", "-m", "freeze", "--json"]);
        let id = lock.exits(0).data("lock-acquire")["client-lock"]["id"].clone();
        let id = id.as_str().map(str::to_owned).unwrap_or_else(|| panic!("an id"));
        let mv = [
            "mv",
            DATABASE,
            MIGRATION,
            "--to-stack",
            "data",
            "--with-dependencies",
            "--yes",
        ];
        on(&sandbox, "default", &mv).exits(11);
        assert_eq!(revisions(&sandbox, "data"), 0);
        on(&sandbox, held, &["lock", "release", &id]).exits(0);
    }
}

#[test]
fn rollback_across_a_move_needs_force() {
    let sandbox = two_stacks();
    moved(&sandbox);
    let goes = "terraform_data.database";
    for (stack, command, said) in [
        ("default", &["undo"][..], "moved to stack default/data"),
        ("default", &["rollback", "@-"][..], "moved to stack default/data"),
    ] {
        let refused = on(&sandbox, stack, &[command, &["--yes"]].concat()).exits(4);
        for part in [said, goes, "--force", "mv ADDR"] {
            assert!(refused.stderr.contains(part), "{part}: {refused:?}");
        }
        let json = on(&sandbox, stack, &[command, &["--yes", "--json"]].concat())
            .exits(4)
            .json();
        assert_eq!(json["error"]["code"], "refused");
    }
    on(&sandbox, "data", &["protect", DATABASE, "--yes"]).exits(0);
    on(&sandbox, "data", &["undo", "--yes"]).exits(0);
    let forced = on(
        &sandbox,
        "default",
        &["rollback", "@-", "--force", "--yes", "--json"],
    );
    let forced = forced.exits(0).data("rollback");
    assert_eq!(forced["crossed"][0]["direction"], "out");
    let history = on(&sandbox, "default", &["history", "--json"]).stdout;
    assert!(
        history.lines().next().unwrap().contains("\"forced\":true"),
        "{history}"
    );
}

/// Starts a move from `default` to `data`, which a fault interrupts at its commit point. Calls `during` while the
/// source is still locked.
fn interrupt_move(sandbox: &Sandbox, fault: Fault, during: impl FnOnce()) {
    let url = format!("file://{}", sandbox.path().join(".state").display());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let store = BackendRegistry::default().open(&StoreRequest::new(&url), Opening::Existing);
        let backend = FaultyBackend::new(store.unwrap());
        let plan = backend.plan();
        let stacks = Stacks::new(Arc::new(backend), Environment::system(Actor::default()));
        let find = async |name: &str| stacks.get(&name.parse().unwrap()).await.unwrap().unwrap();
        let (source, destination) = (find("default").await, find("data").await);
        let lock = async |stack: &Stack| stack.lock("mv").await;
        let (source, destination) = Stacks::lock_both(&source, &destination, lock).await.unwrap();
        let request = MoveRequest {
            addresses: vec![DATABASE.parse().unwrap()],
            with_dependents: true,
            with_dependencies: true,
        };
        let moving = MovePlan::new(&source.state(), &destination.state(), &request).unwrap();
        plan.fail(Operation::Append, 1, fault);
        let request = UpdateRequest::new(UpdateKind::Edit);
        let failed = source.move_to(&destination, request, &moving).await.unwrap_err();
        assert_eq!(failed.kind(), ErrorKind::Indeterminate);
        destination.close().await.unwrap();
        during();
        drop(source.close().await);
    });
}

fn pending_moves(sandbox: &Sandbox) -> Vec<Value> {
    let listed = on(sandbox, "data", &["pending", "list", "--json"]);
    listed.exits(0).data("pending-list").as_array().unwrap().clone()
}

fn resolve(sandbox: &Sandbox, id: &str) -> CommandOutput {
    on(
        sandbox,
        "data",
        &["pending", "resolve", &id[..8], "--done", "--json"],
    )
}

#[test]
fn move_interrupted_after_its_commit_point_is_completed() {
    let sandbox = two_stacks();
    let before = all_addresses(&sandbox);
    interrupt_move(&sandbox, Fault::AfterEffect, || {
        let listed = pending_moves(&sandbox);
        assert_eq!((listed.len(), listed[0]["op"].as_str()), (1, Some("move-in")));
        assert_eq!(listed[0]["other-stack"], "default/default");
        assert!(
            listed[0]["entries"]
                .as_array()
                .unwrap()
                .contains(&DATABASE.into())
        );
        let stacks = sandbox.run(&["stack", "ls", "--json"]).data("stack-list");
        assert_eq!(stacks[0]["name"], "default/data");
        assert_eq!(
            (stacks[0]["pending"].clone(), stacks[0]["reliable"].clone()),
            (1.into(), false.into())
        );
        let resolved = resolve(&sandbox, listed[0]["id"].as_str().unwrap());
        let resolved = resolved.exits(0).data("pending-resolve");
        assert_eq!(
            (
                resolved["resolution"].as_str(),
                resolved["still-pending"].as_u64()
            ),
            (Some("done"), Some(0))
        );
        assert_eq!(
            all_addresses(&sandbox),
            before,
            "resolving the operation must complete the move, although the source is locked"
        );
    });
    let departed = on(&sandbox, "default", &["pending", "list", "--json"]).data("pending-list");
    assert_eq!(departed[0]["op"], "move-out");
    on(&sandbox, "default", &["protect", "--all", "--yes"]).exits(0);
    let settled = on(&sandbox, "default", &["pending", "list", "--json"]).data("pending-list");
    assert_eq!(
        settled,
        Value::Array(Vec::new()),
        "the next lock of the source must confirm the move"
    );
}

#[test]
fn move_interrupted_before_its_commit_point_is_undone() {
    let sandbox = two_stacks();
    let before = all_addresses(&sandbox);
    let mut id = String::new();
    interrupt_move(&sandbox, Fault::Late, || {
        id = pending_moves(&sandbox)[0]["id"].as_str().unwrap().to_owned();
        let refused = resolve(&sandbox, &id).exits(11).json();
        let hint = refused["error"]["hint"].as_str().unwrap();
        assert!(hint.contains("may still finish the move"), "{refused}");
        on(&sandbox, "data", &["protect", "--all", "--yes"]).exits(0);
        assert_eq!(
            pending_moves(&sandbox).len(),
            1,
            "another change must leave the move pending"
        );
    });
    let resolved = resolve(&sandbox, &id).exits(0);
    let document = resolved.json();
    assert_eq!(document["data"]["resolution"], "not done");
    assert!(
        document["warnings"][0]
            .as_str()
            .unwrap()
            .contains("because the other stack records that outcome"),
        "{document}"
    );
    assert_eq!(all_addresses(&sandbox), before);
    assert_eq!(addresses(&sandbox, "data"), Vec::<String>::new());
    resolve(&sandbox, &id).exits(10);
    moved(&sandbox);
    assert_eq!(all_addresses(&sandbox), before);
}

/// The policy `sensitive` encrypts marked values only.
#[test]
fn move_and_rollback_name_values_that_lose_their_encryption() {
    let sandbox = Sandbox::new();
    let shop = fixture("shop.tfstate");
    let import = ["import", shop.to_str().unwrap(), "--policy", "all"];
    sandbox.run(&import).exits(0);
    sandbox
        .run(&["stack", "new", "data", "--policy", "sensitive"])
        .exits(0);
    let warns = |ran: &CommandOutput| ran.stderr.contains("so they are stored in plain text");
    let to_data = [
        "mv",
        DATABASE,
        "--with-dependents",
        "--with-dependencies",
        "--to-stack",
        "data",
        "--yes",
    ];
    let planned = on(&sandbox, "default", &[&to_data[..], &["--dry-run"]].concat()).exits(0);
    // No question follows, so the warning isn't printed in advance.
    let unasked: Vec<_> = to_data.into_iter().filter(|flag| *flag != "--yes").collect();
    let json = on(
        &sandbox,
        "default",
        &[&unasked[..], &["--dry-run", "--json"]].concat(),
    )
    .exits(0);
    assert!(
        json.stdout.contains("so they are stored in plain text"),
        "{json:?}"
    );
    let moved = on(&sandbox, "default", &to_data).exits(0);
    for ran in [planned, moved] {
        assert!(
            warns(&ran) && ran.stderr.contains(".dns[\"host-0.api\"]:/outputs/id"),
            "{ran:?}"
        );
        assert!(
            ran.stderr
                .contains("`statectl encrypt --policy all --stack data`"),
            "{ran:?}"
        );
    }

    let encrypt = ["encrypt", "--policy", "sensitive", "--yes"];
    let changed = on(&sandbox, "default", &encrypt).exits(0);
    assert!(
        changed
            .stderr
            .contains("keep the encryption of the policy at that time"),
        "{changed:?}"
    );
    let back = on(&sandbox, "default", &["rollback", "@-", "--force", "--yes"]).exits(0);
    assert!(warns(&back), "{back:?}");
    // Nothing of this revision is encrypted without a mark.
    let again = on(&sandbox, "default", &["rollback", "@-", "--force", "--yes"]).exits(0);
    assert!(!warns(&again), "{again:?}");
}
