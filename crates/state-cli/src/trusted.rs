//! What the user approved on this client: commands of a state, and paths of other owners.
//!
//! ```text
//! $XDG_STATE_HOME/statectl/trusted/commands/STORE/LINEAGE/DIGEST    an approved command of a stack
//! $XDG_STATE_HOME/statectl/trusted/paths/DIGEST                     an accepted path, which is the content
//! ```
//!
//! Each approval is one private file whose name says everything, so that an approval is atomic and two processes don't
//! overwrite each other's. An approval of a command is bound to the store and the lineage: the same command in another
//! stack's state is asked for again. The lineage alone doesn't suffice, because any reader of a store can make another
//! store with a stack of the same lineage.

use crate::error::CliError;
use state_core::{Digest, Lineage};
use state_manager::StoreIdentity;
use std::collections::BTreeSet;
use std::fs::{DirBuilder, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The folder of approvals, relative to the user's state folder.
const FOLDER: &str = "statectl/trusted";

/// The user's state folder, by the XDG Base Directory Specification.
pub(crate) fn state_folder() -> Option<PathBuf> {
    let of = |name| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    of("XDG_STATE_HOME").or_else(|| Some(of("HOME")?.join(".local/state")))
}

/// The approved commands of one stack.
#[derive(Debug)]
pub(crate) struct TrustedCommands(PathBuf);

impl TrustedCommands {
    /// The approvals for a stack of a store; none without a home folder.
    pub(crate) fn of_stack(store: &StoreIdentity, lineage: Lineage) -> Option<Self> {
        let folder = state_folder()?.join(FOLDER).join("commands");
        let of_store = folder.join(store.digest().to_string());
        Some(Self(of_store.join(lineage.to_string())))
    }

    /// Digests of the approved commands.
    ///
    /// # Errors
    /// If the folder can't be read.
    pub(crate) fn digests(&self) -> Result<BTreeSet<Digest>, CliError> {
        let failed = |source: std::io::Error| CliError::io(self.0.display().to_string(), &source);
        let entries = match std::fs::read_dir(&self.0) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(BTreeSet::new()),
            entries => entries.map_err(failed)?,
        };
        let mut digests = BTreeSet::new();
        for entry in entries {
            let name = entry.map_err(failed)?.file_name();
            digests.extend(name.to_str().and_then(|name| name.parse::<Digest>().ok()));
        }
        Ok(digests)
    }

    /// Remembers the approval of the command with this digest.
    ///
    /// # Errors
    /// If a file can't be written.
    pub(crate) fn approve(&self, digest: Digest) -> Result<(), CliError> {
        write(&self.0, digest, b"")
    }
}

/// The accepted paths of the user.
#[derive(Debug)]
pub(crate) struct TrustedPaths(PathBuf);

impl TrustedPaths {
    /// The paths that the user accepted; none without a home folder.
    pub(crate) fn of_user() -> Option<Self> {
        Some(Self(state_folder()?.join(FOLDER).join("paths")))
    }

    /// Whether a path was accepted.
    pub(crate) fn contains(&self, path: &Path) -> bool {
        identity(path).is_ok_and(|(digest, _)| self.0.join(digest.to_string()).is_file())
    }

    /// Accepts a path, as it was found.
    ///
    /// # Errors
    /// If the file that remembers it can't be written.
    pub(crate) fn accept(&self, path: &FoundPath) -> Result<(), CliError> {
        write(&self.0, path.digest, path.absolute.as_os_str().as_bytes())
    }
}

/// A path and the place to which it leads, at one time.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FoundPath {
    digest: Digest,
    pub(crate) absolute: PathBuf,
}

impl FoundPath {
    /// Follows the links of a path.
    ///
    /// # Errors
    /// If the path doesn't exist.
    pub(crate) fn of(path: &Path) -> Result<Self, CliError> {
        let found = identity(path).map_err(|source| CliError::io(path.display().to_string(), &source));
        let (digest, absolute) = found?;
        Ok(Self { digest, absolute })
    }
}

/// The digest of a path, over the path itself and the place that it leads to: another owner who exchanges a symbolic link
/// of an accepted path makes another path of it.
fn identity(path: &Path) -> std::io::Result<(Digest, PathBuf)> {
    let absolute = match (path.parent(), path.file_name()) {
        (Some(folder), Some(name)) if !folder.as_os_str().is_empty() => folder.canonicalize()?.join(name),
        (_, Some(name)) => Path::new(".").canonicalize()?.join(name),
        _ => path.canonicalize()?,
    };
    let target = path.canonicalize()?;
    let parts = [
        absolute.as_os_str().as_bytes(),
        b"\0",
        target.as_os_str().as_bytes(),
    ];
    Ok((Digest::of_parts(&parts), absolute))
}

fn write(folder: &Path, digest: Digest, content: &[u8]) -> Result<(), CliError> {
    let path = folder.join(digest.to_string());
    let create = || {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)?;
        file.write_all(content)
    };
    match create() {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            Err(CliError::io(path.display().to_string(), &error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::{FoundPath, TrustedPaths};
    use std::os::unix::fs::symlink;

    /// Another owner may exchange a link between the question and its answer.
    #[test]
    fn acceptance_holds_only_for_the_place_that_was_shown() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".state");
        let lead_to = |place: &str| {
            let place = folder.path().join(place);
            std::fs::create_dir_all(&place).unwrap();
            drop(std::fs::remove_file(&path));
            symlink(place, &path).unwrap();
        };
        let trusted = TrustedPaths(folder.path().join("paths"));
        lead_to("shown");
        let shown = FoundPath::of(&path).unwrap();
        lead_to("other");
        assert_ne!(FoundPath::of(&path).unwrap(), shown);
        trusted.accept(&shown).unwrap();
        assert!(!trusted.contains(&path));
        lead_to("shown");
        assert!(trusted.contains(&path));
    }
}
