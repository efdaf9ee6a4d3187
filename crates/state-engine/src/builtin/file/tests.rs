//! What a process that dies leaves, and what the next one makes of it.

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

fn waited_for() -> Cancellation {
    Cancellation::default()
}

fn names(folder: &TempDir) -> Vec<String> {
    let entries = std::fs::read_dir(folder.path()).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

/// Writes the file and dies before it gets its name.
fn die_on_the_way(folder: &TempDir, mutation: MutationId) {
    die_on_the_way_with(folder, &mutation.to_string());
    assert_eq!(names(folder).len(), 1, "it leaves something");
}

fn die_on_the_way_with(folder: &TempDir, token: &str) {
    let desired = desired(folder);
    let place = Place::open(desired.at.path().unwrap(), &waited_for()).unwrap();
    std::mem::forget(desired.stage(&place, token).unwrap());
}

/// Asks whether a create made its file.
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
    let (mut context, said) = context();
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
    let said = said.lock().unwrap().clone();
    (found, said)
}

#[tokio::test]
async fn a_create_that_died_before_the_rename_was_not_done_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    die_on_the_way(&folder, MutationId::from_bits([1; 16]));
    let (found, _) = ask(&folder, true, &[]).await;
    assert_eq!(found, Ok(ReadResult::Missing));
    assert_eq!(names(&folder).len(), 1, "a preview changes nothing");
    let (found, _) = ask(&folder, false, &[]).await;
    assert_eq!(found, Ok(ReadResult::Missing));
    assert!(names(&folder).is_empty());
}

#[tokio::test]
async fn a_create_that_died_after_the_rename_was_done() {
    let folder = tempfile::tempdir().unwrap();
    create(&desired(&folder), "1", &waited_for()).unwrap();
    let (found, _) = ask(&folder, false, &[]).await;
    let Ok(ReadResult::Object(object)) = found else {
        panic!("{found:?}");
    };
    assert_eq!(object.id, folder.path().join("a.txt").to_str().unwrap());
    assert_eq!(object.inputs, Some(json(INPUTS)));
    // Another entry has it already.
    let (found, said) = ask(&folder, false, &[&folder.path().join("a.txt")]).await;
    assert_eq!((found, said.len()), (Ok(ReadResult::Missing), 1));
}

#[tokio::test]
async fn what_has_other_content_is_a_strangers() {
    let folder = tempfile::tempdir().unwrap();
    die_on_the_way(&folder, MutationId::from_bits([1; 16]));
    std::fs::write(folder.path().join("a.txt"), "somebody's").unwrap();
    let (found, said) = ask(&folder, false, &[]).await;
    assert_eq!(found, Ok(ReadResult::Missing));
    assert!(said[0].contains("somebody else's"), "{said:?}");
    assert_eq!(names(&folder), ["a.txt"]);
    std::fs::remove_file(folder.path().join("a.txt")).unwrap();
    std::fs::create_dir(folder.path().join("a.txt")).unwrap();
    assert_eq!(ask(&folder, false, &[]).await.0, Ok(ReadResult::Missing));
}

#[tokio::test]
async fn of_a_copy_whose_source_changed_nobody_can_tell() {
    let folder = tempfile::tempdir().unwrap();
    let inputs = r#"{"mode":"0600","path":"a.txt","source":"from"}"#;
    std::fs::write(folder.path().join("from"), "old").unwrap();
    create(&DesiredFile::of(folder.path(), &json(inputs)), "1", &waited_for()).unwrap();
    let (found, _) = ask_for(&folder, inputs, false, &[]).await;
    assert!(matches!(found, Ok(ReadResult::Object(_))), "{found:?}");
    std::fs::write(folder.path().join("from"), "new").unwrap();
    assert_eq!(
        ask_for(&folder, inputs, false, &[]).await.0,
        Ok(ReadResult::Indeterminate)
    );
}

#[test]
fn the_next_change_clears_what_a_dead_one_left() {
    let folder = tempfile::tempdir().unwrap();
    die_on_the_way(&folder, MutationId::from_bits([1; 16]));
    create(&desired(&folder), "2", &waited_for()).unwrap();
    assert_eq!(names(&folder), ["a.txt"]);
    let place = Place::open(desired(&folder).at.path().unwrap(), &waited_for()).unwrap();
    std::mem::forget(desired(&folder).stage(&place, "3").unwrap());
    assert_eq!(
        std::fs::read(folder.path().join("a.txt")).unwrap(),
        b"ours",
        "the old content stands"
    );
    update(&desired(&folder), "4", &waited_for()).unwrap();
    assert_eq!(names(&folder), ["a.txt"]);
}

#[test]
fn of_two_creates_at_one_path_one_is_refused_and_nothing_is_mixed() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..50 {
        let results: Vec<bool> = std::thread::scope(|scope| {
            let tasks: Vec<_> = (0..4)
                .map(|number| {
                    let (folder, token) = (&folder, format!("{round}-{number}"));
                    scope.spawn(move || create(&desired(folder), &token, &waited_for()).is_ok())
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
fn work_that_was_left_changes_nothing_and_takes_back_what_was_on_its_way() {
    let folder = tempfile::tempdir().unwrap();
    let left = Cancellation::default();
    let place = Place::open(desired(&folder).at.path().unwrap(), &left).unwrap();
    let created = desired(&folder).stage(&place, "1").unwrap();
    let replacing = desired(&folder).stage(&place, "2").unwrap();
    std::fs::write(folder.path().join("a.txt"), "as it was").unwrap();
    left.cancel();
    assert!(replacing.replace().is_err() && created.create().is_err());
    assert_eq!(names(&folder), ["a.txt"], "both staged files went");
    die_on_the_way_with(&folder, "3");
    assert!(create(&desired(&folder), "4", &left).is_err());
    assert!(update(&desired(&folder), "5", &left).is_err());
    assert!(delete(folder.path().join("a.txt").to_str().unwrap(), &left).is_err());
    place.remove_stale_staged();
    assert_eq!(names(&folder).len(), 2, "what is swept may be its successor's");
    assert_eq!(std::fs::read(folder.path().join("a.txt")).unwrap(), b"as it was");
}

/// Cancels once so many pieces were taken.
struct LeavesAfter {
    pieces: usize,
    left: Cancellation,
}

impl Write for LeavesAfter {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        self.pieces = self.pieces.saturating_sub(1);
        if self.pieces == 0 {
            self.left.cancel();
        }
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_copy_that_never_ends_ends_when_nobody_waits_for_it() {
    let left = Cancellation::default();
    let mut to = LeavesAfter {
        pieces: 3,
        left: left.clone(),
    };
    let error = copy(&mut io::repeat(0), &mut to, &left).unwrap_err();
    assert!(error.to_string().contains("nobody waits"), "{error}");
}
