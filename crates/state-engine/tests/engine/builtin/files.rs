//! Tests of the file provider: atomic writes, drift, and files that the stack doesn't manage.

use super::{ProviderHarness, after, goal, names, ops, refusals, update};
use state_core::Properties;
use state_engine::{Goal, StepOp};
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::time::Duration;

fn file(path: &str, content: &str) -> Goal {
    goal(
        "page",
        "file",
        &format!(r#"{{"path":"{path}","content":"{content}"}}"#),
    )
}

fn with_mode(path: &str, mode: &str) -> Goal {
    goal(
        "page",
        "file",
        &format!(r#"{{"path":"{path}","content":"x","mode":"{mode}"}}"#),
    )
}

fn mode_of(path: &std::path::Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[tokio::test]
async fn file_lifecycle_leaves_no_other_files() {
    let harness = ProviderHarness::new().await;
    let report = harness.done(&[file("a.txt", "one")]).await;
    assert_eq!(ops(&report), [StepOp::Create]);
    assert_eq!(harness.text("a.txt"), "one");
    let entry = harness.entry("page").await.unwrap();
    assert_eq!(entry.id.as_deref(), Some(&*harness.id("a.txt")));
    assert_eq!(harness.output("page", "size").await.unwrap(), "3");
    assert_eq!(harness.output("page", "mode").await.unwrap(), r#""0644""#);
    assert!(!harness.done(&[file("a.txt", "one")]).await.has_changes());
    let before = fs::metadata(harness.path("a.txt")).unwrap().ino();
    let report = harness.done(&[file("a.txt", "two")]).await;
    assert_eq!(ops(&report), [StepOp::Update]);
    assert_eq!(harness.text("a.txt"), "two");
    assert_ne!(
        fs::metadata(harness.path("a.txt")).unwrap().ino(),
        before,
        "an update writes a new file and doesn't change the old one"
    );
    let report = harness.done(&[file("b.txt", "two")]).await;
    assert!(ops(&report).contains(&StepOp::CreateReplacement), "{report:?}");
    assert_eq!(harness.names(), ["b.txt"]);
    let report = harness.destroy().await;
    assert!(report.succeeded() && harness.names().is_empty(), "{report:?}");
}

#[tokio::test]
async fn permissions_are_independent_of_the_umask() {
    let harness = ProviderHarness::new().await;
    harness.done(&[with_mode("a.txt", "0666")]).await;
    assert_eq!(mode_of(&harness.path("a.txt")), 0o666);
    let report = harness.done(&[with_mode("a.txt", "4750")]).await;
    assert_eq!(ops(&report), [StepOp::Update]);
    assert_eq!(mode_of(&harness.path("a.txt")), 0o4750);
    assert!(!harness.done(&[with_mode("a.txt", "4750")]).await.has_changes());
}

#[tokio::test]
async fn create_refuses_an_existing_file_and_import_adopts_it() {
    let harness = ProviderHarness::new().await;
    harness.put("a.txt", "foreign");
    let messages = refusals(&harness.up(&[file("a.txt", "ours")]).await);
    assert!(
        messages.contains(&format!("import: {}", harness.id("a.txt"))),
        "{messages}"
    );
    assert_eq!(harness.text("a.txt"), "foreign");
    assert_eq!(harness.names(), ["a.txt"]);
    assert!(harness.entry("page").await.is_none());
    let mut import = file("a.txt", "ours");
    import.options.import = Some("a.txt".to_owned());
    let messages = refusals(&harness.up(std::slice::from_ref(&import)).await);
    assert!(
        messages.contains(&format!("use {} instead of a.txt", harness.id("a.txt"))),
        "{messages}"
    );
    import.options.import = Some(harness.id("a.txt"));
    let planned = harness.preview(std::slice::from_ref(&import)).await;
    assert_eq!(ops(&planned), [StepOp::Import, StepOp::Update]);
    harness.done(&[import]).await;
    assert_eq!(harness.text("a.txt"), "ours");
    assert_eq!(
        harness.entry("page").await.unwrap().id.as_deref(),
        Some(&*harness.id("a.txt"))
    );
}

#[tokio::test]
async fn different_spellings_of_a_path_name_one_file() {
    let harness = ProviderHarness::new().await;
    harness.done(&[file("x/../y/./../a.txt", "one")]).await;
    assert_eq!(harness.names(), ["a.txt"]);
    assert_eq!(
        harness.entry("page").await.unwrap().id.as_deref(),
        Some(&*harness.id("a.txt"))
    );
    let inputs = harness.entry("page").await.unwrap().inputs.clone().unwrap();
    let recorded = inputs.get("path").unwrap().as_str().unwrap().into_owned();
    assert_eq!(
        recorded,
        harness.id("a.txt"),
        "a run from another directory must find the file"
    );
    let report = harness.done(&[file(&harness.id("a.txt"), "one")]).await;
    assert_eq!(ops(&report), [], "{report:?}");
    assert_eq!(harness.text("a.txt"), "one");
}

#[tokio::test]
async fn external_change_is_detected_and_repaired() {
    let harness = ProviderHarness::new().await;
    let goals = [with_mode("a.txt", "0640")];
    harness.done(&goals).await;
    harness.put("a.txt", "drifted");
    fs::set_permissions(harness.path("a.txt"), Permissions::from_mode(0o600)).unwrap();
    let report = harness.refresh().await;
    assert!(report.succeeded() && report.has_changes(), "{report:?}");
    let planned = harness.preview(&goals).await;
    let changes = planned.steps[0].changes();
    let change = |pointer: &str| changes.iter().find(|change| change.pointer == pointer).unwrap();
    let content = change("/inputs/content");
    assert_eq!(content.old.as_ref().unwrap().revealed().as_str(), r#""drifted""#);
    assert_eq!(content.new.as_ref().unwrap().revealed().as_str(), r#""x""#);
    assert_eq!(
        change("/inputs/mode").old.as_ref().unwrap().revealed().as_str(),
        r#""0600""#
    );
    assert_eq!(ops(&harness.done(&goals).await), [StepOp::Update]);
    assert_eq!(
        (harness.text("a.txt").as_str(), mode_of(&harness.path("a.txt"))),
        ("x", 0o640)
    );
    fs::remove_file(harness.path("a.txt")).unwrap();
    let mut run = harness.default_run();
    run.options.refresh = true;
    let report = harness.run(update(&goals), run).await;
    assert!(report.succeeded(), "{report:?}");
    assert_eq!(harness.text("a.txt"), "x");
    assert!(!harness.refresh().await.has_changes());
}

#[tokio::test]
async fn drift_to_binary_or_large_content_is_repaired() {
    let harness = ProviderHarness::new().await;
    let goals = [file("a.txt", "one")];
    harness.done(&goals).await;
    for drifted in [vec![0xff, 0xfe], vec![b'x'; (1 << 20) + 1]] {
        harness.put("a.txt", drifted);
        assert!(harness.refresh().await.has_changes());
        assert_eq!(ops(&harness.done(&goals).await), [StepOp::Update]);
        assert_eq!(harness.text("a.txt"), "one");
    }
}

#[tokio::test]
async fn copied_file_is_updated_when_its_source_changes() {
    let harness = ProviderHarness::new().await;
    harness.put("from", [0xff, 0, 1]);
    let goals = [goal("page", "file", r#"{"path":"to","source":"from"}"#)];
    harness.done(&goals).await;
    assert_eq!(fs::read(harness.path("to")).unwrap(), [0xff, 0, 1]);
    assert!(!harness.done(&goals).await.has_changes());
    harness.put("from", [7; 200_000]);
    assert_eq!(ops(&harness.done(&goals).await), [StepOp::Update]);
    assert_eq!(fs::read(harness.path("to")).unwrap(), [7; 200_000]);
    fs::remove_file(harness.path("from")).unwrap();
    let messages = refusals(&harness.up(&goals).await);
    assert!(messages.contains("can't read `source`"), "{messages}");
    assert_eq!(fs::read(harness.path("to")).unwrap(), [7; 200_000]);
}

#[tokio::test]
async fn symbolic_link_is_never_followed() {
    let harness = ProviderHarness::new().await;
    harness.put("target", "not ours");
    symlink(harness.path("target"), harness.path("a.txt")).unwrap();
    let messages = refusals(&harness.up(&[file("a.txt", "one")]).await);
    assert!(messages.contains("already exists"), "{messages}");
    let mut import = file("a.txt", "one");
    import.options.import = Some(harness.id("a.txt"));
    let messages = refusals(&harness.up(&[import]).await);
    assert!(
        messages.contains("expected a file, found a symbolic link"),
        "{messages}"
    );
    fs::remove_file(harness.path("a.txt")).unwrap();
    harness.done(&[file("a.txt", "one")]).await;
    fs::remove_file(harness.path("a.txt")).unwrap();
    symlink(harness.path("target"), harness.path("a.txt")).unwrap();
    for report in [
        harness.up(&[file("a.txt", "two")]).await,
        harness.refresh().await,
        harness.destroy().await,
    ] {
        assert!(refusals(&report).contains("found a symbolic link"), "{report:?}");
    }
    assert_eq!(harness.text("target"), "not ours");
    assert!(harness.entry("page").await.is_some());
}

#[tokio::test]
async fn failed_write_leaves_no_pending_operation() {
    let harness = ProviderHarness::new().await;
    let messages = refusals(&harness.up(&[file("no/such/a.txt", "one")]).await);
    assert!(messages.contains("declare it as a `directory`"), "{messages}");
    harness.put("plain", "");
    let messages = refusals(&harness.up(&[file("plain/a.txt", "one")]).await);
    assert!(messages.contains("doesn't exist"), "{messages}");
    let messages = refusals(&harness.up(&[file(&"x".repeat(256), "one")]).await);
    assert!(messages.contains("too long"), "{messages}");
    // Not even root can create a file in `/proc`.
    let messages = refusals(&harness.up(&[file("/proc/self/statectl", "one")]).await);
    assert!(messages.contains("/proc/self/statectl: "), "{messages}");
    assert_eq!(harness.names(), ["plain"]);
    assert!(harness.entry("page").await.is_none());
}

#[tokio::test]
async fn delete_refuses_a_directory_and_accepts_a_missing_file() {
    let harness = ProviderHarness::new().await;
    harness.done(&[file("a.txt", "one")]).await;
    fs::remove_file(harness.path("a.txt")).unwrap();
    fs::create_dir(harness.path("a.txt")).unwrap();
    let messages = refusals(&harness.destroy().await);
    assert!(
        messages.contains("expected a file, found a directory"),
        "{messages}"
    );
    fs::remove_dir(harness.path("a.txt")).unwrap();
    assert!(harness.destroy().await.succeeded());
    assert!(harness.entry("page").await.is_none());
}

#[tokio::test]
async fn all_wrong_inputs_are_named_and_no_value_is_quoted() {
    let harness = ProviderHarness::new().await;
    let inputs = r#"{"contnet":"canary-1","mode":644,"path":["canary-2"],"source":"/"}"#;
    let messages = refusals(&harness.up(&[goal("page", "file", inputs)]).await);
    for part in [
        "`file` has no input `contnet`: did you mean `content`?",
        "`mode` must be a string of three or four octal digits, not a number: quote it",
        "`path` must be a string, not this list",
        "`source` is not a valid path: it is the root of the filesystem",
    ] {
        assert!(messages.contains(part), "{part}\n{messages}");
    }
    assert!(!messages.contains("canary"), "{messages}");
    let messages = refusals(&harness.up(&[goal("page", "file", "{}")]).await);
    assert!(
        messages.contains("`path` is missing") && messages.contains("`content` is missing"),
        "{messages}"
    );
    let both = r#"{"path":"a/","content":"","source":"b"}"#;
    let messages = refusals(&harness.up(&[goal("page", "file", both)]).await);
    assert!(
        messages.contains("can't both be set") && messages.contains("ends with a slash"),
        "{messages}"
    );
}

#[tokio::test]
async fn unknown_input_is_not_reported_as_missing() {
    let harness = ProviderHarness::new().await;
    let mut waits = after(goal("page", "file", r#"{"path":"a.txt"}"#), "password");
    waits.unknown.insert("content".to_owned());
    let goals = [goal("password", "random:password", "{}"), waits];
    let planned = harness.preview(&goals).await;
    assert!(planned.succeeded(), "{planned:?}");
    assert_eq!(ops(&planned), [StepOp::Create, StepOp::Create]);
    assert!(harness.names().is_empty());
}

#[tokio::test]
async fn replacement_at_the_same_path_deletes_first() {
    let harness = ProviderHarness::new().await;
    harness.done(&[file("a.txt", "one")]).await;
    let mut run = harness.default_run();
    run.options.replace.insert(super::address("page"));
    let report = harness.run(update(&[file("a.txt", "one")]), run).await;
    assert!(report.succeeded(), "{report:?}");
    assert!(ops(&report).contains(&StepOp::DeleteReplaced), "{report:?}");
    assert_eq!(harness.text("a.txt"), "one");
}

#[tokio::test]
async fn secret_content_is_never_shown_and_its_digest_is_secret() {
    let harness = ProviderHarness::new().await;
    let secret = |content: &str| {
        let mut goal = file("a.txt", content);
        goal.sensitive_inputs.push("content".to_owned());
        goal
    };
    harness.done(&[secret("canary-one")]).await;
    harness.put("a.txt", "canary-two");
    harness.refresh().await;
    fs::remove_file(harness.path("a.txt")).unwrap();
    fs::create_dir(harness.path("a.txt")).unwrap();
    refusals(&harness.up(&[secret("canary-three")]).await);
    let messages = harness.messages().join("\n");
    assert!(!messages.contains("canary"), "{messages}");
    let entry = harness.entry("page").await.unwrap();
    assert_eq!(entry.sensitive_outputs, ["digest"]);
    let digest = harness.output("page", "digest").await.unwrap();
    assert!(!messages.contains(digest.trim_matches('"')), "{messages}");
    let masked = state_core::sensitive::mask_entry(&entry, "***");
    let texts =
        [masked.0, masked.1].map(|side| side.unwrap_or_else(Properties::empty).json().as_str().to_owned());
    assert!(
        !texts.concat().contains("canary") && !texts.concat().contains(&*digest),
        "{texts:?}"
    );
}

#[tokio::test]
async fn files_are_created_in_directories_of_the_same_program() {
    let harness = ProviderHarness::new().await;
    let goals = [
        after(
            goal("page", "file", r#"{"path":"site/a.txt","content":"x"}"#),
            "site",
        ),
        goal("site", "directory", r#"{"path":"site"}"#),
    ];
    harness.done(&goals).await;
    assert_eq!(names(&harness.path("site")), ["a.txt"]);
    let report = harness.destroy().await;
    assert!(report.succeeded() && harness.names().is_empty(), "{report:?}");
}

#[tokio::test]
async fn timed_out_copy_stops_and_leaves_no_file() {
    let harness = ProviderHarness::new().await;
    // A sparse file whose copy takes longer than the timeout.
    let source = fs::File::create(harness.path("from")).unwrap();
    source.set_len(8 << 30).unwrap();
    let goals = [goal("page", "file", r#"{"path":"to","source":"from"}"#)];
    let mut run = harness.default_run();
    run.options.timeout = Some(Duration::from_millis(100));
    let report = harness.run(update(&goals), run).await;
    let reasons = report.failures[0].reasons.join("; ");
    assert!(reasons.contains("didn't finish `create`"), "{reasons}");
    assert_eq!(report.pending.len(), 1, "{report:?}");
    // The copy runs in a thread, and stops only before it reads the next block.
    let mut waited = Duration::ZERO;
    while harness.names() != ["from"] {
        assert!(waited < Duration::from_secs(2), "{:?}", harness.names());
        tokio::time::sleep(Duration::from_millis(10)).await;
        waited += Duration::from_millis(10);
    }
    source.set_len(1).unwrap();
    let report = harness.done(&goals).await;
    assert!(report.pending.is_empty(), "{report:?}");
    assert_eq!(harness.names(), ["from", "to"]);
}
