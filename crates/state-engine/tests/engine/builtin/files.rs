//! Files: made whole, changed whole, watched, and never somebody else's.

use super::{Bench, after, goal, names, ops, refusals, update};
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
async fn a_file_is_made_changed_moved_and_deleted_and_leaves_nothing_else() {
    let bench = Bench::new().await;
    let report = bench.done(&[file("a.txt", "one")]).await;
    assert_eq!(ops(&report), [StepOp::Create]);
    assert_eq!(bench.text("a.txt"), "one");
    let entry = bench.entry("page").await.unwrap();
    assert_eq!(entry.id.as_deref(), Some(&*bench.id("a.txt")));
    assert_eq!(bench.output("page", "size").await.unwrap(), "3");
    assert_eq!(bench.output("page", "mode").await.unwrap(), r#""0644""#);
    assert!(!bench.done(&[file("a.txt", "one")]).await.has_changes());
    let before = fs::metadata(bench.path("a.txt")).unwrap().ino();
    let report = bench.done(&[file("a.txt", "two")]).await;
    assert_eq!(ops(&report), [StepOp::Update]);
    assert_eq!(bench.text("a.txt"), "two");
    assert_ne!(
        fs::metadata(bench.path("a.txt")).unwrap().ino(),
        before,
        "it was written in place"
    );
    let report = bench.done(&[file("b.txt", "two")]).await;
    assert!(ops(&report).contains(&StepOp::CreateReplacement), "{report:?}");
    assert_eq!(bench.names(), ["b.txt"]);
    let report = bench.destroy().await;
    assert!(report.succeeded() && bench.names().is_empty(), "{report:?}");
}

#[tokio::test]
async fn the_rights_are_those_that_were_asked_for_whatever_the_umask() {
    let bench = Bench::new().await;
    bench.done(&[with_mode("a.txt", "0666")]).await;
    assert_eq!(mode_of(&bench.path("a.txt")), 0o666);
    let report = bench.done(&[with_mode("a.txt", "4750")]).await;
    assert_eq!(ops(&report), [StepOp::Update]);
    assert_eq!(mode_of(&bench.path("a.txt")), 0o4750);
    assert!(!bench.done(&[with_mode("a.txt", "4750")]).await.has_changes());
}

#[tokio::test]
async fn a_create_refuses_what_is_there_and_an_import_takes_it_over() {
    let bench = Bench::new().await;
    bench.put("a.txt", "somebody's");
    let said = refusals(&bench.up(&[file("a.txt", "ours")]).await);
    assert!(said.contains(&format!("import: {}", bench.id("a.txt"))), "{said}");
    assert_eq!(bench.text("a.txt"), "somebody's");
    assert_eq!(bench.names(), ["a.txt"]);
    assert!(bench.entry("page").await.is_none());
    let mut import = file("a.txt", "ours");
    import.options.import = Some("a.txt".to_owned());
    let said = refusals(&bench.up(std::slice::from_ref(&import)).await);
    assert!(
        said.contains(&format!("its absolute path: {}", bench.id("a.txt"))),
        "{said}"
    );
    import.options.import = Some(bench.id("a.txt"));
    let planned = bench.preview(std::slice::from_ref(&import)).await;
    assert_eq!(ops(&planned), [StepOp::Import, StepOp::Update]);
    bench.done(&[import]).await;
    assert_eq!(bench.text("a.txt"), "ours");
    assert_eq!(
        bench.entry("page").await.unwrap().id.as_deref(),
        Some(&*bench.id("a.txt"))
    );
}

#[tokio::test]
async fn two_spellings_of_a_path_are_one_file() {
    let bench = Bench::new().await;
    bench.done(&[file("x/../y/./../a.txt", "one")]).await;
    assert_eq!(bench.names(), ["a.txt"]);
    assert_eq!(
        bench.entry("page").await.unwrap().id.as_deref(),
        Some(&*bench.id("a.txt"))
    );
    let inputs = bench.entry("page").await.unwrap().inputs.clone().unwrap();
    let recorded = inputs.get("path").unwrap().as_str().unwrap().into_owned();
    assert_eq!(
        recorded,
        bench.id("a.txt"),
        "a run that is started elsewhere has to find it"
    );
    let report = bench.done(&[file(&bench.id("a.txt"), "one")]).await;
    assert_eq!(ops(&report), [], "{report:?}");
    assert_eq!(bench.text("a.txt"), "one");
}

#[tokio::test]
async fn what_changed_behind_its_back_is_told_and_mended() {
    let bench = Bench::new().await;
    let goals = [with_mode("a.txt", "0640")];
    bench.done(&goals).await;
    bench.put("a.txt", "drifted");
    fs::set_permissions(bench.path("a.txt"), Permissions::from_mode(0o600)).unwrap();
    let report = bench.refresh().await;
    assert!(report.succeeded() && report.has_changes(), "{report:?}");
    let planned = bench.preview(&goals).await;
    let changes = planned.steps[0].changes();
    let change = |pointer: &str| changes.iter().find(|change| change.pointer == pointer).unwrap();
    let content = change("/inputs/content");
    assert_eq!(content.old.as_ref().unwrap().revealed().as_str(), r#""drifted""#);
    assert_eq!(content.new.as_ref().unwrap().revealed().as_str(), r#""x""#);
    assert_eq!(
        change("/inputs/mode").old.as_ref().unwrap().revealed().as_str(),
        r#""0600""#
    );
    assert_eq!(ops(&bench.done(&goals).await), [StepOp::Update]);
    assert_eq!(
        (bench.text("a.txt").as_str(), mode_of(&bench.path("a.txt"))),
        ("x", 0o640)
    );
    fs::remove_file(bench.path("a.txt")).unwrap();
    let mut run = bench.usual();
    run.options.refresh = true;
    let report = bench.run(update(&goals), run).await;
    assert!(report.succeeded(), "{report:?}");
    assert_eq!(bench.text("a.txt"), "x");
    assert!(!bench.refresh().await.has_changes());
}

#[tokio::test]
async fn drift_that_cannot_be_told_as_text_is_mended_as_well() {
    let bench = Bench::new().await;
    let goals = [file("a.txt", "one")];
    bench.done(&goals).await;
    for drifted in [vec![0xff, 0xfe], vec![b'x'; (1 << 20) + 1]] {
        bench.put("a.txt", drifted);
        assert!(bench.refresh().await.has_changes());
        assert_eq!(ops(&bench.done(&goals).await), [StepOp::Update]);
        assert_eq!(bench.text("a.txt"), "one");
    }
}

#[tokio::test]
async fn a_copy_follows_its_source() {
    let bench = Bench::new().await;
    bench.put("from", [0xff, 0, 1]);
    let goals = [goal("page", "file", r#"{"path":"to","source":"from"}"#)];
    bench.done(&goals).await;
    assert_eq!(fs::read(bench.path("to")).unwrap(), [0xff, 0, 1]);
    assert!(!bench.done(&goals).await.has_changes());
    bench.put("from", [7; 200_000]);
    assert_eq!(ops(&bench.done(&goals).await), [StepOp::Update]);
    assert_eq!(fs::read(bench.path("to")).unwrap(), [7; 200_000]);
    fs::remove_file(bench.path("from")).unwrap();
    let said = refusals(&bench.up(&goals).await);
    assert!(said.contains("`source` can't be read"), "{said}");
    assert_eq!(fs::read(bench.path("to")).unwrap(), [7; 200_000]);
}

#[tokio::test]
async fn a_symbolic_link_is_never_followed() {
    let bench = Bench::new().await;
    bench.put("target", "not ours");
    symlink(bench.path("target"), bench.path("a.txt")).unwrap();
    let said = refusals(&bench.up(&[file("a.txt", "one")]).await);
    assert!(said.contains("something is there already"), "{said}");
    let mut import = file("a.txt", "one");
    import.options.import = Some(bench.id("a.txt"));
    let said = refusals(&bench.up(&[import]).await);
    assert!(said.contains("a symbolic link is there, not a file"), "{said}");
    fs::remove_file(bench.path("a.txt")).unwrap();
    bench.done(&[file("a.txt", "one")]).await;
    fs::remove_file(bench.path("a.txt")).unwrap();
    symlink(bench.path("target"), bench.path("a.txt")).unwrap();
    for report in [
        bench.up(&[file("a.txt", "two")]).await,
        bench.refresh().await,
        bench.destroy().await,
    ] {
        assert!(
            refusals(&report).contains("a symbolic link is there"),
            "{report:?}"
        );
    }
    assert_eq!(bench.text("target"), "not ours");
    assert!(bench.entry("page").await.is_some());
}

#[tokio::test]
async fn what_cannot_be_written_is_not_done_and_nothing_is_pending() {
    let bench = Bench::new().await;
    let said = refusals(&bench.up(&[file("no/such/a.txt", "one")]).await);
    assert!(said.contains("declare it as a `directory`"), "{said}");
    bench.put("plain", "");
    let said = refusals(&bench.up(&[file("plain/a.txt", "one")]).await);
    assert!(said.contains("there is no folder"), "{said}");
    let said = refusals(&bench.up(&[file(&"x".repeat(256), "one")]).await);
    assert!(said.contains("too long"), "{said}");
    // Nobody makes a file there, root included.
    let said = refusals(&bench.up(&[file("/proc/self/statectl", "one")]).await);
    assert!(said.contains("/proc/self/statectl: "), "{said}");
    assert_eq!(bench.names(), ["plain"]);
    assert!(bench.entry("page").await.is_none());
}

#[tokio::test]
async fn a_folder_in_its_place_is_not_deleted_and_a_file_that_went_is_fine() {
    let bench = Bench::new().await;
    bench.done(&[file("a.txt", "one")]).await;
    fs::remove_file(bench.path("a.txt")).unwrap();
    fs::create_dir(bench.path("a.txt")).unwrap();
    let said = refusals(&bench.destroy().await);
    assert!(said.contains("a folder is there, not a file"), "{said}");
    fs::remove_dir(bench.path("a.txt")).unwrap();
    assert!(bench.destroy().await.succeeded());
    assert!(bench.entry("page").await.is_none());
}

#[tokio::test]
async fn every_input_that_is_wrong_is_named_at_once_and_no_value_is() {
    let bench = Bench::new().await;
    let inputs = r#"{"contnet":"canary-1","mode":644,"path":["canary-2"],"source":"/"}"#;
    let said = refusals(&bench.up(&[goal("page", "file", inputs)]).await);
    for part in [
        "`file` has no input `contnet`: did you mean `content`?",
        "`mode` must be a string of three or four octal digits, not a number: quote it",
        "`path` must be a string, not this list",
        "`source` is no path: it is the root of the filesystem",
    ] {
        assert!(said.contains(part), "{part}\n{said}");
    }
    assert!(!said.contains("canary"), "{said}");
    let said = refusals(&bench.up(&[goal("page", "file", "{}")]).await);
    assert!(
        said.contains("`path` is missing") && said.contains("`content` is missing"),
        "{said}"
    );
    let both = r#"{"path":"a/","content":"","source":"b"}"#;
    let said = refusals(&bench.up(&[goal("page", "file", both)]).await);
    assert!(
        said.contains("can't both be given") && said.contains("ends with a slash"),
        "{said}"
    );
}

#[tokio::test]
async fn an_input_that_is_not_known_yet_is_not_missing() {
    let bench = Bench::new().await;
    let mut waits = after(goal("page", "file", r#"{"path":"a.txt"}"#), "password");
    waits.unknown.insert("content".to_owned());
    let goals = [goal("password", "random:password", "{}"), waits];
    let planned = bench.preview(&goals).await;
    assert!(planned.succeeded(), "{planned:?}");
    assert_eq!(ops(&planned), [StepOp::Create, StepOp::Create]);
    assert!(bench.names().is_empty());
}

#[tokio::test]
async fn a_file_that_is_replaced_at_its_path_goes_first() {
    let bench = Bench::new().await;
    bench.done(&[file("a.txt", "one")]).await;
    let mut run = bench.usual();
    run.options.replace.insert(super::address("page"));
    let report = bench.run(update(&[file("a.txt", "one")]), run).await;
    assert!(report.succeeded(), "{report:?}");
    assert!(ops(&report).contains(&StepOp::DeleteReplaced), "{report:?}");
    assert_eq!(bench.text("a.txt"), "one");
}

#[tokio::test]
async fn a_secret_content_is_told_by_nobody_and_its_digest_is_secret_too() {
    let bench = Bench::new().await;
    let secret = |content: &str| {
        let mut goal = file("a.txt", content);
        goal.sensitive_inputs.push("content".to_owned());
        goal
    };
    bench.done(&[secret("canary-one")]).await;
    bench.put("a.txt", "canary-two");
    bench.refresh().await;
    fs::remove_file(bench.path("a.txt")).unwrap();
    fs::create_dir(bench.path("a.txt")).unwrap();
    refusals(&bench.up(&[secret("canary-three")]).await);
    let told = bench.told().join("\n");
    assert!(!told.contains("canary"), "{told}");
    let entry = bench.entry("page").await.unwrap();
    assert_eq!(entry.sensitive_outputs, ["digest"]);
    let digest = bench.output("page", "digest").await.unwrap();
    assert!(!told.contains(digest.trim_matches('"')), "{told}");
    let masked = state_core::sensitive::mask_entry(&entry, "***");
    let texts =
        [masked.0, masked.1].map(|side| side.unwrap_or_else(Properties::empty).json().as_str().to_owned());
    assert!(
        !texts.concat().contains("canary") && !texts.concat().contains(&*digest),
        "{texts:?}"
    );
}

#[tokio::test]
async fn files_stand_in_folders_that_the_program_makes() {
    let bench = Bench::new().await;
    let goals = [
        after(
            goal("page", "file", r#"{"path":"site/a.txt","content":"x"}"#),
            "site",
        ),
        goal("site", "directory", r#"{"path":"site"}"#),
    ];
    bench.done(&goals).await;
    assert_eq!(names(&bench.path("site")), ["a.txt"]);
    let report = bench.destroy().await;
    assert!(report.succeeded() && bench.names().is_empty(), "{report:?}");
}

#[tokio::test]
async fn a_copy_that_takes_too_long_stops_and_leaves_nothing_behind() {
    let bench = Bench::new().await;
    // Without content on the disk, and long enough to be caught at it.
    let source = fs::File::create(bench.path("from")).unwrap();
    source.set_len(8 << 30).unwrap();
    let goals = [goal("page", "file", r#"{"path":"to","source":"from"}"#)];
    let mut run = bench.usual();
    run.options.timeout = Some(Duration::from_millis(100));
    let report = bench.run(update(&goals), run).await;
    let reasons = report.failures[0].reasons.join("; ");
    assert!(reasons.contains("didn't finish `create`"), "{reasons}");
    assert_eq!(report.pending.len(), 1, "{report:?}");
    // It stops between two pieces.
    let mut waited = Duration::ZERO;
    while bench.names() != ["from"] {
        assert!(waited < Duration::from_secs(2), "{:?}", bench.names());
        tokio::time::sleep(Duration::from_millis(10)).await;
        waited += Duration::from_millis(10);
    }
    source.set_len(1).unwrap();
    let report = bench.done(&goals).await;
    assert!(report.pending.is_empty(), "{report:?}");
    assert_eq!(bench.names(), ["from", "to"]);
}
