//! Known stacks in files: one small file for each stack and each name, in one folder for each store. No file is secret.
//!
//! ```text
//! ROOT/STORE/stacks/LINEAGE.json     key, epoch, serial and journal end of a stack
//! ROOT/STORE/names/PROJECT/STACK     lineage of the stack with this name
//! ROOT/STORE/.lock                   locked while a pin or a name is replaced
//! ```
//!
//! A store whose path contains a symbolic link has two such folders: see [`StoreIdentity`].
//!
//! `statectl` uses the root `$XDG_STATE_HOME/statectl/seen`; another program of the same user may share it.
//!
//! ```
//! use state_manager::{Actor, Environment, FileKnownStacks, StoreIdentity, KnownStacks};
//! use std::sync::Arc;
//!
//! # let root = std::env::temp_dir().join("known-stacks-example");
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! let environment = Environment::system(Actor::default());
//! let store = StoreIdentity::of("s3://bucket/state", |_field| None, |name| std::env::var(name).ok());
//! let warn = |reason: &str| eprintln!("warning: {reason}");
//! let known = FileKnownStacks::of_store(&root, &store, Arc::clone(&environment.entropy), warn);
//! assert_eq!(known.named(&"shop/production".parse()?).await?, None);
//! // let stacks = stacks.with_known_stacks(Arc::new(known));
//! # Ok::<(), state_core::Error>(()) }).unwrap();
//! ```

use super::store_identity::StoreIdentity;
use super::{KnownStacks, SealingChange, StackPin};
use async_trait::async_trait;
use state_core::{Digest, Entropy, Error, Lineage, Nonce, Result, StackName};
use std::fmt;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often a process tries to lock the known stacks of a store, and the pause between two attempts: two seconds in all.
const LOCK_ATTEMPTS: u32 = 200;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// Maximum size of a file in bytes, enough for several thousand recipients.
const MAX_BYTES: u64 = 1 << 20;

/// A [`KnownStacks`] in files, for the stacks of one store.
pub struct FileKnownStacks {
    /// One folder for each text of the store's [`StoreIdentity`], in the same order. Each pin is written to all of
    /// them.
    folders: Vec<PathBuf>,
    entropy: Arc<dyn Entropy>,
    warn: Box<dyn Fn(&str) + Send + Sync>,
    report: Box<dyn Fn(&str) -> bool + Send + Sync>,
    /// Whether a failed write was already reported.
    warned: AtomicBool,
}

impl fmt::Debug for FileKnownStacks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FileKnownStacks").field(&self.folders).finish()
    }
}

impl FileKnownStacks {
    /// The known stacks of a store, in a folder below `root`, which need not exist. `warn` receives the first error of
    /// writing a file. The error isn't returned, because a missing pin weakens only later checks, not the present work.
    pub fn of_store(
        root: &Path,
        store: &StoreIdentity,
        entropy: Arc<dyn Entropy>,
        warn: impl Fn(&str) + Send + Sync + 'static,
    ) -> Self {
        Self {
            folders: store
                .texts()
                .map(|identity| root.join(Digest::of(identity.as_bytes()).short()))
                .collect(),
            entropy,
            warn: Box::new(warn),
            report: Box::new(|_| true),
            warned: AtomicBool::new(false),
        }
    }

    /// The same, with a function that shows the user a change of policy or recipients, and returns whether it was
    /// shown: see [`KnownStacks::report`].
    #[must_use]
    pub fn with_report(mut self, report: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        self.report = Box::new(report);
        self
    }

    fn of_stack(folder: &Path, lineage: Lineage) -> PathBuf {
        folder.join("stacks").join(format!("{lineage}.json"))
    }

    fn of_name(folder: &Path, name: &StackName) -> PathBuf {
        let (project, stack) = name.folded();
        folder.join("names").join(project).join(stack)
    }

    /// Runs `write` in the background, with a name for a temporary file, and returns its result. A failure is reported
    /// once and returns true, because the caller can't do better by another attempt.
    async fn write(
        &self,
        write: impl FnOnce(&str) -> std::result::Result<bool, String> + Send + 'static,
    ) -> bool {
        let temporary = format!(".tmp-{}", Nonce::random(&*self.entropy));
        let reason = match tokio::task::spawn_blocking(move || write(&temporary)).await {
            Ok(Ok(written)) => return written,
            Ok(Err(reason)) => reason,
            Err(_) => "can't remember the stack: the background writer failed".to_owned(),
        };
        if !self.warned.swap(true, Ordering::Relaxed) {
            (self.warn)(&reason);
        }
        true
    }
}

#[async_trait]
impl KnownStacks for FileKnownStacks {
    async fn seen(&self, lineage: Lineage) -> Result<Option<StackPin>> {
        let folders = self.folders.clone();
        read_in_background(move || Ok(latest_pin(&folders, lineage))).await
    }

    async fn replace(&self, lineage: Lineage, before: Option<&StackPin>, now: Option<&StackPin>) -> bool {
        let encoded = now.and_then(|now| serde_json::to_vec(now).ok());
        let (before, folders) = (before.cloned(), self.folders.clone());
        self.write(move |temporary| {
            let _locks = lock_all(&folders)?;
            if latest_pin(&folders, lineage) != before {
                return Ok(false);
            }
            for folder in &folders {
                write(&Self::of_stack(folder, lineage), temporary, encoded.as_deref())?;
            }
            Ok(true)
        })
        .await
    }

    async fn named(&self, name: &StackName) -> Result<Option<Lineage>> {
        let (folders, name) = (self.folders.clone(), name.clone());
        read_in_background(move || named_in(&folders, &name)).await
    }

    async fn names(&self) -> Result<Vec<StackName>> {
        let folders: Vec<_> = self.folders.iter().map(|folder| folder.join("names")).collect();
        read_in_background(move || {
            let mut names = Vec::new();
            for folder in &folders {
                let listed = list_names(folder);
                names.extend(listed.map_err(|source| unreadable(folder, &source.to_string()))?);
            }
            names.sort();
            names.dedup();
            Ok(names)
        })
        .await
    }

    async fn replace_name(&self, name: &StackName, before: Option<Lineage>, now: Option<Lineage>) -> bool {
        let encoded = now.map(|lineage| format!("{lineage}\n").into_bytes());
        let (folders, name) = (self.folders.clone(), name.clone());
        self.write(move |temporary| {
            let _locks = lock_all(&folders)?;
            if named_in(&folders, &name).ok() != Some(before) {
                return Ok(false);
            }
            for folder in &folders {
                write(&Self::of_name(folder, &name), temporary, encoded.as_deref())?;
            }
            Ok(true)
        })
        .await
    }

    fn report(&self, stack: &StackName, change: &SealingChange) -> bool {
        (self.report)(&format!("stack {}: {change}", stack.short()))
    }
}

/// The names of stacks, from the files `PROJECT/STACK` below a folder. Files with other names are ignored.
fn list_names(folder: &Path) -> std::io::Result<Vec<StackName>> {
    let mut names = Vec::new();
    for project in children(folder)? {
        for stack in children(&folder.join(&project))? {
            names.extend(StackName::new(&project, &stack).ok());
        }
    }
    Ok(names)
}

fn children(folder: &Path) -> std::io::Result<Vec<String>> {
    let children = match std::fs::read_dir(folder) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        children => children?,
    };
    let names = children.map(|child| Ok(child?.file_name().into_string().ok()));
    let names: std::io::Result<Vec<Option<String>>> = names.collect();
    Ok(names?.into_iter().flatten().collect())
}

async fn read_in_background<T: Send + 'static>(
    read: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let result = tokio::task::spawn_blocking(read).await;
    result.map_err(|_| Error::invalid("known stacks", "the background reader failed"))?
}

/// The latest pin of a stack in any of the folders: this client may have pinned a later position under another spelling
/// of the store. The end of the journal never decreases, so the pin with the later end is the newer one. A pin that can't be read
/// may be the latest one.
fn latest_pin(folders: &[PathBuf], lineage: Lineage) -> Option<StackPin> {
    let mut latest: Option<StackPin> = None;
    for folder in folders {
        let path = FileKnownStacks::of_stack(folder, lineage);
        // A list would be read as a pin without content.
        let parse = |bytes: &[u8]| {
            let object: serde_json::Map<_, _> = serde_json::from_slice(bytes).ok()?;
            serde_json::from_value(object.into()).ok()
        };
        let pin: Option<StackPin> = match read_parsed(&path, parse) {
            Ok(pin) => pin,
            Err(reason) => {
                return Some(StackPin::unreadable(format!("{}: {reason}", path.display())));
            }
        };
        if position(&pin) > position(&latest) {
            latest = pin;
        }
    }
    latest
}

/// The stack that has a name in the first folder that contains the name. A damaged file is replaced by what the pins say.
fn named_in(folders: &[PathBuf], name: &StackName) -> Result<Option<Lineage>> {
    let parse = |bytes: &[u8]| std::str::from_utf8(bytes).ok()?.trim().parse().ok();
    for folder in folders {
        let path = FileKnownStacks::of_name(folder, name);
        let lineage = match read_parsed(&path, parse) {
            Ok(lineage) => lineage,
            Err(reason) => Some(pinned_under(folders, name).ok_or_else(|| unreadable(&path, &reason))?),
        };
        if lineage.is_some() {
            return Ok(lineage);
        }
    }
    Ok(None)
}

/// The only stack whose pin has this name; none if there are several, or a pin that can't be read.
fn pinned_under(folders: &[PathBuf], name: &StackName) -> Option<Lineage> {
    let mut found = None;
    for folder in folders {
        for file in children(&folder.join("stacks")).ok()? {
            let Some(lineage) = file.strip_suffix(".json").and_then(|stem| stem.parse().ok()) else {
                continue;
            };
            let pin = latest_pin(folders, lineage)?;
            if pin.unreadable.is_some() {
                return None;
            }
            let pinned = pin.sealing.and_then(|sealing| sealing.name);
            if pinned.is_none_or(|pinned| pinned.folded() != name.folded()) {
                continue;
            }
            if found.is_some_and(|found| found != lineage) {
                return None;
            }
            found = Some(lineage);
        }
    }
    found
}

/// How far a pin goes: first the parts that never decrease, then those by which pins of the same end differ.
fn position(pin: &Option<StackPin>) -> Option<impl PartialOrd + use<>> {
    pin.as_ref().map(|pin| {
        let outputs = pin.outputs.as_ref().map(|outputs| outputs.serial);
        let known = (pin.key.is_some(), pin.announced.len());
        (pin.next, pin.closed, pin.serial, outputs, known)
    })
}

/// The parsed content of a file; none if it doesn't exist. The error is the reason why it can't be read.
fn read_parsed<T>(
    path: &Path,
    parse: impl FnOnce(&[u8]) -> Option<T>,
) -> std::result::Result<Option<T>, String> {
    match read(path) {
        Ok(None) => Ok(None),
        Ok(Some(bytes)) => match parse(&bytes) {
            Some(value) => Ok(Some(value)),
            None => Err("the file is damaged".to_owned()),
        },
        Err(source) => Err(source.to_string()),
    }
}

/// Locks the folders against other processes of this client, until the result is dropped. All processes lock them in
/// the same order.
///
/// A folder that stays locked, or whose file system has no locks, counts as locked: the lock is held only for the write
/// of a small file, so its holder was suspended, and it must not stop every other process of this client.
fn lock_all(folders: &[PathBuf]) -> std::result::Result<Vec<File>, String> {
    let mut folders: Vec<_> = folders.iter().collect();
    folders.sort();
    let lock = |folder: &PathBuf| {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(folder.join(".lock"))?;
        for _ in 0..LOCK_ATTEMPTS {
            match file.try_lock() {
                Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
                Ok(()) | Err(TryLockError::Error(_)) => break,
            }
        }
        Ok(file)
    };
    let locked = folders
        .into_iter()
        .map(|folder| lock(folder).map_err(|error| unwritable(folder, &error)));
    locked.collect()
}

/// Replaces a file, or removes it if `bytes` is none.
fn write(path: &Path, temporary: &str, bytes: Option<&[u8]>) -> std::result::Result<(), String> {
    let written = match bytes {
        Some(bytes) => replace(path, temporary, bytes),
        None => std::fs::remove_file(path),
    };
    match written {
        Err(error) if bytes.is_some() || error.kind() != ErrorKind::NotFound => Err(unwritable(path, &error)),
        _ => Ok(()),
    }
}

fn unwritable(path: &Path, error: &std::io::Error) -> String {
    format!("can't remember the stack in {}: {error}", path.display())
}

fn read(path: &Path) -> std::io::Result<Option<Vec<u8>>> {
    let found = match std::fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        found => found?,
    };
    // Opening a pipe waits for its writer, and a device has no end.
    if !found.is_file() {
        return Err(std::io::Error::other("it isn't a file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > MAX_BYTES {
        true => Err(std::io::Error::other("it is too large")),
        false => Ok(Some(bytes)),
    }
}

/// Writes a new file and renames it, so that a reader never sees a half-written file, also after a power failure.
fn replace(path: &Path, temporary: &str, bytes: &[u8]) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let temporary = folder.join(temporary);
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&temporary)?;
    let written = file
        .write_all(bytes)
        // Without this, the renamed file may be empty after a power failure.
        .and_then(|()| file.sync_all())
        .and_then(|()| std::fs::rename(&temporary, path))
        .and_then(|()| File::open(folder)?.sync_all());
    if written.is_err() {
        let _ = std::fs::remove_file(&temporary).ok();
    }
    written
}

fn unreadable(path: &Path, reason: &str) -> Error {
    // Not an empty memory: otherwise damaging the file would disable the check.
    let reason = format!("the remembered name can't be read: {reason}; remove the file to forget the name");
    Error::invalid(path.display().to_string(), reason)
}

#[cfg(test)]
mod tests {
    use super::{FileKnownStacks, LOCK_ATTEMPTS, LOCK_PAUSE, StoreIdentity};
    use super::{latest_pin, replace};
    use crate::known_stacks::{OutputsPin, SealingPin};
    use crate::{KnownStacks, StackPin};
    use state_core::head::SealingPolicy;
    use state_core::testkit::clock::SeededEntropy;
    use state_core::{Epoch, KeyId, Lineage, Serial, Slot, StackName};
    use std::fs::File;
    use std::path::Path;
    use std::sync::Arc;

    #[tokio::test]
    async fn name_is_replaced_only_if_it_is_the_one_that_was_read() {
        let folder = tempfile::tempdir().unwrap();
        let store = StoreIdentity::of_folder(Path::new("/store"));
        let entropy = Arc::new(SeededEntropy::new(1));
        let known = FileKnownStacks::of_store(folder.path(), &store, entropy, |warning| panic!("{warning}"));
        let name = "shop".parse().unwrap();
        let [first, second] = [1, 2].map(|bits| Some(Lineage::from_bits([bits; 16])));
        assert!(known.replace_name(&name, None, first).await);
        assert!(!known.replace_name(&name, None, second).await);
        assert!(!known.replace_name(&name, second, None).await);
        assert_eq!(known.named(&name).await.unwrap(), first);
        assert!(known.replace_name(&name, first, second).await);
        assert!(known.replace_name(&name, second, None).await);
        assert_eq!(known.named(&name).await.unwrap(), None);
    }

    #[tokio::test]
    async fn damaged_name_is_read_from_the_only_pin_that_has_it() {
        let folder = tempfile::tempdir().unwrap();
        let store = StoreIdentity::of_folder(Path::new("/store"));
        let entropy = Arc::new(SeededEntropy::new(1));
        let known = FileKnownStacks::of_store(folder.path(), &store, entropy, |warning| panic!("{warning}"));
        let name: StackName = "shop".parse().unwrap();
        let [first, second, third] = [1, 2, 3].map(|bits| Lineage::from_bits([bits; 16]));
        let pin = |name: &str| StackPin {
            sealing: Some(SealingPin {
                policy: SealingPolicy::Plaintext,
                recipients: Vec::new(),
                outputs: Vec::new(),
                key: None,
                name: Some(name.parse().unwrap()),
                copied_from: None,
            }),
            ..StackPin::default()
        };
        assert!(known.replace(first, None, Some(&pin("shop"))).await);
        assert!(known.replace(second, None, Some(&pin("other"))).await);
        assert!(known.replace_name(&name, None, Some(first)).await);
        std::fs::write(FileKnownStacks::of_name(&known.folders[0], &name), "").unwrap();
        assert_eq!(known.named(&name).await.unwrap(), Some(first));
        // The damaged file can be replaced.
        assert!(known.replace_name(&name, Some(first), None).await);
        assert_eq!(known.named(&name).await.unwrap(), None);
        // Two stacks had the name, or one pin is damaged, too.
        std::fs::write(FileKnownStacks::of_name(&known.folders[0], &name), "").unwrap();
        assert!(known.replace(third, None, Some(&pin("shop"))).await);
        known.named(&name).await.unwrap_err();
        std::fs::write(FileKnownStacks::of_stack(&known.folders[0], third), "").unwrap();
        known.named(&name).await.unwrap_err();
    }

    #[tokio::test]
    async fn suspended_lock_holder_stops_no_other_process() {
        let folder = tempfile::tempdir().unwrap();
        let store = StoreIdentity::of_folder(Path::new("/store"));
        let entropy = Arc::new(SeededEntropy::new(1));
        let known = FileKnownStacks::of_store(folder.path(), &store, entropy, |warning| panic!("{warning}"));
        let lineage = Lineage::from_bits([1; 16]);
        let pin = |epoch| StackPin {
            epoch: Epoch(epoch),
            ..StackPin::default()
        };
        assert!(known.replace(lineage, None, Some(&pin(1))).await);
        assert!(
            !known.replace(lineage, None, Some(&pin(2))).await,
            "the pin changed"
        );
        let holder = File::open(known.folders[0].join(".lock")).unwrap();
        holder.lock().unwrap();
        let within = LOCK_PAUSE * LOCK_ATTEMPTS * 10;
        let (before, now) = (pin(1), pin(2));
        let replaced = known.replace(lineage, Some(&before), Some(&now));
        assert!(tokio::time::timeout(within, replaced).await.unwrap());
        assert_eq!(known.seen(lineage).await.unwrap(), Some(pin(2)));
    }

    /// A client can see one stack under two spellings of its store, at different times.
    #[test]
    fn latest_pin_is_chosen_at_the_same_end_of_the_journal() {
        let folder = tempfile::tempdir().unwrap();
        let lineage = Lineage::from_bits([1; 16]);
        let folders = ["link", "real"].map(|name| folder.path().join(name));
        let write_to = |folder: &Path, pin: &StackPin| {
            let path = FileKnownStacks::of_stack(folder, lineage);
            replace(&path, "new", &serde_json::to_vec(pin).unwrap()).unwrap();
        };
        let outputs = |serial| OutputsPin::new(KeyId::from_bytes([2; 16]).unwrap(), Serial(serial));
        let read_outputs = |serial| StackPin {
            outputs: Some(outputs(serial)),
            ..StackPin::default()
        };
        let closed = |slot| StackPin {
            closed: Some(Slot(slot)),
            ..StackPin::default()
        };
        for (earlier, later) in [(read_outputs(3), read_outputs(5)), (closed(1), closed(2))] {
            for [first, second] in [[&earlier, &later], [&later, &earlier]] {
                write_to(&folders[0], first);
                write_to(&folders[1], second);
                assert_eq!(latest_pin(&folders, lineage).as_ref(), Some(&later));
            }
        }
    }
}
