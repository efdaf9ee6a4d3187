//! Tests of crashes during file operations, and of the next operation after a crash.

use super::desired::DesiredFile;
use super::{create, delete, update};
use crate::builtin::blocking::Cancellation;
use crate::builtin::place::Place;
use crate::builtin::registry;
use crate::builtin::staged::copy;
use crate::builtin::tests::{context, environment, json};
use crate::provider::{Failure, ReadRequest, ReadResult};
use state_core::MutationId;
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::Path;
use tempfile::TempDir;

const INPUTS: &str = r#"{"content":"ours","mode":"0600","path":"a.txt"}"#;

fn desired(folder: &TempDir) -> DesiredFile {
    DesiredFile::of(folder.path(), &json(INPUTS))
}

fn not_cancelled() -> Cancellation {
    Cancellation::default()
}

fn names(folder: &TempDir) -> Vec<String> {
    let entries = std::fs::read_dir(folder.path()).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

/// Writes the temporary file and stops before the rename.
fn crash_before_rename(folder: &TempDir, mutation: MutationId) {
    crash_before_rename_with(folder, &mutation.to_string());
    assert_eq!(names(folder).len(), 1, "the crash leaves a temporary file");
}

fn crash_before_rename_with(folder: &TempDir, token: &str) {
    let desired = desired(folder);
    let place = Place::open(desired.at.path().unwrap(), &not_cancelled()).unwrap();
    std::mem::forget(desired.stage(&place, token).unwrap());
}

/// Reads the file after a create with an unknown outcome, and returns the result and the logged lines. `others` are the
/// ids of other entries.
async fn ask(
    folder: &TempDir,
    preview: bool,
    others: &[&Path],
) -> (Result<ReadResult, Failure>, Vec<String>) {
    ask_for(folder, INPUTS, preview, others).await
}

async fn ask_for(
    folder: &TempDir,
    inputs: &str,
    preview: bool,
    others: &[&Path],
) -> (Result<ReadResult, Failure>, Vec<String>) {
    let (mut context, messages) = context();
    context.preview = preview;
    let registry = registry(&environment(), folder.path());
    let request = ReadRequest {
        key: state_core::EntryKey::live("a".parse().unwrap()),
        kind: "file".to_owned(),
        id: None,
        inputs: json(inputs),
        outputs: json("{}"),
        others: others
            .iter()
            .map(|path| path.to_str().unwrap().to_owned())
            .collect::<BTreeSet<_>>(),
        mutation: Some(MutationId::from_bits([1; 16])),
        context,
    };
    let found = registry.get("file").unwrap().provider.read(request).await;
    let messages = messages.lock().unwrap().clone();
    (found, messages)
}

#[tokio::test]
async fn create_that_crashed_before_the_rename_is_not_done() {
    let folder = tempfile::tempdir().unwrap();
    crash_before_rename(&folder, MutationId::from_bits([1; 16]));
    let (found, _) = ask(&folder, true, &[]).await;
    assert_eq!(found, Ok(ReadResult::Missing));
    assert_eq!(names(&folder).len(), 1, "a preview changes nothing");
    let (found, _) = ask(&folder, false, &[]).await;
    assert_eq!(found, Ok(ReadResult::Missing));
    assert!(names(&folder).is_empty());
}

#[tokio::test]
async fn create_that_crashed_after_the_rename_is_done() {
    let folder = tempfile::tempdir().unwrap();
    create(&desired(&folder), "1", &not_cancelled()).unwrap();
    let (found, _) = ask(&folder, false, &[]).await;
    let Ok(ReadResult::Object(object)) = found else {
        panic!("{found:?}");
    };
    assert_eq!(object.id, folder.path().join("a.txt").to_str().unwrap());
    assert_eq!(object.inputs, Some(json(INPUTS)));
    // Another entry already has this file.
    let (found, messages) = ask(&folder, false, &[&folder.path().join("a.txt")]).await;
    assert_eq!((found, messages.len()), (Ok(ReadResult::Missing), 1));
}

#[tokio::test]
async fn file_with_other_content_counts_as_not_created() {
    let folder = tempfile::tempdir().unwrap();
    crash_before_rename(&folder, MutationId::from_bits([1; 16]));
    std::fs::write(folder.path().join("a.txt"), "foreign").unwrap();
    let (found, messages) = ask(&folder, false, &[]).await;
    assert_eq!(found, Ok(ReadResult::Missing));
    assert!(
        messages[0].contains("wasn't created by this resource"),
        "{messages:?}"
    );
    assert_eq!(names(&folder), ["a.txt"]);
    std::fs::remove_file(folder.path().join("a.txt")).unwrap();
    std::fs::create_dir(folder.path().join("a.txt")).unwrap();
    assert_eq!(ask(&folder, false, &[]).await.0, Ok(ReadResult::Missing));
}

#[tokio::test]
async fn copy_whose_source_changed_is_indeterminate() {
    let folder = tempfile::tempdir().unwrap();
    let inputs = r#"{"mode":"0600","path":"a.txt","source":"from"}"#;
    std::fs::write(folder.path().join("from"), "old").unwrap();
    create(
        &DesiredFile::of(folder.path(), &json(inputs)),
        "1",
        &not_cancelled(),
    )
    .unwrap();
    let (found, _) = ask_for(&folder, inputs, false, &[]).await;
    assert!(matches!(found, Ok(ReadResult::Object(_))), "{found:?}");
    std::fs::write(folder.path().join("from"), "new").unwrap();
    assert_eq!(
        ask_for(&folder, inputs, false, &[]).await.0,
        Ok(ReadResult::Indeterminate)
    );
}

#[test]
fn next_change_removes_stale_temporary_files() {
    let folder = tempfile::tempdir().unwrap();
    crash_before_rename(&folder, MutationId::from_bits([1; 16]));
    create(&desired(&folder), "2", &not_cancelled()).unwrap();
    assert_eq!(names(&folder), ["a.txt"]);
    let place = Place::open(desired(&folder).at.path().unwrap(), &not_cancelled()).unwrap();
    std::mem::forget(desired(&folder).stage(&place, "3").unwrap());
    assert_eq!(
        std::fs::read(folder.path().join("a.txt")).unwrap(),
        b"ours",
        "the old content is still in place"
    );
    update(&desired(&folder), "4", &not_cancelled()).unwrap();
    assert_eq!(names(&folder), ["a.txt"]);
}

#[test]
fn concurrent_creates_at_one_path_never_mix_content() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..50 {
        let results: Vec<bool> = std::thread::scope(|scope| {
            let tasks: Vec<_> = (0..4)
                .map(|number| {
                    let (folder, token) = (&folder, format!("{round}-{number}"));
                    scope.spawn(move || create(&desired(folder), &token, &not_cancelled()).is_ok())
                })
                .collect();
            tasks.into_iter().map(|task| task.join().unwrap()).collect()
        });
        assert!(results.iter().filter(|done| **done).count() <= 1, "{results:?}");
        let file = folder.path().join("a.txt");
        if let Ok(content) = std::fs::read(&file) {
            assert_eq!(content, b"ours");
            std::fs::remove_file(file).unwrap();
        }
        assert!(names(&folder).is_empty(), "{:?}", names(&folder));
    }
}

#[test]
fn cancelled_file_work_changes_nothing_and_cleans_up() {
    let folder = tempfile::tempdir().unwrap();
    let cancelled = Cancellation::default();
    let place = Place::open(desired(&folder).at.path().unwrap(), &cancelled).unwrap();
    let created = desired(&folder).stage(&place, "1").unwrap();
    let replacing = desired(&folder).stage(&place, "2").unwrap();
    std::fs::write(folder.path().join("a.txt"), "as it was").unwrap();
    cancelled.cancel();
    assert!(replacing.replace().is_err() && created.create().is_err());
    assert_eq!(names(&folder), ["a.txt"], "both temporary files were removed");
    crash_before_rename_with(&folder, "3");
    assert!(create(&desired(&folder), "4", &cancelled).is_err());
    assert!(update(&desired(&folder), "5", &cancelled).is_err());
    assert!(delete(folder.path().join("a.txt").to_str().unwrap(), &cancelled).is_err());
    place.remove_stale_staged();
    assert_eq!(
        names(&folder).len(),
        2,
        "cancelled work removes no stale files, because a later writer may own them"
    );
    assert_eq!(std::fs::read(folder.path().join("a.txt")).unwrap(), b"as it was");
}

/// A writer that sets the cancellation when it receives the last of a number of pieces.
struct CancelAfter {
    pieces: usize,
    cancelled: Cancellation,
}

impl Write for CancelAfter {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        self.pieces = self.pieces.saturating_sub(1);
        if self.pieces == 0 {
            self.cancelled.cancel();
        }
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn endless_copy_ends_on_cancellation() {
    let cancelled = Cancellation::default();
    let mut to = CancelAfter {
        pieces: 3,
        cancelled: cancelled.clone(),
    };
    let error = copy(&mut io::repeat(0), &mut to, &cancelled).unwrap_err();
    assert!(error.to_string().contains("cancelled"), "{error}");
}
