//! A provider result in a local file, for a store that couldn't be reached when the result came.

use serde::{Deserialize, Serialize};
use state_core::mutation::End;
use state_core::sealing::{StackKey, Tag, TagDomain};
use state_core::{Enveloped, Error, KeyId, Lineage, Result, StackName, Timestamp};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

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
    /// Lineage of the stack whose session spooled the result.
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

/// The call that makes a file or a folder durable. Tests record the calls.
trait SyncCall: Fn(&File, &Path) -> io::Result<()> {}

impl<F: Fn(&File, &Path) -> io::Result<()>> SyncCall for F {}

impl Enveloped for SpooledResult {
    const KIND: &'static str = "spool";
}

impl SpooledResult {
    /// Reads a spool file.
    ///
    /// # Errors
    /// `NotFound` when the file is missing; `Invalid` for a device, a pipe and a folder, and when the file is larger than any
    /// result can be; `Unavailable` when the file can't be read; `Corrupt` when any byte differs from what was written.
    pub fn read(path: &Path) -> Result<Self> {
        let object = path.display().to_string();
        let unreadable = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => Error::not_found(object.clone()),
            _ => Error::Unavailable {
                object: object.clone(),
                source: error.into(),
            },
        };
        // The user names this path. Opening a pipe waits for its writer, and a device has no end.
        if !std::fs::metadata(path).map_err(unreadable)?.is_file() {
            return Err(Error::invalid(object, "it isn't a file"));
        }
        let mut bytes = Vec::new();
        let file = File::open(path).map_err(unreadable)?;
        let read = file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes);
        read.map_err(unreadable)?;
        if bytes.len() as u64 > MAX_FILE_BYTES {
            let reason = format!("it is larger than any result can be: {MAX_FILE_BYTES} bytes");
            return Err(Error::invalid(object, reason));
        }
        Self::decode(&object, &bytes)
    }

    /// Writes the result to a file of its own in `folder` and returns the path of the file, which is durable then. The
    /// same result is written once; a different result of the same mutation gets a second file. `key` is the key of the
    /// result's tag.
    pub(crate) fn write(&self, folder: &Path, key: Option<&dyn StackKey>) -> io::Result<PathBuf> {
        self.write_with(folder, key, &|file: &File, _: &Path| file.sync_all())
    }

    /// As [`Self::write`]. Calls `sync` with each file and folder that must be durable, and with its path.
    fn write_with(
        &self,
        folder: &Path,
        key: Option<&dyn StackKey>,
        sync: &impl SyncCall,
    ) -> io::Result<PathBuf> {
        create_folder(folder, sync)?;
        for number in 0..MAX_RESULTS_PER_MUTATION {
            let path = folder.join(self.file_name(number));
            match self.write_new(&path, sync) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    // The existing file may be a torn write of a crashed process, so only a file with an equal result
                    // counts as written. That file is synced again, because the process that wrote it may have crashed
                    // before its sync.
                    if Self::read(&path).is_ok_and(|kept| kept.is_the_same(self) && kept.is_authentic(key)) {
                        sync(&File::open(&path)?, &path)?;
                        sync(&File::open(folder)?, folder)?;
                        return Ok(path);
                    }
                }
                written => {
                    written?;
                    sync(&File::open(folder)?, folder)?;
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

    fn write_new(&self, path: &Path, sync: &impl SyncCall) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        // Results may contain resource data: only their owner may read them.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(path)?;
        file.write_all(&self.encode())?;
        sync(&file, path)
    }

    /// Sets the id of the key and the tag of the result under that key.
    pub(crate) fn sign(&mut self, key: &dyn StackKey) {
        self.key_id = Some(key.id());
        self.tag = Some(self.tag_under(key));
    }

    /// Whether the result has a valid tag under this key; without a key, whether it has none.
    pub(crate) fn is_authentic(&self, key: Option<&dyn StackKey>) -> bool {
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
fn create_folder(folder: &Path, sync: &impl SyncCall) -> io::Result<()> {
    let missing: Vec<&Path> = folder.ancestors().take_while(|path| !path.exists()).collect();
    std::fs::create_dir_all(folder)?;
    for made in missing {
        // A new folder is durable only when the parent folder that contains its name is synced.
        let around = made.parent().filter(|parent| !parent.as_os_str().is_empty());
        let around = around.unwrap_or(Path::new("."));
        sync(&File::open(around)?, around)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{MAX_FILE_BYTES, SpooledResult};
    use state_core::mutation::End;
    use state_core::testkit::clock::SeededEntropy;
    use state_core::{Enveloped, Lineage, MutationId, Outcome, Timestamp};
    use std::cell::RefCell;
    use std::fs::File;
    use std::io;
    use std::path::{Path, PathBuf};

    /// Spools a result. Returns the outcome, and for each sync in their order the path and what a reader found there
    /// then: the content of a file, or the number of names in a folder.
    fn recorded(
        result: &SpooledResult,
        folder: &Path,
        fails: impl Fn(&Path) -> bool,
    ) -> (io::Result<PathBuf>, Vec<(PathBuf, SyncedContent)>) {
        let syncs = RefCell::new(Vec::new());
        let sync = |file: &File, path: &Path| {
            if fails(path) {
                return Err(io::Error::other("no space left"));
            }
            let content = match file.metadata()?.is_dir() {
                true => SyncedContent::Names(std::fs::read_dir(path)?.count()),
                false => SyncedContent::Bytes(std::fs::read(path)?),
            };
            syncs.borrow_mut().push((path.to_owned(), content));
            Ok(())
        };
        let written = result.write_with(folder, None, &sync);
        (written, syncs.into_inner())
    }

    #[derive(Debug, PartialEq, Eq)]
    enum SyncedContent {
        Bytes(Vec<u8>),
        Names(usize),
    }

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
    fn only_a_file_of_limited_size_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let large = folder.path().join("large");
        File::create(&large).unwrap().set_len(MAX_FILE_BYTES + 1).unwrap();
        for path in [Path::new("/dev/zero"), folder.path(), &large] {
            let error = SpooledResult::read(path).unwrap_err();
            assert_eq!(error.kind(), state_core::ErrorKind::Invalid, "{error}");
        }
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

    #[test]
    fn spooled_result_is_durable_before_it_counts_as_kept() {
        let root = tempfile::tempdir().unwrap();
        let spool = root.path().join("made/for");
        let result = failed("quota", "2026-01-01T00:00:00Z");
        let (path, bytes) = (spool.join(result.file_name(0)), result.encode());
        let kept = |syncs| (path.clone(), syncs);
        let file = || (path.clone(), SyncedContent::Bytes(bytes.clone()));
        let names = |folder: &Path, count| (folder.to_owned(), SyncedContent::Names(count));

        // Each new folder is a name in the folder around it; the file is complete before its name is durable.
        let (written, syncs) = recorded(&result, &spool, |_| false);
        let folders = [names(&root.path().join("made"), 1), names(root.path(), 1)];
        let expected: Vec<_> = folders.into_iter().chain([file(), names(&spool, 1)]).collect();
        assert_eq!((written.unwrap(), syncs), kept(expected));

        // The process that wrote an equal result may have crashed before its syncs.
        let (written, syncs) = recorded(&result, &spool, |_| false);
        assert_eq!((written.unwrap(), syncs), kept(vec![file(), names(&spool, 1)]));
    }

    #[test]
    fn spooled_result_is_kept_only_if_each_sync_succeeds() {
        let result = failed("quota", "2026-01-01T00:00:00Z");
        for failing in ["", "spool", "file"] {
            for already in [false, true] {
                let root = tempfile::tempdir().unwrap();
                let spool = root.path().join("spool");
                if already {
                    result.write(&spool, None).unwrap();
                }
                let path = match failing {
                    "file" => spool.join(result.file_name(0)),
                    name => root.path().join(name),
                };
                // An existing folder isn't synced again.
                let is_synced = !(failing.is_empty() && already);
                let (written, _) = recorded(&result, &spool, |synced| synced == path);
                assert_eq!(
                    written.is_err(),
                    is_synced,
                    "{failing:?}, written before: {already}"
                );
            }
        }
    }
}
