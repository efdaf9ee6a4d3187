//! No two resources have one file: told before anything is made, in previews too.

use super::{Bench, goal, ops, refusals, update};
use state_engine::Goal;

fn file(name: &str, path: &str) -> Goal {
    goal(name, "file", &format!(r#"{{"path":"{path}","content":"x"}}"#))
}

#[tokio::test]
async fn two_resources_with_one_path_are_told_before_the_second_is_made() {
    let bench = Bench::new().await;
    let both = [file("page", "a.txt"), file("copy", "./b/../a.txt")];
    let expected = format!(
        "its object would be {}, which belongs to page: two resources can't have one object; if this resource was renamed from page, list page in `aliases`",
        bench.id("a.txt")
    );
    let preview = bench.preview(&both).await;
    assert_eq!(refusals(&preview), expected);
    let mut run = bench.usual();
    run.options.parallel = 1;
    let report = bench.run(update(&both), run).await;
    assert_eq!(refusals(&report), expected);
    assert_eq!(bench.names(), ["a.txt"]);
    assert!(bench.entry("page").await.is_some() && bench.entry("copy").await.is_none());
}

#[tokio::test]
async fn a_resource_with_a_new_name_is_told_how_to_keep_its_file() {
    let bench = Bench::new().await;
    bench.done(&[file("page", "a.txt")]).await;
    let report = bench.preview(&[file("index", "a.txt")]).await;
    assert!(refusals(&report).contains("say so with `aliases`"), "{report:?}");
    let mut renamed = file("index", "a.txt");
    renamed.options.aliases = vec!["page".parse().unwrap()];
    let report = bench.done(&[renamed]).await;
    assert!(ops(&report).is_empty(), "{report:?}");
    assert!(bench.entry("index").await.is_some() && bench.entry("page").await.is_none());
}

#[tokio::test]
async fn what_has_the_id_of_the_one_that_it_replaces_must_be_deleted_first() {
    let bench = Bench::new().await;
    bench.done(&[file("page", "a.txt")]).await;
    let mut beside = file("page", "a.txt");
    beside.options.delete_before_replace = Some(false);
    let mut run = bench.usual();
    run.options.replace = ["page".parse().unwrap()].into();
    let report = bench.run(update(&[beside]), run.clone()).await;
    assert!(
        refusals(&report).contains("say `delete_before_replace: true`"),
        "{report:?}"
    );
    assert_eq!(bench.text("a.txt"), "x");
    let report = bench.run(update(&[file("page", "a.txt")]), run).await;
    assert!(report.succeeded(), "{report:?}");
}

#[tokio::test]
async fn a_path_is_free_again_when_its_file_was_not_made() {
    let bench = Bench::new().await;
    bench.put("a.txt", "a stranger's");
    let both = [file("page", "a.txt"), file("copy", "a.txt")];
    let mut run = bench.usual();
    run.options.parallel = 1;
    run.options.continue_on_error = true;
    let report = bench.run(update(&both), run).await;
    let told = refusals(&report);
    assert_eq!(report.failures.len(), 2, "{told}");
    assert!(!told.contains("that of page"), "nobody has it: {told}");
}

fn moved(name: &str, path: &str) -> Goal {
    let mut goal = file(name, path);
    goal.options.delete_before_replace = Some(true);
    goal
}

#[tokio::test]
async fn nothing_is_deleted_for_a_new_object_that_another_one_is_already() {
    let bench = Bench::new().await;
    bench.done(&[file("page", "a.txt"), file("copy", "b.txt")]).await;
    let wanted = [moved("page", "b.txt"), file("copy", "b.txt")];
    let report = bench.up(&wanted).await;
    assert!(refusals(&report).contains("which belongs to copy"), "{report:?}");
    assert_eq!(bench.names(), ["a.txt", "b.txt"], "page is where it was");
}

/// What a run that died after the deletion leaves: a tombstone that says where the object was.
#[tokio::test]
async fn a_tombstone_has_no_object_that_others_could_not_have() {
    let bench = Bench::new().await;
    bench.done(&[file("page", "a.txt")]).await;
    let gone = [moved("page", "nowhere/b.txt")];
    let report = bench.up(&gone).await;
    assert!(!report.succeeded() && bench.names().is_empty(), "{report:?}");
    assert!(bench.entry("page").await.unwrap().pending_replacement);
    bench.done(&[file("copy", "a.txt"), moved("page", "b.txt")]).await;
    assert_eq!(bench.names(), ["a.txt", "b.txt"]);
}

#[tokio::test]
async fn what_a_refresh_found_gone_has_no_object_any_more() {
    let bench = Bench::new().await;
    bench.done(&[file("page", "a.txt")]).await;
    std::fs::remove_file(bench.path("a.txt")).unwrap();
    let mut run = bench.usual();
    run.options.refresh = true;
    let report = bench.run(update(&[file("index", "a.txt")]), run).await;
    assert!(report.succeeded(), "{report:?}");
    assert_eq!(bench.names(), ["a.txt"]);
}
