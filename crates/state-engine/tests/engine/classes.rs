//! The fifteen classes of lifecycles that Pulumi's own fuzzer excludes because they break Pulumi's engine, named by
//! issue number. Each class has one simple test here, which asserts that the stored state violates no invariant after
//! any append, and that it matches the program in the end.
//!
//! A *deposed* entry is a replaced generation of a resource, whose object isn't deleted yet. A *tombstone* is the entry
//! of an object that was deleted first, and whose replacement doesn't exist yet.

use crate::cloud::CallMode;
use crate::harness::Harness;
use crate::program::{Spec, spec, update};
use state_core::mutation::EditChange;
use state_core::{DeposedKey, Entry, EntryKey, SharedEntry};
use state_engine::{Operation, Report, Run};

/// Creates a harness whose stack contains the resources of the program.
async fn deployed(program: &[Spec]) -> Harness {
    let harness = Harness::new(1).await;
    let report = harness.run(update(program), harness.default_run()).await;
    assert!(report.succeeded(), "{report:?}");
    harness
}

fn key(name: &str) -> EntryKey {
    EntryKey::live(name.parse().unwrap())
}

/// Edits a live entry of the stored state.
async fn edit_entry(harness: &Harness, name: &str, change: impl FnOnce(&mut Entry)) {
    let mut entry = Entry::clone(&harness.entry(name).unwrap());
    change(&mut entry);
    harness
        .edit(vec![EditChange::Put {
            target: key(name),
            entry: SharedEntry::new(entry),
        }])
        .await;
}

/// Appends a deposed generation of the entry, which the next update deletes.
async fn add_deposed(harness: &Harness, name: &str) {
    let live = harness.entry(name).unwrap();
    let inputs = live.inputs.clone().unwrap_or_default();
    let mut twin = Entry::clone(&live);
    twin.deposed = Some(DeposedKey::new("old").unwrap());
    twin.uid = Some(state_core::Uid::from_bits([7; 16]));
    twin.id = Some(harness.cloud.put("thing", &live.address, &inputs, false));
    harness
        .edit(vec![EditChange::Append(SharedEntry::new(twin))])
        .await;
}

fn targeting(harness: &Harness, names: &[&str]) -> Run {
    let mut run = harness.default_run();
    run.options.targets = names.iter().map(|name| name.parse().unwrap()).collect();
    run
}

fn refreshing(harness: &Harness) -> Run {
    let mut run = harness.default_run();
    run.options.refresh = true;
    run
}

/// Asserts that the run succeeded, the state matches the program, the next run changes nothing, and a destroy
/// leaves nothing.
async fn ends_well(harness: &Harness, report: &Report, program: &[Spec]) {
    assert!(report.succeeded(), "{report:?}");
    settles(harness, program).await;
}

/// Asserts the same as [`ends_well`], except for the success of an earlier run.
async fn settles(harness: &Harness, program: &[Spec]) {
    let whole = harness.run(update(program), refreshing(harness)).await;
    assert!(whole.succeeded(), "{whole:?}");
    let mut names: Vec<&str> = program.iter().map(|spec| &*spec.name).collect();
    let mut keys = harness.keys();
    names.sort_unstable();
    keys.sort_unstable();
    assert_eq!(keys, names);
    let again = harness.run(update(program), harness.default_run()).await;
    assert!(again.succeeded() && !again.has_changes(), "{again:?}");
    let end = harness.run(Operation::Destroy, harness.default_run()).await;
    assert!(end.succeeded() && harness.keys().is_empty(), "{end:?}");
    assert!(harness.cloud.things().is_empty(), "{:?}", harness.cloud.things());
    assert_eq!(harness.complaints(), Vec::<String>::new());
}

/// The option `deleted_with` names an entry with a deposed generation.
#[tokio::test]
async fn class_21433_deleted_with_container_that_has_a_deposed_entry() {
    let program = [spec("a"), spec("b").inside("a")];
    let harness = deployed(&program).await;
    add_deposed(&harness, "a").await;
    let report = harness.run(update(&program), harness.default_run()).await;
    ends_well(&harness, &report, &program).await;
}

/// A tombstone whose parent changes, in a run that refreshes.
#[tokio::test]
async fn class_21404_tombstone_whose_parent_changes() {
    let harness = deployed(&[spec("p"), spec("q"), spec("a").child_of("p")]).await;
    let id = harness.entry("a").unwrap().id.clone().unwrap();
    harness.cloud.lose(&id);
    edit_entry(&harness, "a", |entry| entry.pending_replacement = true).await;
    let program = [spec("q"), spec("a").child_of("q")];
    let report = harness.run(update(&program), refreshing(&harness)).await;
    ends_well(&harness, &report, &program).await;
}

/// An update of a resource that depends on a renamed one.
#[tokio::test]
async fn class_21426_update_that_depends_on_a_renamed_entry() {
    let harness = deployed(&[spec("a"), spec("b").uses(&["a"])]).await;
    harness.cloud.forget_calls();
    let program = [spec("c").was("a"), spec("b").uses(&["c"]).size(2)];
    let report = harness.run(update(&program), harness.default_run()).await;
    assert_eq!(harness.cloud.calls(), ["update b"], "the object stays");
    ends_well(&harness, &report, &program).await;
}

/// A refresh of a child and a managed resource that are listed between two generations of their parent. The object of
/// the first generation is missing.
#[tokio::test]
async fn class_21386_refresh_with_children_of_a_missing_generation() {
    let program = [spec("p"), spec("a").child_of("p"), spec("b").managed_by("p")];
    let harness = deployed(&program).await;
    add_deposed(&harness, "p").await;
    let first = harness.entry("p").unwrap().id.clone().unwrap();
    harness.cloud.lose(&first);
    let report = harness.run(Operation::Refresh, harness.default_run()).await;
    ends_well(&harness, &report, &program).await;
}

/// A targeted run that refreshes.
#[tokio::test]
async fn class_21431_targets_with_a_refresh() {
    let harness = deployed(&[spec("a"), spec("b").uses(&["a"]), spec("c").uses(&["b"])]).await;
    let lost = harness.entry("b").unwrap().id.clone().unwrap();
    harness.cloud.lose(&lost);
    let program = [spec("a").size(2), spec("b").uses(&["a"]), spec("c").uses(&["b"])];
    let mut run = targeting(&harness, &["b"]);
    run.options.refresh = true;
    let report = harness.run(update(&program), run).await;
    assert!(report.succeeded(), "{report:?}");
    settles(&harness, &program).await;
}

/// A destroy with a protected entry whose provider has a deposed generation.
#[tokio::test]
async fn class_21277_destroy_of_protected_entry_with_deposed_provider() {
    let harness = deployed(&[spec("p"), spec("a").managed_by("p").protected()]).await;
    add_deposed(&harness, "p").await;
    let report = harness.run(Operation::Destroy, harness.default_run()).await;
    assert!(!report.succeeded());
    assert!(harness.keys().contains(&"a".to_owned()) && harness.keys().contains(&"p".to_owned()));
    assert_eq!(
        report.failures[0].reasons,
        ["it is protected; unprotect it first"]
    );
    edit_entry(&harness, "a", |entry| entry.protect = false).await;
    settles(&harness, &[spec("p"), spec("a").managed_by("p")]).await;
}

/// A targeted destroy is refused if a resource outside the targets depends on the target, unless the run includes
/// dependents.
#[tokio::test]
async fn class_21347_dependent_of_a_destroy_target() {
    let program = [spec("a"), spec("b").uses(&["a"])];
    let harness = deployed(&program).await;
    let refused = harness.run(Operation::Destroy, targeting(&harness, &["a"])).await;
    assert_eq!(refused.failures[0].reasons, ["b still depends on it"]);
    assert_eq!(harness.keys(), ["a", "b"]);
    let mut run = targeting(&harness, &["a"]);
    run.options.target_dependents = true;
    let report = harness.run(Operation::Destroy, run).await;
    ends_well(&harness, &report, &program).await;
}

/// A destroy that targets a renamed resource by its new address.
#[tokio::test]
async fn class_21282_renamed_target_of_a_destroy() {
    let harness = deployed(&[spec("a"), spec("b").uses(&["a"])]).await;
    let renamed = [spec("c").was("a"), spec("b").uses(&["c"])];
    let report = harness.run(update(&renamed), targeting(&harness, &["b"])).await;
    assert!(report.succeeded(), "{report:?}");
    let mut run = targeting(&harness, &["c"]);
    run.options.target_dependents = true;
    let report = harness.run(Operation::Destroy, run).await;
    ends_well(&harness, &report, &renamed).await;
}

/// A targeted update of a resource whose parent was renamed and isn't a target.
#[tokio::test]
async fn class_21364_target_whose_parent_was_renamed() {
    let harness = deployed(&[spec("p"), spec("a").child_of("p")]).await;
    let program = [spec("q").was("p"), spec("a").child_of("q").size(2)];
    let report = harness.run(update(&program), targeting(&harness, &["a"])).await;
    assert_eq!(harness.keys(), ["q", "a"]);
    ends_well(&harness, &report, &program).await;
}

/// A destroy that finds an object with dependents already missing.
#[tokio::test]
async fn class_21384_destroy_with_dependent_of_a_missing_object() {
    let program = [spec("a"), spec("b").uses(&["a"])];
    let harness = deployed(&program).await;
    let lost = harness.entry("a").unwrap().id.clone().unwrap();
    harness.cloud.lose(&lost);
    let report = harness.run(Operation::Destroy, refreshing(&harness)).await;
    assert!(report.succeeded() && harness.keys().is_empty(), "{report:?}");
    ends_well(&harness, &report, &program).await;
}

/// A reference to a provider that was renamed.
#[tokio::test]
async fn class_21399_reference_to_a_renamed_provider() {
    let harness = deployed(&[spec("p"), spec("a").managed_by("p")]).await;
    harness.cloud.forget_calls();
    let program = [spec("q").was("p"), spec("a").managed_by("q")];
    let report = harness.run(update(&program), harness.default_run()).await;
    assert_eq!(harness.cloud.calls(), Vec::<String>::new());
    let end = harness.run(Operation::Destroy, harness.default_run()).await;
    assert!(end.succeeded() && harness.keys().is_empty(), "{end:?}");
    ends_well(&harness, &report, &program).await;
}

/// A targeted update of a provider that changes its parent.
#[tokio::test]
async fn class_21402_targeted_provider_that_changes_its_parent() {
    let harness = deployed(&[
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
    let report = harness.run(update(&program), targeting(&harness, &["p"])).await;
    ends_well(&harness, &report, &program).await;
}

/// A refresh with children of a missing parent.
#[tokio::test]
async fn class_21672_children_of_a_missing_parent() {
    let program = [spec("r"), spec("p").child_of("r"), spec("a").child_of("p")];
    let harness = deployed(&program).await;
    let lost = harness.entry("p").unwrap().id.clone().unwrap();
    harness.cloud.lose(&lost);
    let refresh = harness.run(Operation::Refresh, harness.default_run()).await;
    assert!(refresh.succeeded());
    assert_eq!(harness.entry("a").unwrap().parent, Some("r".parse().unwrap()));
    ends_well(&harness, &refresh, &program).await;
}

/// Dependencies on a tombstone, in a run that refreshes.
#[tokio::test]
async fn class_21675_dependencies_on_a_tombstone() {
    let harness = deployed(&[
        spec("a").solo(),
        spec("b").needs(&["a"]),
        spec("c").uses(&["a", "b"]),
    ])
    .await;
    // The replacement of `a` stops halfway: `b` and `a` are deleted, and nothing is created.
    harness.cloud.set_modes(|what, _| {
        let mode = if what == "create" {
            CallMode::NotDone
        } else {
            CallMode::Normal
        };
        (mode, 0, 0)
    });
    let program = [
        spec("a").solo().fixed(2),
        spec("b").needs(&["a"]),
        spec("c").uses(&["a", "b"]),
    ];
    let broken = harness.run(update(&program), harness.default_run()).await;
    assert!(!broken.succeeded() && harness.entry("a").unwrap().pending_replacement);
    harness.cloud.calm();
    let refresh = harness.run(Operation::Refresh, harness.default_run()).await;
    assert!(refresh.succeeded(), "{refresh:?}");
    let report = harness.run(update(&program), refreshing(&harness)).await;
    ends_well(&harness, &report, &program).await;
}

/// A targeted update that refreshes, with a parent that has a deposed generation.
#[tokio::test]
async fn class_22923_target_whose_parent_has_a_deposed_entry() {
    let program = [spec("p"), spec("a").child_of("p")];
    let harness = deployed(&program).await;
    add_deposed(&harness, "p").await;
    let changed = [spec("p"), spec("a").child_of("p").size(2)];
    let mut run = targeting(&harness, &["a"]);
    run.options.refresh = true;
    let report = harness.run(update(&changed), run).await;
    ends_well(&harness, &report, &changed).await;
}
