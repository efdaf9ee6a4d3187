//! Deletions on a full disk: they use the space that the store keeps in reserve.

use crate::disks::{Disk, FileSystem};
use crate::sandbox::{CommandOutput, Sandbox, fixture, run};
use serde_json::Value;

const NETWORK: &str = r#"module.service["web"].terraform_data.network"#;

/// Runs `statectl` with the store on the disk, and everything else elsewhere.
fn on(disk: &Disk, sandbox: &Sandbox, arguments: &[&str]) -> CommandOutput {
    let store = format!("file://{}", disk.path().join("store").display());
    run(sandbox.command(arguments).env("STATECTL_BACKEND", store))
}

/// A disk with a store whose stack has six revisions, and without a free byte.
fn full_disk(sandbox: &Sandbox) -> Option<Disk> {
    let disk = Disk::new(FileSystem::Ext4, 12, "deletions on a full disk")?;
    let go = |arguments: &[&str]| on(&disk, sandbox, arguments).exits(0);
    go(&["import", fixture("shop.tfstate").to_str().unwrap()]);
    for edit in ["taint", "untaint", "protect", "unprotect", "taint"] {
        go(&[edit, NETWORK, "--yes"]);
    }
    disk.fill();
    let refused = on(&disk, sandbox, &["untaint", NETWORK, "--yes"]);
    assert_ne!(refused.code, 0, "the disk isn't full: {refused:?}");
    Some(disk)
}

#[test]
fn gc_frees_space_on_a_full_disk() {
    let sandbox = Sandbox::new();
    let Some(disk) = full_disk(&sandbox) else { return };
    let gc = [
        "gc",
        "--keep-days",
        "0",
        "--keep-revisions",
        "1",
        "--grace",
        "0s",
        "--yes",
    ];
    let done = on(&disk, &sandbox, &gc).exits(0);
    assert!(done.stdout.contains("dropped: 5 revisions"), "{done:?}");
    on(&disk, &sandbox, &["verify", "--deep"]).exits(0);
    on(&disk, &sandbox, &["untaint", NETWORK, "--yes"]).exits(0);
}

#[test]
fn resources_and_stacks_are_removed_on_a_full_disk() {
    let sandbox = Sandbox::new();
    let Some(disk) = full_disk(&sandbox) else { return };
    let removed = on(&disk, &sandbox, &["rm", NETWORK, "--cascade", "--yes"]).exits(0);
    assert!(
        removed.stderr.contains("the disk of the store is full"),
        "{removed:?}"
    );
    on(&disk, &sandbox, &["verify", "--deep"]).exits(0);
    // What was left of the reserve is enough for the next deletions.
    disk.fill();
    let refused = on(&disk, &sandbox, &["taint", "terraform_data.database", "--yes"]);
    assert_ne!(refused.code, 0, "the disk isn't full: {refused:?}");
    let gc = [
        "gc",
        "--keep-days",
        "0",
        "--keep-revisions",
        "1",
        "--grace",
        "0s",
        "--yes",
    ];
    on(&disk, &sandbox, &gc).exits(0);
    on(&disk, &sandbox, &["verify", "--deep"]).exits(0);
    disk.fill();
    on(&disk, &sandbox, &["stack", "rm", "default", "--force"]).exits(0);
    let listed = on(&disk, &sandbox, &["stack", "ls", "--json"]).exits(0);
    let listed: Vec<Value> = listed
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(!format!("{listed:?}").contains("default/default"), "{listed:?}");
}

#[test]
fn reserve_is_made_again_after_each_deletion() {
    let sandbox = Sandbox::with_shop();
    let reserve = sandbox.path().join(".state/reserve");
    assert_eq!(reserve.metadata().unwrap().len(), 1 << 20);
    // A store of an earlier version has none.
    std::fs::remove_file(&reserve).unwrap();
    let done = sandbox.run(&["rm", NETWORK, "--cascade", "--yes"]).exits(0);
    assert!(!done.stderr.contains("full"), "{done:?}");
    assert_eq!(reserve.metadata().unwrap().len(), 1 << 20);
    sandbox.run(&["verify", "--deep"]).exits(0);
}
