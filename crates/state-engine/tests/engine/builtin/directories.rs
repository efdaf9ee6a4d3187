//! Tests of the directory provider: directories are created only at unused paths, and removed only if empty.

use super::{ProviderHarness, goal, ops, refusals, update};
use state_engine::{Goal, StepOp};
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};

fn folder(path: &str, mode: &str) -> Goal {
    goal(
        "site",
        "directory",
        &format!(r#"{{"path":"{path}","mode":"{mode}"}}"#),
    )
}

fn mode_of(path: &std::path::Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[tokio::test]
async fn directory_is_created_changed_moved_and_removed() {
    let harness = ProviderHarness::new().await;
    harness.done(&[folder("a", "0777")]).await;
    assert_eq!(mode_of(&harness.path("a")), 0o777);
    assert!(!harness.done(&[folder("./a", "0777")]).await.has_changes());
    harness.put("a/kept", "");
    assert_eq!(ops(&harness.done(&[folder("a", "0750")]).await), [StepOp::Update]);
    assert_eq!(mode_of(&harness.path("a")), 0o750);
    fs::remove_file(harness.path("a/kept")).unwrap();
    harness.done(&[folder("b", "0750")]).await;
    assert_eq!(harness.names(), ["b"]);
    assert!(harness.destroy().await.succeeded() && harness.names().is_empty());
}

#[tokio::test]
async fn non_empty_directory_is_kept_and_its_entries_are_named() {
    let harness = ProviderHarness::new().await;
    harness.done(&[folder("a", "0755")]).await;
    for number in 0..7 {
        harness.put(&format!("a/{number}"), "");
    }
    let messages = refusals(&harness.destroy().await);
    assert!(
        messages.contains("not deleted because it isn't empty: it contains 0, 1, 2, 3, 4 and 2 more"),
        "{messages}"
    );
    assert!(harness.entry("site").await.is_some());
    fs::remove_dir_all(harness.path("a")).unwrap();
    assert!(harness.destroy().await.succeeded());
}

#[tokio::test]
async fn existing_directory_is_refused_unless_imported() {
    let harness = ProviderHarness::new().await;
    fs::create_dir(harness.path("a")).unwrap();
    let messages = refusals(&harness.up(&[folder("a", "0755")]).await);
    assert!(messages.contains("import: "), "{messages}");
    let messages = refusals(&harness.up(&[folder("b/c", "0755")]).await);
    assert!(messages.contains("declare it as a `directory`"), "{messages}");
    let mut import = folder("a", "0700");
    import.options.import = Some(harness.id("a"));
    harness.done(&[import]).await;
    assert_eq!(mode_of(&harness.path("a")), 0o700);
}

#[tokio::test]
async fn drifted_or_missing_directory_is_repaired() {
    let harness = ProviderHarness::new().await;
    let goals = [folder("a", "0755")];
    harness.done(&goals).await;
    fs::set_permissions(harness.path("a"), Permissions::from_mode(0o700)).unwrap();
    let up = || async {
        let mut run = harness.default_run();
        run.options.refresh = true;
        harness.run(update(&goals), run).await
    };
    assert!(ops(&up().await).contains(&StepOp::Update));
    assert_eq!(mode_of(&harness.path("a")), 0o755);
    fs::remove_dir(harness.path("a")).unwrap();
    assert!(ops(&up().await).contains(&StepOp::Create));
    fs::remove_dir(harness.path("a")).unwrap();
    fs::create_dir(harness.path("b")).unwrap();
    symlink(harness.path("b"), harness.path("a")).unwrap();
    assert!(refusals(&harness.destroy().await).contains("expected a directory, found a symbolic link"));
    assert_eq!(harness.names(), ["a", "b"]);
}
