//! Tests of the order of the real system calls: a file has its name only after its content is durable.

use super::{ProviderHarness, goal};
use state_core::testkit::run::skip;
use state_engine::builtin::registry_with_locks;
use state_engine::{DeclaredResource, ListSource, Operation};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Environment variable with the working directory of the child process.
const FOLDER: &str = "STATE_ENGINE_TRACED_IN";

/// The calls that change files, make them durable, or name them.
const TRACED: &str = "trace=write,pwrite64,writev,fsync,fdatasync,rename,renameat,renameat2,link,linkat";

/// Creates and updates a file. Runs only in a child process.
#[tokio::test]
#[ignore = "run by `content_of_a_file_is_durable_before_its_name`, under `strace`"]
async fn creates_and_updates_a_traced_file() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let harness = ProviderHarness::new().await;
    for content in ["first", "second"] {
        let inputs = format!(r#"{{"content":"{content}","path":"page"}}"#);
        let declared = vec![DeclaredResource::known(goal("page", "file", &inputs))];
        let locks = harness.locks.path();
        let mut run = harness.default_run();
        run.registry = registry_with_locks(&harness.environment, Path::new(&folder), locks);
        let update = Operation::Update(Box::new(ListSource::new(declared).unwrap()));
        let report = harness.run(update, run).await;
        assert!(report.succeeded(), "{report:?}");
    }
}

/// The path of the file descriptor at the start of the arguments, which `strace -y` shows as `3</path>`.
fn descriptor(arguments: &str) -> Option<&str> {
    let (_, rest) = arguments.split_once('<')?;
    Some(rest.split_once('>')?.0)
}

#[test]
fn content_of_a_file_is_durable_before_its_name() {
    if Command::new("strace").arg("-V").output().is_err() {
        skip("strace", "a file gets its name only after its content is durable");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("calls");
    let work = folder.path().join("work");
    std::fs::create_dir(&work).unwrap();
    let output = Command::new("strace")
        .args(["-f", "-qq", "-y", "-e", TRACED, "-o"])
        .arg(&log)
        .arg(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "builtin::durable::creates_and_updates_a_traced_file",
            "--ignored",
        ])
        .env(FOLDER, &work)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
    let work = work.canonicalize().unwrap();
    let log = std::fs::read(&log).unwrap();
    let log = String::from_utf8_lossy(&log);
    let calls = log.lines().filter(|line| line.contains(work.to_str().unwrap()));
    let (mut unsynced, mut unsynced_folder, mut named) = (BTreeSet::new(), false, 0);
    for call in calls {
        let (name, arguments) = call
            .split_once(' ')
            .unwrap()
            .1
            .trim_start()
            .split_once('(')
            .unwrap();
        let path = descriptor(arguments).unwrap_or_default();
        match name {
            "fsync" | "fdatasync" => {
                unsynced.remove(path);
                unsynced_folder &= path != work.to_str().unwrap();
            }
            "rename" | "renameat" | "renameat2" | "link" | "linkat" => {
                assert_eq!(unsynced, BTreeSet::new(), "named before its sync: {call}\n{log}");
                unsynced_folder = true;
                named += 1;
            }
            _ => {
                unsynced.insert(path);
            }
        }
    }
    assert_eq!(named, 2, "{log}");
    assert!(!unsynced_folder, "the name isn't durable: {log}");
}
