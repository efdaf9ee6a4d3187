//! The simulated disk loses any combination of unsynced changes, and nothing else.

use super::super::SimulatedFs;
use super::CrashPoint;
use crate::files::{Access, FileSystem, Folder};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

fn root(machine: &SimulatedFs) -> Arc<dyn Folder> {
    machine.open_folder(Path::new("/")).unwrap()
}

fn write(folder: &dyn Folder, name: &str, bytes: &[u8]) {
    let file = folder.open(name, Access::Create).unwrap();
    file.write_all_at(bytes, 0).unwrap();
}

fn read(folder: &dyn Folder, name: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    folder
        .open(name, Access::Read)
        .ok()?
        .read(u64::MAX, &mut bytes)
        .unwrap();
    Some(bytes)
}

fn present(machine: &SimulatedFs) -> CrashPoint {
    machine.record();
    machine.crash_points().pop().unwrap()
}

/// Returns the possible contents of a file after a crash.
fn outcomes(machine: &SimulatedFs, sector: usize, name: &str) -> BTreeSet<Option<Vec<u8>>> {
    let images = present(machine).images(sector, 0);
    images
        .map(|image| read(root(&image.mount()).as_ref(), name))
        .collect()
}

#[test]
fn unsynced_file_survives_in_any_part() {
    let machine = SimulatedFs::new();
    let bytes = [vec![1; 512], vec![2; 512], vec![3; 100]].concat();
    write(root(&machine).as_ref(), "file", &bytes);
    root(&machine).sync().unwrap();
    let outcomes = outcomes(&machine, 512, "file");
    // Each of three sectors is kept or lost. If the length is kept, there are 8 contents. If it is lost, the file ends
    // with the last kept sector: the third (4 contents, counted already), the second (2 contents), the first (1), or
    // none (1).
    assert_eq!(outcomes.len(), 8 + 2 + 1 + 1);
    assert!(outcomes.contains(&Some(bytes)));
    assert!(outcomes.contains(&Some(Vec::new())));
    assert!(outcomes.contains(&Some([vec![0; 512], vec![2; 512]].concat())));
    assert!(outcomes.contains(&Some([vec![1; 512], vec![0; 512], vec![3; 100]].concat())));
    assert!(!outcomes.contains(&None));
}

#[test]
fn synced_bytes_survive_and_sectors_are_lost_whole() {
    let machine = SimulatedFs::new();
    write(root(&machine).as_ref(), "file", &[1; 600]);
    machine.sync_all();
    write(root(&machine).as_ref(), "file", &[2; 600]);
    let small: BTreeSet<_> = outcomes(&machine, 512, "file");
    let expected = [(1, 1), (1, 2), (2, 1), (2, 2)];
    let expected = expected.map(|(a, b)| Some([vec![a; 512], vec![b; 88]].concat()));
    assert_eq!(small, BTreeSet::from(expected));
    let large = outcomes(&machine, 4096, "file");
    assert_eq!(large, BTreeSet::from([Some(vec![1; 600]), Some(vec![2; 600])]));
}

#[test]
fn rename_leaves_the_old_or_the_new_file() {
    let machine = SimulatedFs::new();
    let folder = root(&machine);
    write(folder.as_ref(), "file", b"old");
    machine.sync_all();
    write(folder.as_ref(), "new", b"new");
    folder
        .open("new", Access::Write)
        .unwrap()
        .sync(crate::files::SyncScope::All)
        .unwrap();
    folder.rename("new", "file").unwrap();
    let renamed = outcomes(&machine, 512, "file");
    assert_eq!(
        renamed,
        BTreeSet::from([Some(b"old".to_vec()), Some(b"new".to_vec())])
    );
    folder.sync().unwrap();
    assert_eq!(
        outcomes(&machine, 512, "file"),
        BTreeSet::from([Some(b"new".to_vec())])
    );
}

#[test]
fn truncate_and_unlink_may_be_lost_if_syncs_are_ignored() {
    let machine = SimulatedFs::new();
    let folder = root(&machine);
    write(folder.as_ref(), "cut", b"content");
    write(folder.as_ref(), "gone", b"content");
    machine.sync_all();
    folder.open("cut", Access::Write).unwrap().set_length(2).unwrap();
    folder.unlink("gone").unwrap();
    machine.ignore_syncs();
    folder.sync().unwrap();
    assert_eq!(
        outcomes(&machine, 512, "cut"),
        BTreeSet::from([Some(b"co".to_vec()), Some(b"content".to_vec())])
    );
    assert_eq!(
        outcomes(&machine, 512, "gone"),
        BTreeSet::from([None, Some(b"content".to_vec())])
    );
}

#[test]
fn more_than_eight_changes_are_sampled_by_seed() {
    let machine = SimulatedFs::new();
    write(root(&machine).as_ref(), "file", &[1; 512 * 12]);
    let point = present(&machine);
    let digests = |seed| -> Vec<u64> { point.images(512, seed).map(|image| image.digest()).collect() };
    assert_eq!(digests(1).len(), 64);
    assert_eq!(digests(1), digests(1));
    assert_ne!(digests(1), digests(2));
    let whole = machine.copy();
    whole.sync_all();
    let images: Vec<_> = point.images(512, 1).collect();
    assert!(
        images
            .iter()
            .any(|image| image.digest() == present(&whole).images(512, 0).next().unwrap().digest())
    );
}
