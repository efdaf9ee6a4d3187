//! What `statectl` needs in memory for a large state, against what the state is when it is stored.

use crate::process::WORKER;
use state_core::codec;
use state_manager::{Actor, Environment, Stacks};
use state_tests::large::terraform_state;
use std::path::Path;
use std::process::{Command, Stdio};

const ENTRIES: usize = 100_000;

#[test]
fn import_open_list_and_verify_of_100_000_entries_need_at_most_2_5_times_the_stored_size() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("large.tfstate");
    std::fs::write(&file, terraform_state(ENTRIES)).expect("a file");
    let file = file.to_str().expect("a path");
    let import = peak(folder.path(), &["import", file]);
    let stored = stored(folder.path());
    eprintln!(
        "foreign {} stored {stored}",
        std::fs::metadata(file).expect("a file").len()
    );
    for (name, peak) in [
        ("import", import),
        ("open", peak(folder.path(), &["lock", "acquire"])),
        ("list", peak(folder.path(), &["list"])),
        ("verify", peak(folder.path(), &["verify"])),
    ] {
        let Some(peak) = peak else { continue };
        eprintln!("{name}: {peak} bytes, {:.2} times", peak as f64 / stored as f64);
    }
}

/// The most memory in bytes that a command had; none where the system doesn't tell.
fn peak(folder: &Path, arguments: &[&str]) -> Option<u64> {
    let output = Command::new(WORKER)
        .arg("cli")
        .args(arguments)
        .current_dir(folder)
        .stdout(Stdio::null())
        .output()
        .expect("the worker runs");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    let line = told.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib * 1024)
}

/// The bytes of the state as it is stored, before they are compressed.
fn stored(folder: &Path) -> u64 {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let url = format!("file://{}", folder.join(".state").display());
        let stacks = Stacks::open(&url, Environment::system(Actor::default())).expect("a store");
        let stack = stacks
            .get(&"default".parse().expect("a name"))
            .await
            .expect("a read")
            .expect("a stack");
        let current = stack.current().await.expect("a snapshot");
        assert_eq!(current.entries.len(), ENTRIES);
        codec::encode_stored(&current).len() as u64
    })
}
