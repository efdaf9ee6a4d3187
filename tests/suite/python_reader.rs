//! Tests `tests/readers/state_reader.py`, which was written from `docs/format.md` alone and so shows that the page is
//! sufficient to read a store. The Python reader must list the same resources as the crates, and refuse damaged files.

mod histories;

use crate::store::{block_on, create, open};
use state_core::head::SealingPolicy;
use state_core::testkit::run::skip;
use state_core::{Json, PendingOperation, StackName, codec};
use state_tests::workload;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Maximum number of positions in a file at which a bit is flipped.
const PLACES: usize = 4;

/// Exit code of the reader for a damaged store.
const DAMAGED: i32 = 1;

/// Exit code of the reader for a missing store or stack.
const MISSING: i32 = 2;

/// Exit code of the reader for another format or a sealed stack.
const UNSUPPORTED: i32 = 3;

/// Returns the path of a file in `tests/`.
fn manifest(relative: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(relative)
}

/// Returns whether `python3` is installed; reports a skip if it isn't.
fn has_python() -> bool {
    let found = Command::new("python3").arg("--version").output();
    let found = found.is_ok_and(|output| output.status.success());
    if !found {
        skip("python3", "a reader that was written from docs/format.md");
    }
    found
}

/// Runs the Python reader on a stack.
fn read(store: &Path, stack: &str) -> Output {
    Command::new("python3")
        .arg(manifest("readers/state_reader.py"))
        .arg("--json")
        .args([store.as_os_str(), stack.as_ref()])
        .output()
        .expect("python3 runs")
}

/// Returns the lines that the reader prints for a stack. The reader must succeed.
#[track_caller]
fn listed(store: &Path, stack: &str) -> Vec<String> {
    let output = read(store, stack);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{errors}");
    let text = String::from_utf8(output.stdout).expect("the reader prints UTF-8");
    text.lines().map(str::to_owned).collect()
}

/// Asserts that the reader exits with this code and an error that contains this text.
#[track_caller]
fn refused(store: &Path, stack: &str, code: i32, text: &str) {
    let output = read(store, stack);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{text}: {errors}");
    assert!(errors.starts_with("error: "), "{errors}");
    assert!(errors.contains(text), "{text}: {errors}");
    assert!(output.stdout.is_empty(), "a refused stack must not be listed");
}

/// Returns the lines that the reader must print for a stack, computed by the crates.
fn expected(store: &Path, stack: &str) -> Vec<String> {
    let name: StackName = stack.parse().expect("a name");
    let tip = block_on(async {
        let stack = open(store).expect("a store").get(&name).await;
        let stack = stack.expect("the store is intact").expect("a stack");
        stack.verify(true).await.expect("the store is intact");
        stack.tip().await.expect("the store is intact")
    });
    let entries = tip.state.entries().map(|entry| codec::entry_text(entry));
    entries.chain(tip.state.pending().map(pending_line)).collect()
}

/// Encodes a pending operation without the messages of violations, which differ between implementations.
fn pending_line(operation: &PendingOperation) -> String {
    let mut operation = operation.clone();
    if let Some(result) = &mut operation.result {
        result.violations.clear();
    }
    let text = serde_json::to_string(&operation).expect("an operation is JSON");
    let line = Json::parse(&format!("{{\"pending\":{text}}}"));
    line.expect("the line is JSON").as_str().to_owned()
}

#[test]
fn python_reader_lists_the_same_as_the_crates() {
    if !has_python() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    block_on(histories::everything(folder.path())).expect("a store");
    for stack in [workload::STACK, workload::DESTINATION] {
        let expected = expected(folder.path(), stack);
        assert!(!expected.is_empty());
        assert_eq!(listed(folder.path(), stack), expected, "{stack}");
    }
    let expected = expected(folder.path(), workload::STACK);
    let refused = expected.iter().filter(|line| line.contains("\"result\":"));
    assert_eq!(
        refused.count(),
        1,
        "one pending operation must have a refused result"
    );

    block_on(histories::collected(folder.path())).expect("the history is collected");
    assert_eq!(
        listed(folder.path(), workload::STACK),
        self::expected(folder.path(), workload::STACK)
    );
}

#[test]
fn python_reader_reads_the_golden_store() {
    if !has_python() {
        return;
    }
    let store = manifest("golden/format-2/plain");
    let lines = listed(&store, "shop/production");
    assert_eq!(
        lines.len(),
        44,
        "the store has 43 resources and a pending operation"
    );

    let copy = tempfile::tempdir().expect("a folder");
    for (path, bytes) in files(&store) {
        put(&copy.path().join(path), &bytes);
    }
    assert_eq!(lines, expected(copy.path(), "shop/production"));
}

#[test]
fn python_reader_reads_only_pages_that_the_head_names() {
    if !has_python() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let golden = files(&manifest("golden/format-2/plain"));
    for (path, bytes) in &golden {
        put(&folder.path().join(path), bytes);
    }
    let is_page = |path: &Path| path.extension().is_some_and(|extension| extension == "page");
    let page = golden.iter().find(|(path, _)| is_page(path));
    let (path, bytes) = page.expect("the store has a page");
    let target = folder.path().join(path);
    for place in places(bytes.len()) {
        let mut damaged = bytes.clone();
        damaged[place] ^= 1 << (place % 8);
        put(&target, &damaged);
        refused(folder.path(), "shop/production", DAMAGED, ".page");
    }
    std::fs::remove_file(&target).expect("the page exists");
    refused(folder.path(), "shop/production", DAMAGED, ".page");
    put(&target, bytes);
    let planted = target.with_file_name("00000000000000000009-0123456789abcdef.page");
    put(&planted, b"a page that the head doesn't name");
    assert_eq!(listed(folder.path(), "shop/production").len(), 44);
}

#[test]
fn python_reader_refuses_flipped_and_missing_bytes() {
    if !has_python() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    block_on(histories::small(folder.path())).expect("a store");
    let whole = listed(folder.path(), workload::STACK);
    let mut kinds = BTreeSet::new();
    let mut same = 0;
    for (path, bytes) in files(folder.path()) {
        let Some(kind) = kind(&path) else { continue };
        let target = folder.path().join(&path);
        // A compaction repeats the frames of the segments: nothing depends on it.
        if path.extension().is_some_and(|extension| extension == "frames") {
            put(&target, &bytes[..bytes.len() - 1]);
            assert_eq!(listed(folder.path(), workload::STACK), whole);
            put(&target, &bytes);
            continue;
        }
        kinds.insert(kind);
        for place in places(bytes.len()) {
            let mut damaged = bytes.clone();
            damaged[place] ^= 1 << (place % 8);
            put(&target, &damaged);
            let output = read(folder.path(), workload::STACK);
            let errors = String::from_utf8_lossy(&output.stderr).into_owned();
            // A snapshot's digest covers the decompressed content. A damaged zstd frame may decompress to the same
            // content.
            let is_same = kind == "snapshots"
                && output.status.success()
                && String::from_utf8_lossy(&output.stdout)
                    .lines()
                    .eq(whole.iter().map(String::as_str));
            same += usize::from(is_same);
            let code = output.status.code();
            let is_refused = match kind {
                // A changed byte may name another format or stack, so any error code is accepted.
                "format" | "names" => code != Some(0),
                _ => code == Some(DAMAGED) || code == Some(UNSUPPORTED),
            };
            assert!(
                is_same || is_refused && errors.starts_with("error: "),
                "byte {place} of {}: {code:?} {errors}",
                path.display()
            );
        }
        put(&target, &bytes[..bytes.len() - 1]);
        let output = read(folder.path(), workload::STACK);
        assert_ne!(output.status.code(), Some(0), "{} cut", path.display());
        put(&target, &bytes);
    }
    let all = ["format", "head", "journal", "meta", "names", "snapshots"];
    assert_eq!(kinds, BTreeSet::from(all));
    assert!(same <= 2, "{same} damaged snapshots have the same content");
    assert_eq!(listed(folder.path(), workload::STACK), whole);
}

#[test]
fn python_reader_ends_the_journal_at_a_torn_frame() {
    if !has_python() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    block_on(histories::crashed(folder.path(), 2_000)).expect("a store");
    let before = expected(folder.path(), workload::STACK);
    assert_eq!(listed(folder.path(), workload::STACK), before);

    let (target, bytes) = last_segment(folder.path());
    // Tear the last frame in two ways: truncate it, and fill its last sectors with zeros as if they were never written.
    let cut = &bytes[..bytes.len() - 20];
    let mut unwritten = bytes.clone();
    let from = (bytes.len() - 200) / 512 * 512;
    unwritten[from..].fill(0);
    for torn in [cut, &unwritten] {
        put(&target, torn);
        let after = listed(folder.path(), workload::STACK);
        assert_eq!(after, expected(folder.path(), workload::STACK));
        assert_ne!(after, before, "the last record must be missing");
    }
    let mut damaged = bytes.clone();
    let last = damaged.len() - 1;
    damaged[last] ^= 1;
    put(&target, &damaged);
    refused(folder.path(), workload::STACK, DAMAGED, "chain");
}

#[test]
fn python_reader_follows_the_rule_of_preallocated_space() {
    if !has_python() {
        return;
    }
    // The last frame ends three bytes after the start of a sector, so that a guard must follow it.
    const OVER: usize = 3;
    let (mut folder, mut size) = (tempfile::tempdir().expect("a folder"), 2_000);
    let (target, bytes) = loop {
        block_on(histories::crashed(folder.path(), size)).expect("a store");
        let (target, bytes) = last_segment(folder.path());
        if bytes.len() % 512 == OVER {
            break (target, bytes);
        }
        size += 512 - (bytes.len() - OVER) % 512;
        folder = tempfile::tempdir().expect("a folder");
    };
    let store = folder.path();
    let before = expected(store, workload::STACK);
    let preallocated = |frames: &[u8], guard: &[u8]| {
        let mut file = [frames, guard].concat();
        file.resize(bytes.len() + 4096, 0);
        put(&target, &file);
    };
    for guard in [&GUARD[..], b""] {
        preallocated(&bytes, guard);
        assert_eq!(listed(store, workload::STACK), before);
        assert_eq!(expected(store, workload::STACK), before);
    }
    // The last sector was lost, or the append was cut: in the payload, in the chain, and within the header.
    let start = bytes
        .windows(4)
        .rposition(|bytes| bytes == b"SJF1")
        .expect("a frame");
    let cuts = [
        bytes.len() - OVER,
        bytes.len() - 600,
        bytes.len() - 20,
        start + 30,
        start + 3,
    ];
    for cut in cuts {
        preallocated(&bytes[..cut], b"");
        let after = listed(store, workload::STACK);
        assert_eq!(after, expected(store, workload::STACK), "{cut}");
        assert_ne!(after, before, "the last record must be missing");
    }
    // With the guard after them, the zeros are damage.
    let damaged = [&bytes[..bytes.len() - OVER], &[0; OVER]].concat();
    preallocated(&damaged, GUARD);
    refused(store, workload::STACK, DAMAGED, "chain");
}

/// The first bytes of every data frame.
const GUARD: &[u8; 7] = b"SJF1\x01\x01\x01";

/// Returns the last segment of the only stack: its path and its frames, without the guard after the last one.
fn last_segment(store: &Path) -> (PathBuf, Vec<u8>) {
    let is_segment = |path: &Path| path.extension().is_some_and(|extension| extension == "log");
    let segments = files(store).into_iter().filter(|(path, _)| is_segment(path));
    let (path, mut bytes) = segments.max().expect("a segment");
    let guard = (1..=GUARD.len()).rev().find(|length| {
        let end = (bytes.len() - length) % 512;
        let is_due = *length == GUARD.len() && (1..8).contains(&end) || end + length == 512;
        is_due && bytes.ends_with(&GUARD[..*length])
    });
    bytes.truncate(bytes.len() - guard.unwrap_or_default());
    (store.join(path), bytes)
}

#[test]
fn python_reader_names_the_unsupported_feature() {
    if !has_python() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    refused(folder.path(), workload::STACK, MISSING, "no state store");
    block_on(async {
        let stacks = create(folder.path())?;
        let name: StackName = workload::STACK.parse()?;
        stacks.new_stack_with(&name, SealingPolicy::Sensitive).await
    })
    .expect("a stack");
    refused(folder.path(), workload::STACK, UNSUPPORTED, "sealed");
    refused(folder.path(), "tests/other", MISSING, "doesn't exist");
    let format = std::fs::read_to_string(folder.path().join("format")).expect("a file");
    let later = format.replace("\"format\":2", "\"format\":3");
    put(&folder.path().join("format"), later.as_bytes());
    refused(folder.path(), workload::STACK, UNSUPPORTED, "format 3");
}

/// Returns all files of a folder: paths relative to the folder, and contents.
fn files(root: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let bytes = std::fs::read(&path).expect("a file");
            found.push((
                path.strip_prefix(root)
                    .expect("the file is in the folder")
                    .to_owned(),
                bytes,
            ));
        }
    }
    found.sort();
    found
}

/// Writes a file, and creates its folder if necessary.
fn put(path: &Path, bytes: &[u8]) {
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("the folder is created");
    std::fs::write(path, bytes).expect("the file is written");
}

/// Returns the kind of a file; `None` for files whose damage is not tested here.
fn kind(path: &Path) -> Option<&'static str> {
    let text = path.to_str().expect("UTF-8");
    let kinds = [
        ("format", "format"),
        ("names/", "names"),
        ("/meta.json", "meta"),
        ("/head.json", "head"),
        ("/journal/", "journal"),
        ("/snapshots/", "snapshots"),
    ];
    let found = kinds.into_iter().find(|(part, _)| text.contains(part));
    found.map(|(_, kind)| kind)
}

/// Returns the offsets at which a file of this length is damaged: the first and the last byte, and some bytes between
/// them.
fn places(length: usize) -> BTreeSet<usize> {
    let step = (length - 1).div_ceil(PLACES - 1).max(1);
    (0..length).step_by(step).chain([length - 1]).collect()
}
