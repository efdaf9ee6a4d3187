//! Spools provider results: keeps them in local files if they could not be recorded, because the store became
//! unavailable after the provider call.
//!
//! Without its result, the id of a created resource would be lost. The file contains the result in the form in which it
//! would have been recorded: sealed if the stack is sealed. [`Session::record_spooled`](crate::Session::record_spooled)
//! records it once the store is available again. Spooling is enabled by
//! [`Stacks::with_spool`](crate::Stacks::with_spool).

use crate::intent::UpdateRequest;
use crate::keys::reveal::reveal;
use crate::keys::wrapped;
use crate::write::edits;
use crate::write::locked_stack::LockedStack;
use serde::{Deserialize, Serialize};
use state_core::mutation::{End, Resolution};
use state_core::sealing::{StackKey, Tag, TagDomain};
use state_core::{
    Entry, Enveloped, Error, ErrorKind, FactoryInfo, KeyId, Lineage, MutationId, Outcome, Result, RevisionId,
    Snapshot, StackName, Timestamp,
};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Maximum size of a spool file in bytes, which leaves room for the largest entry and the envelope around it.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// Maximum number of different results that are kept for one mutation.
const MAX_RESULTS_PER_MUTATION: usize = 16;

/// A provider result in a spool file, not recorded yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct SpooledResult {
    /// URL of the store, without secrets.
    pub store: String,
    /// Identity of the stack.
    pub lineage: Lineage,
    /// Name of the stack when the result was spooled.
    pub stack: StackName,
    /// Time at which the provider returned the result.
    pub at: Timestamp,
    /// The result in the form in which it is recorded.
    pub end: End,
    /// Id of the stack's data key when the result was spooled; none for a stack without a data key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_id: Option<KeyId>,
    /// Tag under that key, which covers all other fields.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<Tag>,
}

impl Enveloped for SpooledResult {
    const KIND: &'static str = "spool";
}

/// The outcome of recording a spooled result.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpoolOutcome {
    /// The result is recorded now, as this revision.
    Recorded(RevisionId),
    /// The result had been recorded before: the append that seemed to fail had succeeded.
    Known,
}

impl SpooledResult {
    /// Reads a spool file.
    ///
    /// # Errors
    /// `NotFound` when the file is missing; `Invalid` when the file is larger than any result can be; `Unavailable`
    /// when the file can't be read; `Corrupt` when any byte differs from what was written.
    pub fn read(path: &Path) -> Result<Self> {
        let object = path.display().to_string();
        let unreadable = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => Error::not_found(object.clone()),
            _ => Error::Unavailable {
                object: object.clone(),
                source: error.into(),
            },
        };
        // The user names this path: a file of any size must not be read into memory.
        let length = std::fs::metadata(path).map_err(unreadable)?.len();
        if length > MAX_FILE_BYTES {
            return Err(Error::invalid(
                object,
                format!("a result of {length} bytes is too large"),
            ));
        }
        let bytes = std::fs::read(path).map_err(unreadable)?;
        Self::decode(&object, &bytes)
    }

    /// Writes the result to a file of its own in `folder` and returns the path of the file, which is durable then. The
    /// same result is written once; a different result of the same mutation gets a second file. `key` is the key of the
    /// result's tag.
    fn write(&self, folder: &Path, key: Option<&dyn StackKey>) -> io::Result<PathBuf> {
        create_folder(folder)?;
        for number in 0..MAX_RESULTS_PER_MUTATION {
            let path = folder.join(self.file_name(number));
            match self.write_new(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    // The existing file may be a torn write of a crashed process, so only a file with an equal result
                    // counts as written. That file is synced again, because the process that wrote it may have crashed
                    // before its sync.
                    if Self::read(&path).is_ok_and(|kept| kept.is_the_same(self) && kept.is_authentic(key)) {
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
        Err(io::Error::other(
            "too many different results of this mutation are spooled",
        ))
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
        // Results may contain resource data: only their owner may read them.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(path)?;
        file.write_all(&self.encode())?;
        file.sync_all()
    }

    /// Sets the id of the key and the tag of the result under that key.
    fn sign(&mut self, key: &dyn StackKey) {
        self.key_id = Some(key.id());
        self.tag = Some(self.tag_under(key));
    }

    /// Whether the result has a valid tag under this key; without a key, whether it has none.
    fn is_authentic(&self, key: Option<&dyn StackKey>) -> bool {
        match key {
            Some(key) => self.key_id == Some(key.id()) && self.tag == Some(self.tag_under(key)),
            None => self.key_id.is_none() && self.tag.is_none(),
        }
    }

    fn tag_under(&self, key: &dyn StackKey) -> Tag {
        let untagged = Self {
            tag: None,
            ..self.clone()
        };
        key.tag(TagDomain::Spool, &untagged.encode())
    }

    /// Whether both contain the same result. The times at which the provider returned it may differ.
    fn is_the_same(&self, other: &Self) -> bool {
        (&self.store, self.lineage, &self.end) == (&other.store, other.lineage, &other.end)
    }
}

/// Creates a folder and its missing parents durably.
fn create_folder(folder: &Path) -> io::Result<()> {
    let missing: Vec<&Path> = folder.ancestors().take_while(|path| !path.exists()).collect();
    std::fs::create_dir_all(folder)?;
    for made in missing {
        // A new folder is durable only when the parent folder that contains its name is synced.
        let around = made.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(around.unwrap_or(Path::new(".")))?.sync_all()?;
    }
    Ok(())
}

/// Spools a result that could not be recorded, if the store caused the failure and a spool folder is configured. The
/// returned error names the file.
pub(crate) async fn keep(locked: &LockedStack, end: End, error: Error) -> Error {
    let Some(folder) = locked.stack.spool().filter(|_| is_store_failure(&error)) else {
        return error;
    };
    let id = end.id;
    let mut spooled = SpooledResult {
        store: locked.stack.backend().url(),
        lineage: locked.stack.lineage(),
        stack: locked.stack.name().clone(),
        at: locked.stack.now(),
        end,
        key_id: None,
        tag: None,
    };
    let key = locked.seal.shared_key();
    if let Some(key) = &key {
        spooled.sign(&**key);
    }
    let written = tokio::task::spawn_blocking(move || spooled.write(&folder, key.as_deref())).await;
    let stack = locked.stack.name().short();
    let kept = match written {
        Ok(Ok(path)) => format!("is kept in {}", path.display()),
        Ok(Err(unkept)) => format!("could not be kept ({unkept})"),
        Err(_) => return error,
    };
    // `Indeterminate` even if the append had no effect: the real resource has changed, and the store doesn't show it.
    Error::Indeterminate {
        object: format!("stack {stack}: the result of mutation {id} {kept}"),
        mutations: vec![id],
        source: error.to_string().into(),
    }
}

/// Records a spooled result, as one revision. A result that was already recorded is reported as
/// [`SpoolOutcome::Known`].
pub(crate) async fn record_spooled(
    locked: &LockedStack,
    request: UpdateRequest,
    spooled: &SpooledResult,
) -> Result<SpoolOutcome> {
    let id = spooled.end.id;
    if spooled.lineage != locked.stack.lineage() {
        let reason = format!(
            "the result belongs to stack {} ({})",
            spooled.stack, spooled.lineage
        );
        let object = locked.stack.object();
        return Err(Error::conflict(object, reason));
    }
    require_authentic(locked, spooled).await?;
    if !locked.state().pending().any(|operation| operation.id == id) {
        // The operation isn't pending any more: the append may have succeeded although its acknowledgement was lost.
        return match locked.state().lookup(id) {
            Some(_) => Ok(SpoolOutcome::Known),
            None => Err(Error::not_found(format!("pending operation {id}"))),
        };
    }
    let resolution = resolution(locked, id, &spooled.end).await?;
    let resolved = edits::resolve(locked, request, id, resolution).await?;
    Ok(SpoolOutcome::Recorded(resolved))
}

/// Requires that a session of this stack wrote the result, because other users may have write access to the spool
/// folder. The tag covers the id of the mutation, so the result of one mutation can't be recorded for another. A stack
/// without a data key accepts every result.
async fn require_authentic(locked: &LockedStack, spooled: &SpooledResult) -> Result<()> {
    let Some(head) = locked.head.sealed() else {
        return Ok(());
    };
    let refused = |reason: &str| {
        let stack = locked.stack.object();
        let object = format!("spooled result of operation {} of {stack}", spooled.end.id);
        Err(Error::distrusted(object, reason))
    };
    let Some(id) = spooled.key_id else {
        return refused(
            "it has no tag under a data key of the stack: it was changed or made outside of statectl",
        );
    };
    // The key may have been replaced while the operation was pending.
    if !wrapped::keys_of(&head).contains(&id) {
        return refused("it names a data key that the stack never had");
    }
    let key = wrapped::unwrap(&locked.stack, id).await?;
    match spooled.is_authentic(Some(&*key)) {
        true => Ok(()),
        false => refused("its tag doesn't match the stack's data key: it was changed after it was written"),
    }
}

/// The resolution of a pending operation that a spooled result implies. `Invalid` for a deletion that was partly done.
async fn resolution(locked: &LockedStack, id: MutationId, end: &End) -> Result<Resolution> {
    match (end.outcome, &end.entry) {
        (Outcome::Failed, _) => Ok(Resolution::NotDone),
        (Outcome::Partial, None) => Err(Error::invalid(
            format!("pending operation {id}"),
            "the deletion was partly done, and the result doesn't say what is left; check the resource and resolve the operation by hand",
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

/// Returns the entry with its values opened. They may be sealed with an earlier key of the stack, while
/// `edits::resolve` seals them with the present one.
async fn opened(locked: &LockedStack, entry: Entry) -> Result<Entry> {
    let mut carrier = Snapshot::new(FactoryInfo::default(), "", locked.stack.now());
    carrier.lineage = Some(locked.stack.lineage());
    carrier.entries = vec![Arc::new(entry.clone())];
    let mut opened = reveal(&locked.stack, &locked.head.current(), carrier).await?;
    Ok(opened.entries.pop().map_or(entry, |opened| Entry::clone(&opened)))
}

/// Whether the store may have caused this error. If the result itself caused it, the result would be refused again
/// later, so it isn't spooled.
fn is_store_failure(error: &Error) -> bool {
    // After a failed append the queue refuses all later results as `Closed`, so the store caused these errors too.
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
    use super::SpooledResult;
    use state_core::mutation::End;
    use state_core::testkit::clock::SeededEntropy;
    use state_core::{Lineage, MutationId, Outcome, Timestamp};

    fn failed(reason: &str, at: &str) -> SpooledResult {
        let entropy = SeededEntropy::new(1);
        SpooledResult {
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
            key_id: None,
            tag: None,
        }
    }

    #[test]
    fn equal_result_is_spooled_once_and_another_gets_a_second_file() {
        let folder = tempfile::tempdir().unwrap();
        let spool = folder.path().join("made/for/it");
        let first = failed("quota", "2026-01-01T00:00:00Z");
        let kept = first.write(&spool, None).unwrap();
        let again = failed("quota", "2026-01-01T00:00:09Z")
            .write(&spool, None)
            .unwrap();
        assert_eq!(again, kept);
        assert_eq!(SpooledResult::read(&kept).unwrap(), first);

        let other = failed("denied", "2026-01-01T00:00:00Z");
        let beside = other.write(&spool, None).unwrap();
        assert_ne!(beside, kept);
        assert_eq!(SpooledResult::read(&beside).unwrap(), other);
        assert_eq!(other.write(&spool, None).unwrap(), beside);
    }

    #[test]
    fn torn_spool_file_is_neither_read_nor_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let result = failed("quota", "2026-01-01T00:00:00Z");
        let torn = folder.path().join(result.file_name(0));
        std::fs::write(&torn, &b"{\"half"[..]).unwrap();
        let kept = result.write(folder.path(), None).unwrap();
        assert_eq!(SpooledResult::read(&kept).unwrap(), result);
        assert_eq!(std::fs::read(&torn).unwrap(), b"{\"half");
    }
}
