//! Tests whether the filesystem keeps the guarantees that the store needs, in a temporary folder of the store.

use crate::dir::Dir;
use crate::error::read_failed;
use crate::files::{Access, Sharing};
use crate::lock::LockFile;
use state_core::backend::{Finding, Holder, StoreCheck};
use state_core::{ErrorKind, Result};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

/// Numbers the temporary folders of this process.
static NEXT: AtomicU64 = AtomicU64::new(0);

const CREATORS: usize = 8;
const ROUNDS: usize = 25;
const REPLACEMENTS: usize = 20;

/// Length of the test document, which spans more than one sector.
const LENGTH: usize = 8 << 10;

/// Runs all checks in a temporary folder below the store's root.
pub(crate) fn examine(root: &Dir) -> Result<StoreCheck> {
    // Stores ignore names that begin with `.tmp-`, so a folder that a crash leaves behind does no harm.
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!(".tmp-examination-{}-{number}", std::process::id());
    let scratch = root.make_child(&name)?;
    let findings = findings(root, &scratch);
    clear(root, &scratch, &name)?;
    Ok(StoreCheck { findings: findings? })
}

fn findings(root: &Dir, scratch: &Dir) -> Result<Vec<Finding>> {
    Ok(vec![
        create_once(scratch)?,
        locks(scratch)?,
        replacements(scratch)?,
        filesystem(root)?,
        rights(root)?,
    ])
}

fn create_once(scratch: &Dir) -> Result<Finding> {
    let mut winners = Vec::new();
    for round in 0..ROUNDS {
        let name = format!("once-{round}");
        let won: Vec<Result<bool>> = thread::scope(|scope| {
            let creators: Vec<_> = (0..CREATORS)
                .map(|_| scope.spawn(|| created(scratch, &name)))
                .collect();
            let join = |creator: thread::ScopedJoinHandle<'_, _>| creator.join().unwrap_or(Ok(false));
            creators.into_iter().map(join).collect()
        });
        let won = won.into_iter().collect::<Result<Vec<bool>>>()?;
        winners.push(won.into_iter().filter(|won| *won).count());
    }
    let bad = winners.iter().filter(|winners| **winners != 1).count();
    Ok(if bad == 0 {
        let found = format!("one winner of {CREATORS} in each of {ROUNDS} rounds");
        Finding::holds("create-if-absent", found)
    } else {
        Finding::broken(
            "create-if-absent",
            format!("not exactly one winner of {CREATORS} in {bad} of {ROUNDS} rounds"),
            "two writers may both create one file, and one of them loses its data",
        )
    })
}

fn created(scratch: &Dir, name: &str) -> Result<bool> {
    match scratch.folder().open(name, Access::CreateNew) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(read_failed(&scratch.object(name), error)),
    }
}

fn locks(scratch: &Dir) -> Result<Finding> {
    const CHECK: &str = "locks";
    let take = || LockFile::take(scratch, "lock", &Holder::default());
    let held = take()?;
    match take() {
        Err(error) if error.kind() == ErrorKind::Locked => {}
        Err(error) => return Err(error),
        Ok(_) => {
            return Ok(Finding::broken(
                CHECK,
                "two holders got the same lock",
                "two writers may hold one stack, and only fencing would stop the first",
            ));
        }
    }
    drop(held);
    Ok(match take() {
        Ok(_) => Finding::holds(CHECK, "one holder at a time, and free after release"),
        Err(_) => Finding::broken(
            CHECK,
            "a released lock stays locked",
            "a stack stays locked for ever",
        ),
    })
}

/// Replaces a document while a second thread reads it.
fn replacements(scratch: &Dir) -> Result<Finding> {
    let name = "document";
    let content = |round: usize| vec![b'a' + u8::try_from(round % 26).unwrap_or_default(); LENGTH];
    scratch.replace(name, &content(0))?;
    let done = AtomicBool::new(false);
    let (written, read) = thread::scope(|scope| {
        let reader = scope.spawn(|| -> Result<Option<usize>> {
            let mut reads = 0_usize;
            while !done.load(Ordering::Relaxed) {
                let bytes = scratch.read(name, LENGTH as u64)?.map(|(bytes, _)| bytes);
                let whole = bytes.is_some_and(|bytes| {
                    bytes.len() == LENGTH && bytes.iter().all(|byte| Some(byte) == bytes.first())
                });
                if !whole {
                    return Ok(None);
                }
                reads += 1;
            }
            Ok(Some(reads))
        });
        let written = (1..=REPLACEMENTS).try_for_each(|round| scratch.replace(name, &content(round)));
        done.store(true, Ordering::Relaxed);
        (written, reader.join().unwrap_or(Ok(None)))
    });
    written?;
    Ok(match read? {
        Some(reads) => Finding::holds(
            "replacements",
            format!("{REPLACEMENTS} synced replacements; {reads} concurrent reads saw complete documents"),
        ),
        None => Finding::broken(
            "replacements",
            "a reader saw an incomplete document, or none",
            "readers may see a head that no process wrote",
        ),
    })
}

/// Reports the type of the filesystem, and the known risks of that type.
fn filesystem(root: &Dir) -> Result<Finding> {
    const CHECK: &str = "filesystem";
    let number = root.folder().type_of_file_system();
    let Some(number) = number.map_err(|e| read_failed(root.path(), e))? else {
        return Ok(Finding::noted(
            CHECK,
            "its type is unknown on this system",
            "make sure that it is a local filesystem",
        ));
    };
    let network = "not tested: the server must implement locks and syncs";
    // The magic numbers of statfs(2).
    let (name, meaning) = match number {
        0x6969 => ("NFS", network),
        0xff53_4d42 | 0x517b | 0xfe53_4d42 => ("SMB", network),
        0x0102_1997 => ("9p", network),
        0x6573_5546 => ("FUSE", "not tested: the FUSE program must implement sync"),
        0x0102_1994 => (
            "tmpfs",
            "it is in memory: no file survives a restart of the machine",
        ),
        0x794c_7630 => (
            "overlayfs",
            "it is deleted with the container, unless the layer is kept",
        ),
        other => {
            return Ok(Finding::holds(
                CHECK,
                format!("local filesystem, type {other:#x}"),
            ));
        }
    };
    Ok(Finding::noted(CHECK, name, meaning))
}

fn rights(root: &Dir) -> Result<Finding> {
    let permissions = root.folder().permissions();
    let mode = permissions.map_err(|e| read_failed(root.path(), e))?;
    let is_shared = root.sharing() == Sharing::Group;
    let foreign = if is_shared { 0o002 } else { 0o022 };
    Ok(if mode & foreign == 0 {
        let writers = match is_shared {
            true => "only its owner and the members of its group can write",
            false => "only its owner can write",
        };
        Finding::holds("rights", format!("{writers} ({mode:03o})"))
    } else {
        Finding::noted(
            "rights",
            format!("other users can write ({mode:03o})"),
            "they can change states; encryption detects this for sealed stacks only",
        )
    })
}

fn clear(root: &Dir, scratch: &Dir, name: &str) -> Result<()> {
    for file in scratch.entries()? {
        scratch.remove(&file)?;
    }
    let removed = root.folder().remove_folder(name);
    removed.map_err(|e| read_failed(&root.object(name), e))?;
    root.sync()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::FsBackend;
    use state_core::ErrorKind;
    use state_core::backend::{CheckableStore, Verdict};
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap()
            .block_on(future)
    }

    #[test]
    fn local_folder_passes_every_check_and_keeps_no_files() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("states");
        let store = FsBackend::create(&root).unwrap();
        let before: Vec<_> = fs::read_dir(&root)
            .unwrap()
            .map(|e| e.unwrap().file_name())
            .collect();
        let examination = block_on(store.examine()).unwrap();
        assert_eq!(examination.broken().count(), 0, "{examination:#?}");
        let checks: Vec<_> = examination.findings.iter().map(|f| f.check).collect();
        assert_eq!(
            checks,
            [
                "create-if-absent",
                "locks",
                "replacements",
                "filesystem",
                "rights"
            ]
        );
        let after: Vec<_> = fs::read_dir(&root)
            .unwrap()
            .map(|e| e.unwrap().file_name())
            .collect();
        assert_eq!(before, after);
    }

    #[test]
    fn folder_writable_by_others_is_noted() {
        let folder = tempfile::tempdir().unwrap();
        let store = FsBackend::create(folder.path().join("states")).unwrap();
        fs::set_permissions(folder.path().join("states"), fs::Permissions::from_mode(0o777)).unwrap();
        let examination = block_on(store.examine()).unwrap();
        let rights = examination.findings.iter().find(|f| f.check == "rights").unwrap();
        assert_eq!(rights.verdict, Verdict::Noted);
        assert!(rights.found.contains("777"), "{rights:?}");
    }

    #[test]
    fn check_of_a_missing_root_reports_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let store = FsBackend::create(folder.path().join("states")).unwrap();
        fs::remove_dir_all(folder.path().join("states")).unwrap();
        let error = block_on(store.examine()).unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotApplied),
            "{error}"
        );
    }
}
