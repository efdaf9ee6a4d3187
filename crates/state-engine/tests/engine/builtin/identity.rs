//! Tests that no two resources share a file. A run and a preview report the conflict before the second create.

use super::{ProviderHarness, goal, ops, refusals, update};
use state_engine::Goal;

fn file(name: &str, path: &str) -> Goal {
    goal(name, "file", &format!(r#"{{"path":"{path}","content":"x"}}"#))
}

#[tokio::test]
async fn shared_path_is_reported_before_the_second_create() {
    let harness = ProviderHarness::new().await;
    let both = [file("page", "a.txt"), file("copy", "./b/../a.txt")];
    let expected = format!(
        "its object would be {}, which belongs to page: two resources can't share an object; if this resource was renamed from page, list page in `aliases`",
        harness.id("a.txt")
    );
    let preview = harness.preview(&both).await;
    assert_eq!(refusals(&preview), expected);
    let mut run = harness.default_run();
    run.options.parallel = 1;
    let report = harness.run(update(&both), run).await;
    assert_eq!(refusals(&report), expected);
    assert_eq!(harness.names(), ["a.txt"]);
    assert!(harness.entry("page").await.is_some() && harness.entry("copy").await.is_none());
}

#[tokio::test]
async fn renamed_resource_gets_an_aliases_hint() {
    let harness = ProviderHarness::new().await;
    harness.done(&[file("page", "a.txt")]).await;
    let report = harness.preview(&[file("index", "a.txt")]).await;
    assert!(refusals(&report).contains("in `aliases`"), "{report:?}");
    let mut renamed = file("index", "a.txt");
    renamed.options.aliases = vec!["page".parse().unwrap()];
    let report = harness.done(&[renamed]).await;
    assert!(ops(&report).is_empty(), "{report:?}");
    assert!(harness.entry("index").await.is_some() && harness.entry("page").await.is_none());
}

#[tokio::test]
async fn replacement_with_the_same_id_must_delete_first() {
    let harness = ProviderHarness::new().await;
    harness.done(&[file("page", "a.txt")]).await;
    let mut beside = file("page", "a.txt");
    beside.options.delete_before_replace = Some(false);
    let mut run = harness.default_run();
    run.options.replace = ["page".parse().unwrap()].into();
    let report = harness.run(update(&[beside]), run.clone()).await;
    assert!(
        refusals(&report).contains("set `delete_before_replace: true`"),
        "{report:?}"
    );
    assert_eq!(harness.text("a.txt"), "x");
    let report = harness.run(update(&[file("page", "a.txt")]), run).await;
    assert!(report.succeeded(), "{report:?}");
}

#[tokio::test]
async fn failed_create_does_not_claim_the_path() {
    let harness = ProviderHarness::new().await;
    harness.put("a.txt", "a stranger's");
    let both = [file("page", "a.txt"), file("copy", "a.txt")];
    let mut run = harness.default_run();
    run.options.parallel = 1;
    run.options.continue_on_error = true;
    let report = harness.run(update(&both), run).await;
    let messages = refusals(&report);
    assert_eq!(report.failures.len(), 2, "{messages}");
    assert!(
        !messages.contains("belongs to page"),
        "no entry records the file: {messages}"
    );
}

fn moved(name: &str, path: &str) -> Goal {
    let mut goal = file(name, path);
    goal.options.delete_before_replace = Some(true);
    goal
}

#[tokio::test]
async fn move_to_a_claimed_path_deletes_nothing() {
    let harness = ProviderHarness::new().await;
    harness
        .done(&[file("page", "a.txt"), file("copy", "b.txt")])
        .await;
    let wanted = [moved("page", "b.txt"), file("copy", "b.txt")];
    let report = harness.up(&wanted).await;
    assert!(refusals(&report).contains("which belongs to copy"), "{report:?}");
    assert_eq!(
        harness.names(),
        ["a.txt", "b.txt"],
        "the file of page is unchanged"
    );
}

/// After the failed create of a replacement, only a tombstone remains (the old entry, marked as pending replacement).
/// The id of the tombstone is the path of the deleted file, which another resource may claim.
#[tokio::test]
async fn object_of_a_tombstone_can_be_claimed_by_others() {
    let harness = ProviderHarness::new().await;
    harness.done(&[file("page", "a.txt")]).await;
    let gone = [moved("page", "nowhere/b.txt")];
    let report = harness.up(&gone).await;
    assert!(!report.succeeded() && harness.names().is_empty(), "{report:?}");
    assert!(harness.entry("page").await.unwrap().pending_replacement);
    harness
        .done(&[file("copy", "a.txt"), moved("page", "b.txt")])
        .await;
    assert_eq!(harness.names(), ["a.txt", "b.txt"]);
}

#[tokio::test]
async fn path_of_a_missing_object_can_be_claimed_after_refresh() {
    let harness = ProviderHarness::new().await;
    harness.done(&[file("page", "a.txt")]).await;
    std::fs::remove_file(harness.path("a.txt")).unwrap();
    let mut run = harness.default_run();
    run.options.refresh = true;
    let report = harness.run(update(&[file("index", "a.txt")]), run).await;
    assert!(report.succeeded(), "{report:?}");
    assert_eq!(harness.names(), ["a.txt"]);
}
