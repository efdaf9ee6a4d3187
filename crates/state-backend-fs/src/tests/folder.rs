//! The tree of files: permissions, unknown files, symbolic links, name pointers and objects.

use super::fixture::{TestStore, append, head, nonce};
use crate::FsBackend;
use bytes::Bytes;
use state_core::backend::{NamePointer, NameTarget, ObjectKind, ObjectName};
use state_core::{Backend, Enveloped, Error, ErrorKind, Lineage, Slot, StackName};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::Duration;

/// How long a writer waits for a lock in a test that lets it wait, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(60);

fn snapshot(slot: u64) -> ObjectName {
    ObjectName::Snapshot {
        slot: Slot(slot),
        short: "0123456789abcdef".to_owned(),
    }
}

fn pointer(name: &str, number: u8) -> NamePointer {
    NamePointer::new(
        name.parse().unwrap(),
        NameTarget::Lineage(head().lineage),
        nonce(number),
    )
}

fn check_modes(path: &Path) -> usize {
    let metadata = fs::symlink_metadata(path).unwrap();
    let expected = if metadata.is_dir() { 0o700 } else { 0o600 };
    assert_eq!(
        metadata.permissions().mode() & 0o7777,
        expected,
        "{}",
        path.display()
    );
    if !metadata.is_dir() {
        return 1;
    }
    fs::read_dir(path)
        .unwrap()
        .map(|entry| check_modes(&entry.unwrap().path()))
        .sum()
}

#[tokio::test]
async fn files_are_private_and_no_temporary_file_stays() {
    let place = TestStore::new().await;
    let name: StackName = "shop/web".parse().unwrap();
    place
        .store
        .swap_name(&name, None, &pointer("shop/web", 1))
        .await
        .unwrap();
    let owner = place.acquire("me").await;
    append(&owner, owner.tail, "{}\n").await;
    owner
        .writer
        .create(&snapshot(1), Bytes::from_static(b"x"))
        .await
        .unwrap();
    // format, reserve, names.lock, the name, meta, head, head.lock, lock.0, one segment, one snapshot
    assert_eq!(check_modes(&place.root()), 10);
}

#[test]
fn umask_removes_no_permission_of_the_owner() {
    let folder = tempfile::tempdir().unwrap();
    let status = std::process::Command::new("sh")
        .arg("-c")
        .arg("umask 0222 && exec \"$0\" --exact --ignored tests::folder::create_store_under_the_umask_of_the_caller")
        .arg(std::env::current_exe().unwrap())
        .env(UNDER_UMASK, folder.path().join("store"))
        .stdout(std::process::Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
    // format, reserve, meta, head
    assert_eq!(check_modes(&folder.path().join("store")), 4);
}

const UNDER_UMASK: &str = "STATE_BACKEND_FS_UNDER_UMASK";

#[test]
#[ignore = "runs in a process of its own, under another umask"]
fn create_store_under_the_umask_of_the_caller() {
    // Without the environment variable of the other test there is no store to create.
    let Some(root) = std::env::var_os(UNDER_UMASK) else {
        return;
    };
    let store = FsBackend::create(root).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(store.create_stack(&head())).unwrap();
}

#[tokio::test]
async fn store_exists_only_where_it_was_created() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("a/b/c");
    assert!(!FsBackend::exists(&root).unwrap());
    let error = FsBackend::open(&root).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("a/b/c"), "{error}");
    let error = FsBackend::open(folder.path()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    FsBackend::create(&root).unwrap();
    FsBackend::create(&root).unwrap();
    assert!(FsBackend::exists(&root).unwrap());
    FsBackend::open(&root).unwrap();
}

#[test]
fn other_layout_is_refused_with_its_version() {
    let folder = tempfile::tempdir().unwrap();
    FsBackend::create(folder.path()).unwrap();
    let layout = crate::layout::Layout {
        layout: 2,
        group: false,
    };
    fs::write(folder.path().join("format"), layout.encode()).unwrap();
    for result in [FsBackend::open(folder.path()), FsBackend::create(folder.path())] {
        assert!(matches!(
            result,
            Err(Error::Format {
                found: 2,
                supported: 1,
                ..
            })
        ));
    }
}

#[tokio::test]
async fn only_the_root_may_be_a_symbolic_link() {
    let place = TestStore::new().await;
    let link = place.folder.path().join("link");
    symlink(place.root(), &link).unwrap();
    let store = FsBackend::open(&link).unwrap();
    store.read_head(place.lineage).await.unwrap();

    for below in ["head.json", "journal", "lock.0", "head.lock"] {
        let path = place.stack().join(below);
        let moved = place.folder.path().join("moved");
        let existed = fs::rename(&path, &moved).is_ok();
        if !existed {
            fs::write(&moved, "").unwrap();
        }
        symlink(&moved, &path).unwrap();
        let error = store
            .acquire(place.lineage, &super::fixture::request("me", None))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{below}: {error}");
        assert!(error.object().ends_with(below), "{error}");
        assert!(error.to_string().contains("symbolic link"), "{error}");
        fs::remove_file(&path).unwrap();
        if existed {
            fs::rename(&moved, &path).unwrap();
        } else {
            fs::remove_file(&moved).unwrap();
        }
    }
    let stacks = place.root().join("stacks");
    fs::rename(&stacks, place.folder.path().join("elsewhere")).unwrap();
    symlink(place.folder.path().join("elsewhere"), &stacks).unwrap();
    let error = store.read_head(place.lineage).await.unwrap_err();
    assert!(error.to_string().contains("symbolic link"), "{error}");
}

#[tokio::test]
async fn pipe_in_place_of_a_file_is_an_error() {
    let place = TestStore::new().await;
    let path = place.stack().join("head.json");
    fs::remove_file(&path).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &path,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    let error = place.store.read_head(place.lineage).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
}

#[tokio::test]
async fn name_swap_requires_the_nonce_and_ignores_case() {
    let place = TestStore::new().await;
    let name: StackName = "Shop/Web".parse().unwrap();
    assert_eq!(place.store.read_name(&name).await.unwrap(), None);
    let first = pointer("Shop/Web", 1);
    place.store.swap_name(&name, None, &first).await.unwrap();
    // The result of the first attempt may have been lost, so the same swap succeeds again.
    place.store.swap_name(&name, None, &first).await.unwrap();
    let folded: StackName = "shop/web".parse().unwrap();
    assert_eq!(place.store.read_name(&folded).await.unwrap(), Some(first.clone()));
    for expected in [None, Some(nonce(9))] {
        let error = place
            .store
            .swap_name(&folded, expected, &pointer("shop/web", 2))
            .await;
        assert_eq!(error.unwrap_err().kind(), ErrorKind::Conflict);
    }
    let second = pointer("shop/web", 2);
    place
        .store
        .swap_name(&folded, Some(nonce(1)), &second)
        .await
        .unwrap();
    place
        .store
        .swap_name(&"a".parse().unwrap(), None, &pointer("a", 3))
        .await
        .unwrap();
    fs::write(place.root().join("names/shop/.tmp-1-1"), "").unwrap();
    fs::write(place.root().join("names/shop/README.json"), "").unwrap();
    fs::write(place.root().join("names/notes"), "").unwrap();
    assert_eq!(place.other().names().await.unwrap(), [pointer("a", 3), second]);
}

#[tokio::test]
async fn object_is_created_once() {
    let place = TestStore::new().await;
    let owner = place.acquire("me").await;
    let (first, other) = (Bytes::from_static(b"first"), Bytes::from_static(b"other"));
    owner.writer.create(&snapshot(3), first.clone()).await.unwrap();
    owner.writer.create(&snapshot(3), first.clone()).await.unwrap();
    let error = owner
        .writer
        .create(&snapshot(3), other.clone())
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    // A conflict doesn't close the writer.
    owner.writer.create(&snapshot(1), other).await.unwrap();
    assert_eq!(
        place.store.read(place.lineage, &snapshot(3)).await.unwrap(),
        first
    );
    let listed = place
        .store
        .list(place.lineage, ObjectKind::Snapshot)
        .await
        .unwrap();
    assert_eq!(listed, [snapshot(1), snapshot(3)]);
    let error = place.store.read(place.lineage, &snapshot(4)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn headless_stack_is_corrupt_and_unknown_stack_not_found() {
    let place = TestStore::new().await;
    let error = place
        .store
        .read_head(Lineage::from_bits([9; 16]))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    place.store.create_stack(&head()).await.unwrap();
    fs::remove_file(place.stack().join("head.json")).unwrap();
    let error = place.store.read_head(place.lineage).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.object().ends_with("head.json"));
}

#[tokio::test]
async fn append_is_one_write_and_one_sync_at_any_length() {
    let place = TestStore::new().await;
    let owner = place.acquire("me").await;
    let mut tail = owner.tail;
    let mut costs = Vec::new();
    for _ in 0..50 {
        let before = place.store.io_counts();
        tail = append(&owner, tail, "{\"a\":1}\n").await;
        let after = place.store.io_counts();
        costs.push((
            after.writes - before.writes,
            after.bytes - before.bytes,
            after.fsyncs - before.fsyncs,
        ));
    }
    assert!(costs.iter().all(|cost| *cost == (1, 8 + 96, 1)), "{costs:?}");
}

#[test]
fn private_store_does_not_become_group_writable() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("store");
    crate::FsBackend::create(&root).unwrap();
    let refused = crate::FsBackend::create_for_group(&root).unwrap_err();
    assert!(matches!(refused, Error::Conflict { .. }), "{refused}");
    assert!(refused.to_string().contains("statectl copy"), "{refused}");
    check_modes(&root);
    let shared = folder.path().join("shared");
    crate::FsBackend::create_for_group(&shared).unwrap();
    // The store itself says who may use it.
    crate::FsBackend::create_for_group(&shared).unwrap();
    crate::FsBackend::create(&shared).unwrap();
}

/// A salvage and a restore move the folder of a stack away while they hold `head.lock`. What a writer that waited for the lock
/// then wrote would be lost.
#[tokio::test(flavor = "multi_thread")]
async fn writer_that_waits_during_an_exchange_is_refused() {
    let place = TestStore::new().await;
    drop(place.acquire("earlier").await);
    let (stack, moved) = (place.stack(), place.folder.path().join("moved"));
    let lock = fs::File::open(stack.join("head.lock")).unwrap();
    lock.lock().unwrap();
    let (store, lineage) = (place.other().with_lock_timeout(PATIENCE), place.lineage);
    let waiting = tokio::spawn(async move {
        let request = super::fixture::request("me", None);
        store.acquire(lineage, &request).await.map(drop)
    });
    // The writer lock is taken before `head.lock`, and then names its holder. To try this lock would disturb the writer.
    while fs::metadata(stack.join("lock.0")).unwrap().len() == 0 {
        assert!(!waiting.is_finished());
        tokio::task::yield_now().await;
    }
    let head = fs::read(stack.join("head.json")).unwrap();
    fs::rename(&stack, &moved).unwrap();
    let copied = std::process::Command::new("cp")
        .arg("-a")
        .args([&moved, &stack])
        .status();
    assert!(copied.unwrap().success());
    lock.unlock().unwrap();
    let error = waiting.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert!(error.to_string().contains("was moved"), "{error}");
    assert_eq!(fs::read(moved.join("head.json")).unwrap(), head);
    place.acquire("me").await;
}
