//! Results that could not be acknowledged because the store went away after the world was changed.
//!
//! A result is worth more than the store: without it nobody knows the id of what was made. So it is kept in a local
//! file, as it would have been recorded (of a sealed stack: sealed), and [`Session::bring_back`](crate::Session::bring_back) records it once the
//! store answers again. Opt in with [`Stacks::with_spool`](crate::Stacks::with_spool).

use crate::intent::UpdateRequest;
use crate::keys::wrapped;
use crate::objects::snapshots;
use crate::write::edits;
use crate::write::locked_stack::LockedStack;
use serde::{Deserialize, Serialize};
use state_core::mutation::{End, Resolution};
use state_core::{
    Entry, Enveloped, Error, ErrorKind, FactoryInfo, Lineage, MutationId, Outcome, Result, RevisionId,
    Snapshot, StackName, Timestamp,
};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The largest spool file in bytes: an entry and what is around it.
const MOST: u64 = 64 << 20;

/// How many different results of one mutation are kept.
const MOST_OF_ONE: usize = 16;

/// A result that waits in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Spooled {
    /// The store, without secrets.
    pub store: String,
    /// The stack's identity.
    pub lineage: Lineage,
    /// The stack's name then.
    pub stack: StackName,
    /// When it came back.
    pub at: Timestamp,
    /// What came back, as it is stored.
    pub end: End,
}

impl Enveloped for Spooled {
    const KIND: &'static str = "spool";
}

/// What became of a result that was brought back.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BroughtBack {
    /// It is recorded now, as this revision.
    Recorded(RevisionId),
    /// It had been recorded all the same.
    Known,
}

impl Spooled {
    /// Reads a file.
    ///
    /// # Errors
    /// `NotFound`; `Corrupt` for any byte that differs from what was written.
    pub fn read(path: &Path) -> Result<Self> {
        let object = path.display().to_string();
        let unreadable = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => Error::not_found(object.clone()),
            _ => Error::Unavailable {
                object: object.clone(),
                source: error.into(),
            },
        };
        let length = std::fs::metadata(path).map_err(unreadable)?.len();
        if length > MOST {
            return Err(Error::invalid(
                object,
                format!("{length} bytes are too many for a result"),
            ));
        }
        let bytes = std::fs::read(path).map_err(unreadable)?;
        Self::decode(&object, &bytes)
    }

    /// Writes it to a file of its own in a folder: durable when it returns. Told twice, it is kept once; another
    /// result of the same mutation goes beside the first.
    fn write(&self, folder: &Path) -> io::Result<PathBuf> {
        create_folder(folder)?;
        for number in 0..MOST_OF_ONE {
            let path = folder.join(self.file_name(number));
            match self.write_new(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    if Self::read(&path).is_ok_and(|kept| kept.is_the_same(self)) {
                        File::open(&path)?.sync_all()?;
                        File::open(folder)?.sync_all()?;
                        return Ok(path);
                    }
                }
                written => {
                    written?;
                    File::open(folder)?.sync_all()?;
                    return Ok(path);
                }
            }
        }
        Err(io::Error::other("there are too many results of this mutation"))
    }

    fn file_name(&self, number: usize) -> String {
        let begin = format!("{}-{}", self.lineage, self.end.id);
        match number {
            0 => format!("{begin}.json"),
            number => format!("{begin}-{number}.json"),
        }
    }

    fn write_new(&self, path: &Path) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(path)?;
        file.write_all(&self.encode())?;
        file.sync_all()
    }

    /// Whether it is the same result, whenever it came.
    fn is_the_same(&self, other: &Self) -> bool {
        (&self.store, self.lineage, &self.end) == (&other.store, other.lineage, &other.end)
    }
}

/// Makes a folder, and those that it is in, durable.
fn create_folder(folder: &Path) -> io::Result<()> {
    let missing: Vec<&Path> = folder.ancestors().take_while(|path| !path.exists()).collect();
    std::fs::create_dir_all(folder)?;
    for made in missing {
        // The entry of a new folder is in the one around it.
        let around = made.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(around.unwrap_or(Path::new(".")))?.sync_all()?;
    }
    Ok(())
}

/// Keeps a result that couldn't be recorded, if the store is to blame and there is a place for it. The error tells
/// where it is.
pub(crate) async fn keep(locked: &LockedStack, end: End, error: Error) -> Error {
    let Some(folder) = locked.stack.spool().filter(|_| is_the_stores(&error)) else {
        return error;
    };
    let id = end.id;
    let spooled = Spooled {
        store: locked.stack.backend().url(),
        lineage: locked.stack.lineage(),
        stack: locked.stack.name().clone(),
        at: locked.stack.now(),
        end,
    };
    let written = snapshots::blocking(move || spooled.write(&folder)).await;
    let stack = locked.stack.name().short();
    let kept = match written {
        Ok(Ok(path)) => format!("is kept in {}", path.display()),
        Ok(Err(unkept)) => format!("could not be kept ({unkept})"),
        Err(_) => return error,
    };
    Error::Indeterminate {
        object: format!("stack {stack}: the result of mutation {id} {kept}"),
        mutations: vec![id],
        source: error.to_string().into(),
    }
}

/// Records a result that waited in a file, as one revision.
pub(crate) async fn bring_back(
    locked: &LockedStack,
    request: UpdateRequest,
    spooled: &Spooled,
) -> Result<BroughtBack> {
    let id = spooled.end.id;
    if spooled.lineage != locked.stack.lineage() {
        let reason = format!("the result is of stack {} ({})", spooled.stack, spooled.lineage);
        let object = locked.stack.object();
        return Err(Error::conflict(object, reason));
    }
    if !locked.state().pending().any(|operation| operation.id == id) {
        return match locked.state().lookup(id) {
            Some(_) => Ok(BroughtBack::Known),
            None => Err(Error::not_found(format!("pending operation {id}"))),
        };
    }
    let resolution = resolution(locked, id, &spooled.end).await?;
    let resolved = edits::resolve(locked, request, id, resolution).await?;
    Ok(BroughtBack::Recorded(resolved))
}

async fn resolution(locked: &LockedStack, id: MutationId, end: &End) -> Result<Resolution> {
    match (end.outcome, &end.entry) {
        (Outcome::Failed, _) => Ok(Resolution::NotDone),
        (Outcome::Partial, None) => Err(Error::invalid(
            format!("pending operation {id}"),
            "it was done in part, and what is left wasn't told",
        )),
        (_, None) => Ok(Resolution::Done(None)),
        (_, Some(entry)) => {
            let mut entry = Entry::clone(entry);
            entry.init_errors.clone_from(&end.reasons);
            let entry = opened(locked, entry).await?;
            Ok(Resolution::Done(Some(Arc::new(entry))))
        }
    }
}

/// It may be sealed with a key that the stack had then.
async fn opened(locked: &LockedStack, entry: Entry) -> Result<Entry> {
    let mut carrier = Snapshot::new(FactoryInfo::default(), "", locked.stack.now());
    carrier.lineage = Some(locked.stack.lineage());
    carrier.entries = vec![Arc::new(entry.clone())];
    let mut opened = wrapped::reveal(&locked.stack, carrier).await?;
    Ok(opened.entries.pop().map_or(entry, |opened| Entry::clone(&opened)))
}

/// Whether the result may be missing from the journal through no fault of its own.
fn is_the_stores(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Fenced
            | ErrorKind::NotApplied
            | ErrorKind::Indeterminate
            | ErrorKind::Denied
            | ErrorKind::Unavailable
            | ErrorKind::Closed
    )
}

#[cfg(test)]
mod tests {
    use super::Spooled;
    use state_core::mutation::End;
    use state_core::testkit::clock::SeededEntropy;
    use state_core::{Lineage, MutationId, Outcome, Timestamp};

    fn failed(reason: &str, at: &str) -> Spooled {
        let entropy = SeededEntropy::new(1);
        Spooled {
            store: "s3://bucket".to_owned(),
            lineage: Lineage::random(&entropy),
            stack: "shop".parse().unwrap(),
            at: Timestamp::new(at),
            end: End {
                id: MutationId::random(&entropy),
                outcome: Outcome::Failed,
                entry: None,
                reasons: vec![reason.to_owned()],
            },
        }
    }

    #[test]
    fn a_result_that_is_told_twice_is_kept_once_and_another_one_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let spool = folder.path().join("made/for/it");
        let first = failed("quota", "2026-01-01T00:00:00Z");
        let kept = first.write(&spool).unwrap();
        let again = failed("quota", "2026-01-01T00:00:09Z").write(&spool).unwrap();
        assert_eq!(again, kept);
        assert_eq!(Spooled::read(&kept).unwrap(), first);

        let other = failed("denied", "2026-01-01T00:00:00Z");
        let beside = other.write(&spool).unwrap();
        assert_ne!(beside, kept);
        assert_eq!(Spooled::read(&beside).unwrap(), other);
        assert_eq!(other.write(&spool).unwrap(), beside);
    }

    #[test]
    fn what_a_crash_left_half_written_is_not_taken_for_a_result_and_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let result = failed("quota", "2026-01-01T00:00:00Z");
        let torn = folder.path().join(result.file_name(0));
        std::fs::write(&torn, &b"{\"half"[..]).unwrap();
        let kept = result.write(folder.path()).unwrap();
        assert_eq!(Spooled::read(&kept).unwrap(), result);
        assert_eq!(std::fs::read(&torn).unwrap(), b"{\"half");
    }
}
