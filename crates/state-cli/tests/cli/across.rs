//! Entries that go to another stack: both sides are shown, one question is asked, and each has one revision or none.

use crate::sandbox::{Ran, Sandbox};
use serde_json::Value;
use state_core::surgery::{MovePlan, MoveRequest};
use state_manager::{Actor, Environment, Session, Stack, Stacks, UpdateRequest};

const DATABASE: &str = "terraform_data.database";
const MIGRATION: &str = "terraform_data.migration";

/// The stack `default` holds the shop, the stack `data` nothing.
fn two_stacks() -> Sandbox {
    let sandbox = Sandbox::with_shop();
    sandbox.run(&["stack", "new", "data"]).exits(0);
    sandbox
}

fn on(sandbox: &Sandbox, stack: &str, arguments: &[&str]) -> Ran {
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

fn all(sandbox: &Sandbox) -> Vec<String> {
    let mut all = addresses(sandbox, "default");
    all.append(&mut addresses(sandbox, "data"));
    all.sort();
    all
}

#[test]
fn entries_go_to_another_stack_after_a_look_at_both() {
    let sandbox = two_stacks();
    let before = all(&sandbox);
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
    assert_eq!(all(&sandbox), before, "none is lost, none is doubled");
    let there = addresses(&sandbox, "data");
    assert_eq!(done["entries"].as_array().unwrap().len(), there.len());
    assert!(there.contains(&DATABASE.to_owned()) && there.contains(&MIGRATION.to_owned()));
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
fn what_cannot_move_is_refused_with_what_to_do() {
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
fn a_stack_that_is_held_refuses_the_move_on_either_side() {
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
fn going_back_across_a_move_is_told_and_needs_force() {
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

/// Cuts a move from `default` to `data` short by holding what comes next: `work` gets both sessions and the plan.
fn cut<T>(sandbox: &Sandbox, work: impl AsyncFnOnce(Session, Session, MovePlan) -> T) -> T {
    sandbox.on_stack(async |source: Stack| {
        let url = format!("file://{}", sandbox.path().join(".state").display());
        let stacks = Stacks::open(&url, Environment::system(Actor::default())).unwrap();
        let find = async |name: &str| stacks.get(&name.parse().unwrap()).await.unwrap().unwrap();
        drop(source);
        let (source, there) = (find("default").await, find("data").await);
        let lock = async |stack: &Stack| stack.lock("mv").await;
        let (source, there) = Stacks::lock_both(&source, &there, lock).await.unwrap();
        let request = MoveRequest {
            addresses: vec![DATABASE.parse().unwrap()],
            with_dependents: true,
            with_dependencies: true,
        };
        let plan = MovePlan::new(&source.state(), &there.state(), &request).unwrap();
        work(source, there, plan).await
    })
}

#[test]
fn a_move_that_was_cut_short_is_listed_by_name_and_settled_by_the_other_stack() {
    for committed in [true, false] {
        let sandbox = two_stacks();
        let before = all(&sandbox);
        let request = || UpdateRequest::new(state_core::UpdateKind::Edit);
        // The writer of the stack that comes next loses its lock in the middle.
        cut(&sandbox, async |source, there, plan| {
            let fenced = if committed { &there } else { &source };
            let stack = fenced.stack().clone();
            let mut steal = Box::pin(async {
                loop {
                    let incoming = there.state().incoming().count();
                    let departed = source.state().departed().count();
                    if (committed && departed == 1) || (!committed && incoming == 1) {
                        let seen = stack.lock_status().await.unwrap().epoch;
                        return stack.break_lock("steal", seen).await;
                    }
                    tokio::task::yield_now().await;
                }
            });
            let moving = source.move_to(&there, request(), &plan);
            tokio::pin!(moving);
            tokio::select! {
                biased;
                stolen = &mut steal => drop(stolen),
                moved = &mut moving => drop(moved),
            }
        });
        let listed = on(&sandbox, "data", &["pending", "list", "--json"])
            .exits(0)
            .data("pending-list");
        for (number, line) in listed.as_array().unwrap().iter().enumerate() {
            assert_eq!((number, line["op"].as_str()), (0, Some("move-in")));
            assert_eq!(line["other-stack"], "default/default");
            let id = line["id"].as_str().unwrap();
            on(
                &sandbox,
                "data",
                &["pending", "resolve", &id[..8], "--done", "--json"],
            )
            .exits(0);
        }
        // Whatever was settled by then: both locks settle the rest.
        for stack in ["default", "data"] {
            on(&sandbox, stack, &["protect", "--all", "--yes"]).exits(0);
            on(&sandbox, stack, &["verify", "--deep"]).exits(0);
        }
        assert_eq!(all(&sandbox), before);
    }
}
