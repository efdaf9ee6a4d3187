//! `gc` of what crashed processes and changed recipients left: temporary files, and key files that nothing needs.

use crate::sandbox::{CommandOutput, Sandbox, as_user, sealed_shop};
use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Duration;

const GC: [&str; 3] = ["gc", "--yes", "--json"];

fn stack_folder(sandbox: &Sandbox) -> PathBuf {
    let mut stacks = fs::read_dir(sandbox.path().join(".state/stacks")).unwrap();
    stacks.next().unwrap().unwrap().path()
}

/// Creates a temporary file of this age, as a crashed process leaves it.
fn leave(path: &Path, age: Duration) -> File {
    fs::write(path, "half a document").unwrap();
    let file = File::options().write(true).open(path).unwrap();
    let now = file.metadata().unwrap().modified().unwrap();
    file.set_modified(now - age).unwrap();
    file
}

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn temporary(ran: CommandOutput) -> u64 {
    ran.exits(0).data("gc")["temporary"]["files"].as_u64().unwrap()
}

#[test]
fn temporary_files_of_killed_processes_are_collected() {
    let sandbox = Sandbox::with_shop();
    let (store, stack) = (sandbox.path().join(".state"), stack_folder(&sandbox));
    let old = [
        store.join(".tmp-4711-0"),
        store.join("names/default/.tmp-4711-1"),
        stack.join(".tmp-4711-2"),
        stack.join("journal/.tmp-4711-3"),
        stack.join("snapshots/.tmp-4711-4"),
    ];
    for path in &old {
        drop(leave(path, 2 * DAY));
    }
    let planned = sandbox.run(&["gc", "--dry-run", "--json"]);
    assert_eq!(temporary(planned), 5);
    assert!(old.iter().all(|path| path.exists()), "a dry run deletes nothing");
    assert_eq!(temporary(sandbox.run(&GC)), 5);
    assert!(!old.iter().any(|path| path.exists()));
    assert_eq!(temporary(sandbox.run(&GC)), 0);
    sandbox.run(&["verify", "--deep"]).exits(0);
}

#[test]
fn temporary_files_that_may_be_in_use_are_kept() {
    let sandbox = Sandbox::with_shop();
    let stack = stack_folder(&sandbox);
    // A writer that has been suspended since yesterday holds the lock of its file.
    let suspended = stack.join("snapshots/.tmp-4711-0");
    let file = leave(&suspended, 2 * DAY);
    file.try_lock().unwrap();
    // The clock of the writer is ahead.
    let future = stack.join(".tmp-4711-1");
    drop(leave(&future, Duration::ZERO));
    let ahead = File::options().write(true).open(&future).unwrap();
    let modified = future.metadata().unwrap().modified().unwrap();
    ahead.set_modified(modified + 2 * DAY).unwrap();
    let recent = stack.join(".tmp-4711-2");
    drop(leave(&recent, Duration::from_secs(50 * 60)));
    let older = stack.join(".tmp-4711-3");
    drop(leave(&older, Duration::from_secs(70 * 60)));
    // Folders belong to a salvage or a check of the store.
    let folder = sandbox.path().join(".state/.tmp-salvage-1");
    fs::create_dir(&folder).unwrap();
    assert_eq!(temporary(sandbox.run(&GC)), 0, "the grace period is a day");
    let at_once = ["gc", "--grace", "0s", "--yes", "--json"];
    assert_eq!(temporary(sandbox.run(&at_once)), 1);
    for kept in [&suspended, &future, &recent, &folder] {
        assert!(kept.exists(), "{}", kept.display());
    }
    assert!(!older.exists());
    drop(file);
    assert_eq!(temporary(sandbox.run(&at_once)), 1);
    assert!(!suspended.exists());
}

/// Every temporary file of a running process is locked: else `gc` could take it for a leftover.
#[test]
fn running_process_locks_its_temporary_files() {
    let sandbox = Sandbox::with_shop();
    let store = sandbox.path().join(".state");
    let mut locked = 0;
    for _ in 0..2_000 {
        if locked > 10 {
            break;
        }
        let mut child = sandbox
            .command(&["taint", "terraform_data.database", "--yes"])
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let mut taken = BTreeMap::new();
        while child.try_wait().unwrap().is_none() {
            for path in temporary_files(&store) {
                let Ok(file) = File::open(&path) else { continue };
                match file.try_lock() {
                    Err(TryLockError::WouldBlock) => locked += u32::from(!taken.contains_key(&path)),
                    Err(error) => panic!("{}: {error}", path.display()),
                    // The file still has its name, so the process hasn't locked it yet.
                    Ok(()) if path.exists() => drop(taken.insert(path, file)),
                    // The process was done with the file.
                    Ok(()) => {}
                }
            }
        }
        for (path, file) in taken {
            let used = file.metadata().unwrap().len();
            assert_eq!(used, 0, "{} was used without its lock", path.display());
            fs::remove_file(&path).unwrap();
        }
    }
    assert!(locked > 10, "only {locked} temporary files were seen with a lock");
}

fn temporary_files(root: &Path) -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![root.to_path_buf()]);
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(folder) else {
            continue;
        };
        for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if name.starts_with(".tmp-") {
                found.push(path);
            } else if path.is_dir() {
                folders.push(path);
            }
        }
    }
    found
}

#[test]
fn key_files_that_nothing_needs_are_collected_after_a_grace() {
    let sandbox = sealed_shop();
    let anna = |arguments: &[&str]| as_user(&sandbox, "anna", arguments);
    let keys = stack_folder(&sandbox).join("keys");
    let files = || {
        let mut files: Vec<_> = fs::read_dir(&keys)
            .unwrap()
            .map(|file| file.unwrap().path())
            .collect();
        files.sort();
        files
    };
    let before = files();
    let bert = as_user(&sandbox, "bert", &["identity", "--new"]).exits(0);
    let mut words = bert.stdout.split_whitespace();
    let recipient = words.find(|word| word.starts_with("age1")).unwrap().to_owned();
    anna(&["recipients", "add", &recipient]).exits(0);
    let after = files();
    assert!(after.len() > before.len(), "{after:?}");
    // A rotation that was interrupted before its head swap left a key that nothing names.
    let orphan = keys.join("00000000000000000090-0123456789abcdef0123456789abcdef.age");
    fs::write(&orphan, "a wrapped key").unwrap();

    let first = anna(&GC).exits(0).data("gc");
    assert_eq!(first["unneeded-keys"], 2, "{first}");
    assert!(first["waiting"]["files"].as_u64().unwrap() >= 2, "{first}");
    assert_eq!(files().len(), after.len() + 1, "the grace period is a day");
    let last = anna(&["gc", "--grace", "0s", "--yes", "--json"])
        .exits(0)
        .data("gc");
    assert!(last["deleted"]["files"].as_u64().unwrap() >= 2, "{last}");
    assert!(!orphan.exists() && !before[0].exists(), "{:?}", files());
    assert_eq!(files().len(), after.len() - 1);
    anna(&["verify", "--deep"]).exits(0);
    anna(&["export", "--show-secrets"]).exits(0);
    as_user(&sandbox, "bert", &["export", "--show-secrets"]).exits(0);
    // Replaced data keys stay: earlier revisions need them.
    anna(&["rekey", "--yes"]).exits(0);
    let rotated = files().len();
    anna(&["gc", "--grace", "0s", "--yes"]).exits(0);
    assert_eq!(files().len(), rotated);
    anna(&["export", "--at", "1", "--show-secrets"]).exits(0);
}
