//! Whether the filesystem does what the store rests on, tried in a folder of its own that is gone afterwards.

use crate::dir::Dir;
use crate::failure::unreachable;
use crate::files::Access;
use crate::lock::LockFile;
use state_core::backend::{Finding, Holder, StoreCheck};
use state_core::{ErrorKind, Result};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

/// Numbers the folders of this process.
static NEXT: AtomicU64 = AtomicU64::new(0);

const CREATORS: usize = 8;
const ROUNDS: usize = 25;
const REPLACEMENTS: usize = 20;

/// A document of more than one sector.
const LENGTH: usize = 8 << 10;

/// Examines what lies under a store's root.
pub(crate) fn examine(root: &Dir) -> Result<StoreCheck> {
    // What begins with `.tmp-` means nothing to a store, should it stay.
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!(".tmp-examination-{}-{number}", std::process::id());
    let place = root.make_child(&name)?;
    let findings = findings(root, &place);
    clear(root, &place, &name)?;
    Ok(StoreCheck { findings: findings? })
}

fn findings(root: &Dir, place: &Dir) -> Result<Vec<Finding>> {
    Ok(vec![
        create_once(place)?,
        locks(place)?,
        replacements(place)?,
        filesystem(root)?,
        rights(root)?,
    ])
}

fn create_once(place: &Dir) -> Result<Finding> {
    let mut winners = Vec::new();
    for round in 0..ROUNDS {
        let name = format!("once-{round}");
        let won: Vec<Result<bool>> = thread::scope(|scope| {
            let creators: Vec<_> = (0..CREATORS)
                .map(|_| scope.spawn(|| created(place, &name)))
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
            format!("not one winner of {CREATORS} in {bad} of {ROUNDS} rounds"),
            "two writers may both take a name, and one of them loses what it wrote",
        )
    })
}

fn created(place: &Dir, name: &str) -> Result<bool> {
    match place.folder().open(name, Access::CreateNew) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(unreachable(&place.object(name), error)),
    }
}

fn locks(place: &Dir) -> Result<Finding> {
    const CHECK: &str = "locks";
    let take = || LockFile::take(place, "lock", &Holder::default());
    let held = take()?;
    match take() {
        Err(error) if error.kind() == ErrorKind::Locked => {}
        Err(error) => return Err(error),
        Ok(_) => {
            return Ok(Finding::broken(
                CHECK,
                "two holders have the same lock",
                "two writers may hold one stack, and only the fence would stop the first",
            ));
        }
    }
    drop(held);
    Ok(match take() {
        Ok(_) => Finding::holds(CHECK, "one holder at a time, and free again afterwards"),
        Err(_) => Finding::broken(
            CHECK,
            "a lock that was freed stays taken",
            "a stack stays locked for ever",
        ),
    })
}

/// Replaces a document while somebody reads it.
fn replacements(place: &Dir) -> Result<Finding> {
    let name = "document";
    let content = |round: usize| vec![b'a' + u8::try_from(round % 26).unwrap_or_default(); LENGTH];
    place.replace(name, &content(0))?;
    let done = AtomicBool::new(false);
    let (written, read) = thread::scope(|scope| {
        let reader = scope.spawn(|| -> Result<Option<usize>> {
            let mut reads = 0_usize;
            while !done.load(Ordering::Relaxed) {
                let bytes = place.read(name, LENGTH as u64)?.map(|(bytes, _)| bytes);
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
        let written = (1..=REPLACEMENTS).try_for_each(|round| place.replace(name, &content(round)));
        done.store(true, Ordering::Relaxed);
        (written, reader.join().unwrap_or(Ok(None)))
    });
    written?;
    Ok(match read? {
        Some(reads) => Finding::holds(
            "replacements",
            format!("{REPLACEMENTS} replacements, synced; {reads} reads meanwhile saw whole documents"),
        ),
        None => Finding::broken(
            "replacements",
            "a reader saw a document that was half replaced, or none",
            "readers may see a head that never existed",
        ),
    })
}

/// What kind of filesystem it is, as far as that matters.
fn filesystem(root: &Dir) -> Result<Finding> {
    const CHECK: &str = "filesystem";
    let number = root.folder().type_of_file_system();
    let Some(number) = number.map_err(|e| unreachable(root.path(), e))? else {
        return Ok(Finding::noted(
            CHECK,
            "its type isn't known here",
            "make sure that it is a local one",
        ));
    };
    let network = "whether locks and syncs reach its server is for the server to promise: not tested";
    // The magic numbers of statfs(2).
    let (name, meaning) = match number {
        0x6969 => ("NFS", network),
        0xff53_4d42 | 0x517b | 0xfe53_4d42 => ("SMB", network),
        0x0102_1997 => ("9p", network),
        0x6573_5546 => ("FUSE", "what a sync does is for the program behind it to say"),
        0x0102_1994 => (
            "tmpfs",
            "it lies in memory: nothing survives a restart of the machine",
        ),
        0x794c_7630 => ("overlayfs", "it goes with the container, unless that is kept"),
        other => return Ok(Finding::holds(CHECK, format!("local, of type {other:#x}"))),
    };
    Ok(Finding::noted(CHECK, name, meaning))
}

fn rights(root: &Dir) -> Result<Finding> {
    let permissions = root.folder().permissions();
    let mode = permissions.map_err(|e| unreachable(root.path(), e))?;
    Ok(if mode & 0o022 == 0 {
        Finding::holds("rights", format!("only its owner writes to it ({mode:03o})"))
    } else {
        Finding::noted(
            "rights",
            format!("others than its owner may write to it ({mode:03o})"),
            "they can change states; a sealed stack would tell, a plain one would not",
        )
    })
}

fn clear(root: &Dir, place: &Dir, name: &str) -> Result<()> {
    for file in place.entries()? {
        place.remove(&file)?;
    }
    let removed = root.folder().remove_folder(name);
    removed.map_err(|e| unreachable(&root.object(name), e))?;
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
    fn a_local_folder_keeps_every_promise_and_nothing_stays() {
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
    fn a_folder_that_others_write_to_is_noted() {
        let folder = tempfile::tempdir().unwrap();
        let store = FsBackend::create(folder.path().join("states")).unwrap();
        fs::set_permissions(folder.path().join("states"), fs::Permissions::from_mode(0o777)).unwrap();
        let examination = block_on(store.examine()).unwrap();
        let rights = examination.findings.iter().find(|f| f.check == "rights").unwrap();
        assert_eq!(rights.verdict, Verdict::Noted);
        assert!(rights.found.contains("777"), "{rights:?}");
    }

    #[test]
    fn a_root_that_is_gone_is_told_as_what_it_is() {
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
