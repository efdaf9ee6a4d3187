//! The fifteen classes of lifecycles that Pulumi's own fuzzer leaves out because they break it: each by its issue's
//! number. Here none is left out: of each a plain case, and the witness sees nothing wrong at any durable point.

use crate::program::{Spec, spec, update};
use crate::stage::Stage;
use crate::world::Mood;
use state_core::mutation::EditChange;
use state_core::{DeposedKey, Entry, EntryKey, SharedEntry};
use state_engine::{Operation, Report, Run};

/// The stack with a program deployed.
async fn deployed(program: &[Spec]) -> Stage {
    let stage = Stage::new(1).await;
    let report = stage.run(update(program), stage.usual()).await;
    assert!(report.succeeded(), "{report:?}");
    stage
}

fn key(name: &str) -> EntryKey {
    EntryKey::live(name.parse().unwrap())
}

/// A change of a live entry's record by hand.
async fn mend(stage: &Stage, name: &str, change: impl FnOnce(&mut Entry)) {
    let mut entry = Entry::clone(&stage.entry(name).unwrap());
    change(&mut entry);
    stage
        .edit(vec![EditChange::Put {
            target: key(name),
            entry: SharedEntry::new(entry),
        }])
        .await;
}

/// An object of the entry that was replaced and awaits its deletion, behind all others.
async fn add_twin(stage: &Stage, name: &str) {
    let live = stage.entry(name).unwrap();
    let inputs = live.inputs.clone().unwrap_or_default();
    let mut twin = Entry::clone(&live);
    twin.deposed = Some(DeposedKey::new("old").unwrap());
    twin.uid = Some(state_core::Uid::from_bits([7; 16]));
    twin.id = Some(stage.world.put("thing", &live.address, &inputs, false));
    stage.edit(vec![EditChange::Append(SharedEntry::new(twin))]).await;
}

fn targeting(stage: &Stage, names: &[&str]) -> Run {
    let mut run = stage.usual();
    run.options.targets = names.iter().map(|name| name.parse().unwrap()).collect();
    run
}

fn refreshing(stage: &Stage) -> Run {
    let mut run = stage.usual();
    run.options.refresh = true;
    run
}

/// All went well, the record is the program's, the next run does nothing, and the end is empty.
async fn ends_well(stage: &Stage, report: &Report, program: &[Spec]) {
    assert!(report.succeeded(), "{report:?}");
    settles(stage, program).await;
}

async fn settles(stage: &Stage, program: &[Spec]) {
    let whole = stage.run(update(program), refreshing(stage)).await;
    assert!(whole.succeeded(), "{whole:?}");
    let mut names: Vec<&str> = program.iter().map(|spec| &*spec.name).collect();
    let mut keys = stage.keys();
    names.sort_unstable();
    keys.sort_unstable();
    assert_eq!(keys, names);
    let again = stage.run(update(program), stage.usual()).await;
    assert!(again.succeeded() && !again.has_changes(), "{again:?}");
    let end = stage.run(Operation::Destroy, stage.usual()).await;
    assert!(end.succeeded() && stage.keys().is_empty(), "{end:?}");
    assert!(stage.world.things().is_empty(), "{:?}", stage.world.things());
    assert_eq!(stage.complaints(), Vec::<String>::new());
}

/// `deleted-with` names an entry of which a twin awaits deletion.
#[tokio::test]
async fn class_21433_deleted_with_something_that_awaits_deletion() {
    let program = [spec("a"), spec("b").inside("a")];
    let stage = deployed(&program).await;
    add_twin(&stage, "a").await;
    let report = stage.run(update(&program), stage.usual()).await;
    ends_well(&stage, &report, &program).await;
}

/// A tombstone whose parent changes, in a run that refreshes.
#[tokio::test]
async fn class_21404_a_tombstone_whose_parent_changes() {
    let stage = deployed(&[spec("p"), spec("q"), spec("a").child_of("p")]).await;
    let id = stage.entry("a").unwrap().id.clone().unwrap();
    stage.world.lose(&id);
    mend(&stage, "a", |entry| entry.pending_replacement = true).await;
    let program = [spec("q"), spec("a").child_of("q")];
    let report = stage.run(update(&program), refreshing(&stage)).await;
    ends_well(&stage, &report, &program).await;
}

/// An update of something that depends on what has another name now.
#[tokio::test]
async fn class_21426_an_update_that_depends_on_what_was_renamed() {
    let stage = deployed(&[spec("a"), spec("b").uses(&["a"])]).await;
    stage.world.forget_calls();
    let program = [spec("c").was("a"), spec("b").uses(&["c"]).size(2)];
    let report = stage.run(update(&program), stage.usual()).await;
    assert_eq!(stage.world.calls(), ["update b"], "the object stays");
    ends_well(&stage, &report, &program).await;
}

/// A child and a managed object stand between two generations, of which the first is gone.
#[tokio::test]
async fn class_21386_children_of_a_twin_that_is_gone_at_a_refresh() {
    let program = [spec("p"), spec("a").child_of("p"), spec("b").managed_by("p")];
    let stage = deployed(&program).await;
    add_twin(&stage, "p").await;
    let first = stage.entry("p").unwrap().id.clone().unwrap();
    stage.world.lose(&first);
    let report = stage.run(Operation::Refresh, stage.usual()).await;
    ends_well(&stage, &report, &program).await;
}

/// Targets, in a run that refreshes.
#[tokio::test]
async fn class_21431_targets_with_a_refresh() {
    let stage = deployed(&[spec("a"), spec("b").uses(&["a"]), spec("c").uses(&["b"])]).await;
    let lost = stage.entry("b").unwrap().id.clone().unwrap();
    stage.world.lose(&lost);
    let program = [spec("a").size(2), spec("b").uses(&["a"]), spec("c").uses(&["b"])];
    let mut run = targeting(&stage, &["b"]);
    run.options.refresh = true;
    let report = stage.run(update(&program), run).await;
    assert!(report.succeeded(), "{report:?}");
    settles(&stage, &program).await;
}

/// A protected entry whose provider has a twin, at a destroy.
#[tokio::test]
async fn class_21277_a_protected_entry_under_a_twin_at_a_destroy() {
    let stage = deployed(&[spec("p"), spec("a").managed_by("p").protected()]).await;
    add_twin(&stage, "p").await;
    let report = stage.run(Operation::Destroy, stage.usual()).await;
    assert!(!report.succeeded());
    assert!(stage.keys().contains(&"a".to_owned()) && stage.keys().contains(&"p".to_owned()));
    assert_eq!(
        report.failures[0].reasons,
        ["it is protected; unprotect it first"]
    );
    mend(&stage, "a", |entry| entry.protect = false).await;
    settles(&stage, &[spec("p"), spec("a").managed_by("p")]).await;
}

/// Something depends on the target of a destroy.
#[tokio::test]
async fn class_21347_a_dependent_of_what_a_destroy_targets() {
    let program = [spec("a"), spec("b").uses(&["a"])];
    let stage = deployed(&program).await;
    let refused = stage.run(Operation::Destroy, targeting(&stage, &["a"])).await;
    assert_eq!(refused.failures[0].reasons, ["b still depends on it"]);
    assert_eq!(stage.keys(), ["a", "b"]);
    let mut run = targeting(&stage, &["a"]);
    run.options.target_dependents = true;
    let report = stage.run(Operation::Destroy, run).await;
    ends_well(&stage, &report, &program).await;
}

/// What has another name in the program is destroyed under the name that is recorded.
#[tokio::test]
async fn class_21282_a_renamed_target_of_a_destroy() {
    let stage = deployed(&[spec("a"), spec("b").uses(&["a"])]).await;
    let renamed = [spec("c").was("a"), spec("b").uses(&["c"])];
    let report = stage.run(update(&renamed), targeting(&stage, &["b"])).await;
    assert!(report.succeeded(), "{report:?}");
    let mut run = targeting(&stage, &["c"]);
    run.options.target_dependents = true;
    let report = stage.run(Operation::Destroy, run).await;
    ends_well(&stage, &report, &renamed).await;
}

/// A target whose parent has another name now, and isn't a target.
#[tokio::test]
async fn class_21364_a_target_whose_parent_was_renamed() {
    let stage = deployed(&[spec("p"), spec("a").child_of("p")]).await;
    let program = [spec("q").was("p"), spec("a").child_of("q").size(2)];
    let report = stage.run(update(&program), targeting(&stage, &["a"])).await;
    assert_eq!(stage.keys(), ["q", "a"]);
    ends_well(&stage, &report, &program).await;
}

/// Something depends on what a destroy finds deleted already.
#[tokio::test]
async fn class_21384_a_dependent_of_what_is_deleted_already_at_a_destroy() {
    let program = [spec("a"), spec("b").uses(&["a"])];
    let stage = deployed(&program).await;
    let lost = stage.entry("a").unwrap().id.clone().unwrap();
    stage.world.lose(&lost);
    let report = stage.run(Operation::Destroy, refreshing(&stage)).await;
    assert!(report.succeeded() && stage.keys().is_empty(), "{report:?}");
    ends_well(&stage, &report, &program).await;
}

/// A reference to a provider that has another name now.
#[tokio::test]
async fn class_21399_a_reference_to_a_provider_that_was_renamed() {
    let stage = deployed(&[spec("p"), spec("a").managed_by("p")]).await;
    stage.world.forget_calls();
    let program = [spec("q").was("p"), spec("a").managed_by("q")];
    let report = stage.run(update(&program), stage.usual()).await;
    assert_eq!(stage.world.calls(), Vec::<String>::new());
    let end = stage.run(Operation::Destroy, stage.usual()).await;
    assert!(end.succeeded() && stage.keys().is_empty(), "{end:?}");
    ends_well(&stage, &report, &program).await;
}

/// A target that is a provider and gets another parent.
#[tokio::test]
async fn class_21402_a_provider_that_is_a_target_and_gets_another_parent() {
    let stage = deployed(&[
        spec("x"),
        spec("y"),
        spec("p").child_of("x"),
        spec("a").managed_by("p"),
    ])
    .await;
    let program = [
        spec("x"),
        spec("y"),
        spec("p").child_of("y"),
        spec("a").managed_by("p"),
    ];
    let report = stage.run(update(&program), targeting(&stage, &["p"])).await;
    ends_well(&stage, &report, &program).await;
}

/// Children, in a run that refreshes, of a parent that is gone.
#[tokio::test]
async fn class_21672_children_of_a_parent_that_is_gone() {
    let program = [spec("r"), spec("p").child_of("r"), spec("a").child_of("p")];
    let stage = deployed(&program).await;
    let lost = stage.entry("p").unwrap().id.clone().unwrap();
    stage.world.lose(&lost);
    let refresh = stage.run(Operation::Refresh, stage.usual()).await;
    assert!(refresh.succeeded());
    assert_eq!(stage.entry("a").unwrap().parent, Some("r".parse().unwrap()));
    ends_well(&stage, &refresh, &program).await;
}

/// Dependencies on a tombstone, in a run that refreshes.
#[tokio::test]
async fn class_21675_dependencies_on_a_tombstone() {
    let stage = deployed(&[
        spec("a").solo(),
        spec("b").needs(&["a"]),
        spec("c").uses(&["a", "b"]),
    ])
    .await;
    // The replacement of `a` ends in the middle: `b` and `a` are deleted, and nothing is made.
    stage.world.moods(|what, _| {
        let mood = if what == "create" {
            Mood::NotDone
        } else {
            Mood::Well
        };
        (mood, 0, 0)
    });
    let program = [
        spec("a").solo().fixed(2),
        spec("b").needs(&["a"]),
        spec("c").uses(&["a", "b"]),
    ];
    let broken = stage.run(update(&program), stage.usual()).await;
    assert!(!broken.succeeded() && stage.entry("a").unwrap().pending_replacement);
    stage.world.calm();
    let refresh = stage.run(Operation::Refresh, stage.usual()).await;
    assert!(refresh.succeeded(), "{refresh:?}");
    let report = stage.run(update(&program), refreshing(&stage)).await;
    ends_well(&stage, &report, &program).await;
}

/// A targeted update that refreshes, with a parent of which a twin awaits deletion.
#[tokio::test]
async fn class_22923_a_target_whose_parent_awaits_deletion() {
    let program = [spec("p"), spec("a").child_of("p")];
    let stage = deployed(&program).await;
    add_twin(&stage, "p").await;
    let changed = [spec("p"), spec("a").child_of("p").size(2)];
    let mut run = targeting(&stage, &["a"]);
    run.options.refresh = true;
    let report = stage.run(update(&changed), run).await;
    ends_well(&stage, &report, &changed).await;
}
