//! Results that could not be acknowledged because the store went away after the world was changed.
//!
//! A result is worth more than the store: without it nobody knows the id of what was made. So it is kept in a local
//! file, as it would have been recorded (of a sealed stack: sealed), and [`Session::bring_back`] records it once the
//! store answers again. Opt in with [`Stacks::with_spool`](crate::Stacks::with_spool).

use crate::intent::UpdateRequest;
use crate::session::Session;
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

    /// Writes it to a file of its own in a folder: durable when it returns.
    fn write(&self, folder: &Path) -> io::Result<PathBuf> {
        std::fs::create_dir_all(folder)?;
        let path = folder.join(format!("{}-{}.json", self.lineage, self.end.id));
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&path)?;
        file.write_all(&self.encode())?;
        file.sync_all()?;
        File::open(folder)?.sync_all()?;
        Ok(path)
    }
}

impl Session {
    /// Keeps a result that couldn't be recorded, if the store is to blame and there is a place for it. The error tells
    /// where it is.
    pub(crate) async fn spooled(&self, end: End, error: Error) -> Error {
        let Some(folder) = self.stack().spool().filter(|_| is_the_stores(&error)) else {
            return error;
        };
        let id = end.id;
        let spooled = Spooled {
            store: self.stack().backend().url(),
            lineage: self.stack().lineage(),
            stack: self.stack().name().clone(),
            at: self.now(),
            end,
        };
        let written = crate::snapshots::blocking(move || spooled.write(&folder)).await;
        let stack = self.stack().name().short();
        match written {
            Ok(Ok(path)) => Error::Indeterminate {
                object: format!(
                    "stack {stack}: the result of mutation {id} is kept in {}",
                    path.display()
                ),
                mutations: vec![id],
                source: error.to_string().into(),
            },
            Ok(Err(unkept)) => Error::Indeterminate {
                object: format!("stack {stack}: the result of mutation {id} could not be kept ({unkept})"),
                mutations: vec![id],
                source: error.to_string().into(),
            },
            Err(_) => error,
        }
    }

    /// Records a result that waited in a file, as one revision.
    ///
    /// # Errors
    /// `Conflict` when it is of another stack; `NotFound` when its mutation isn't pending any more and nobody remembers
    /// it; `Integrity` when it breaks a rule; `Invalid` for a deletion that was done in part: look at the world, and
    /// resolve it by hand.
    pub async fn bring_back(&self, request: UpdateRequest, spooled: &Spooled) -> Result<BroughtBack> {
        let id = spooled.end.id;
        if spooled.lineage != self.stack().lineage() {
            let reason = format!("the result is of stack {} ({})", spooled.stack, spooled.lineage);
            let object = format!("stack {}", self.stack().name().short());
            return Err(Error::conflict(object, reason));
        }
        if !self.state().pending().any(|operation| operation.id == id) {
            return match self.lookup(id) {
                Some(_) => Ok(BroughtBack::Known),
                None => Err(Error::not_found(format!("pending operation {id}"))),
            };
        }
        let resolution = self.resolution(id, &spooled.end).await?;
        let resolved = self.resolve(request, id, resolution).await?;
        Ok(BroughtBack::Recorded(resolved))
    }

    async fn resolution(&self, id: MutationId, end: &End) -> Result<Resolution> {
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
                let entry = self.opened(entry).await?;
                Ok(Resolution::Done(Some(Arc::new(entry))))
            }
        }
    }

    /// It may be sealed with a key that the stack had then.
    async fn opened(&self, entry: Entry) -> Result<Entry> {
        let mut carrier = Snapshot::new(FactoryInfo::default(), "", self.now());
        carrier.lineage = Some(self.stack().lineage());
        carrier.entries = vec![Arc::new(entry.clone())];
        let mut opened = self.stack().reveal(carrier).await?;
        Ok(opened.entries.pop().map_or(entry, |opened| Entry::clone(&opened)))
    }
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
