//! The ownership rule for stores, settings and programs that a command finds by itself, as git's `safe.directory`: they
//! must belong to the user, and only the user may write them.
//!
//! A folder above the working folder may belong to anyone, and its `.state` or `statectl.toml` would decide which state a
//! command reads and where it sends requests; a `state.yaml` in the working folder decides what runs. `statectl trust path
//! PATH` accepts such a path once. A store or a program that the user names (on the command line, in the environment, in
//! the user's own settings) isn't checked.
//!
//! A group of which the user is the only member doesn't count as another user: with the umask 002, which many systems
//! set for such groups, `git clone` makes files that the group can write.
//!
//! Only Unix has these modes; access control lists aren't read.

use crate::error::CliError;
use crate::exit::ExitCode;
use crate::settings::quoted;
use crate::trusted::TrustedPaths;
use std::fs::{File, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The bits of a mode that let the group or everyone write.
const SHARED_WRITE: u32 = 0o022;

/// The users whose files are trusted.
#[derive(Clone, Copy, Debug)]
struct Owners {
    user: u32,
    /// With sudo: the user who called it.
    caller: Option<u32>,
    /// The user's own group, if no one else is in it.
    private_group: Option<u32>,
}

impl Owners {
    fn of_process() -> Self {
        let user = rustix::process::geteuid().as_raw();
        let caller = std::env::var("SUDO_UID").ok();
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        Self {
            private_group: private_group(user, &read("/etc/passwd"), &read("/etc/group")),
            ..Self::new(user, caller.as_deref())
        }
    }

    /// Only root may act for another user: for others, `SUDO_UID` is a variable that anyone can set.
    fn new(user: u32, caller: Option<&str>) -> Self {
        let caller = caller.filter(|_| user == 0);
        Self {
            user,
            caller: caller.and_then(|caller| caller.parse().ok()),
            private_group: None,
        }
    }

    /// The reason why a file with this owner, group and mode isn't trusted.
    fn objection(self, owner: u32, group: u32, mode: u32, is_link: bool) -> Option<String> {
        if owner != self.user && Some(owner) != self.caller {
            return Some(format!(
                "it belongs to the user with the id {owner}, and you are {}",
                self.user
            ));
        }
        // The mode of a symbolic link has no meaning.
        let who = match mode & SHARED_WRITE {
            0 => return None,
            _ if is_link => return None,
            shared if shared & 0o002 != 0 => "everyone",
            _ if Some(group) == self.private_group => return None,
            _ => "its group",
        };
        Some(format!("{who} can write it (mode {:04o})", mode & 0o7777))
    }

    /// The reason why a file isn't trusted. A symbolic link decides where the rest is read, so both its owner and the
    /// owner of its target count.
    fn objection_to(self, link: &Metadata, target: &Metadata) -> Option<String> {
        let of =
            |found: &Metadata| self.objection(found.uid(), found.gid(), found.mode(), found.is_symlink());
        of(link).or_else(|| of(target))
    }
}

/// The primary group of a user, if it has the user's name and no other user is in it. Reads the texts of `/etc/passwd` and
/// `/etc/group`; users and groups of other sources aren't known, so their groups count as shared.
fn private_group(user: u32, passwd: &str, groups: &str) -> Option<u32> {
    let users = || {
        passwd.lines().filter_map(|line| {
            let mut fields = line.split(':');
            let name = fields.next()?;
            let mut ids = fields.skip(1).map_while(|id| id.parse::<u32>().ok());
            Some((name, ids.next()?, ids.next()?))
        })
    };
    let (name, _, primary) = users().find(|(_, id, _)| *id == user)?;
    let is_shared = users().any(|(_, other, group)| group == primary && other != user);
    let mut named = groups.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        match fields.as_slice() {
            [group, _, id, members] if id.parse() == Ok(primary) => Some((*group, *members)),
            _ => None,
        }
    });
    let (group, members) = named.next()?;
    let is_only = members
        .split(',')
        .all(|member| member.is_empty() || member == name);
    (group == name && is_only && !is_shared && named.next().is_none()).then_some(primary)
}

/// Refuses a store that was found unless it belongs to the user alone or was accepted. `parts` are the files and folders
/// that are checked; missing ones are left out.
///
/// # Errors
/// [`ExitCode::Unapproved`] with the command that accepts the store.
pub(crate) fn require_own_store(store: &Path, parts: &[PathBuf]) -> Result<(), CliError> {
    let owners = Owners::of_process();
    for part in parts {
        let metadata = std::fs::symlink_metadata(part).and_then(|link| match link.is_symlink() {
            true => Ok((std::fs::metadata(part)?, link)),
            false => Ok((link.clone(), link)),
        });
        match metadata {
            // Another process may delete a temporary file after the folder was listed.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(unreadable(part, &error)),
            Ok((target, link)) => {
                if let Some(objection) = owners.objection_to(&link, &target) {
                    return refuse_unless_trusted("store", store, part, &objection);
                }
            }
        }
    }
    Ok(())
}

/// Refuses a settings file or a program that was found, under the same rule. The owner is that of the opened `file`, so no
/// other user can exchange it after the check.
///
/// # Errors
/// Like [`require_own_store`].
pub(crate) fn require_own_file(what: &str, path: &Path, file: &File) -> Result<(), CliError> {
    let target = file.metadata().map_err(|error| unreadable(path, &error))?;
    let link = std::fs::symlink_metadata(path).map_err(|error| unreadable(path, &error))?;
    match Owners::of_process().objection_to(&link, &target) {
        Some(objection) => refuse_unless_trusted(what, path, path, &objection),
        None => Ok(()),
    }
}

/// Refuses a found path because of one of its parts, unless the user has accepted the path.
fn refuse_unless_trusted(what: &str, path: &Path, part: &Path, objection: &str) -> Result<(), CliError> {
    if TrustedPaths::of_user().is_some_and(|trusted| trusted.contains(path)) {
        return Ok(());
    }
    let place = match part == path {
        true => String::new(),
        false => format!("{}: ", part.display()),
    };
    let object = format!("{what} {}", path.display());
    let message = format!("not trusted: {place}{objection}");
    Err(
        CliError::new(ExitCode::Unapproved, object, &message).with_hint(format!(
            "if you trust its content, run `statectl trust path {}`",
            quoted(&path.display().to_string())
        )),
    )
}

fn unreadable(path: &Path, error: &std::io::Error) -> CliError {
    CliError::io(path.display().to_string(), error)
}

#[cfg(test)]
mod tests {
    use super::{Owners, private_group};

    #[test]
    fn foreign_owner_and_shared_writing_are_refused() {
        let me = Owners::new(1000, None);
        assert_eq!(me.objection(1000, 100, 0o100_644, false), None);
        assert_eq!(me.objection(1000, 100, 0o40_700, false), None);
        assert_eq!(me.objection(1000, 100, 0o120_777, true), None);
        for (owner, mode, is_link, part) in [
            (0, 0o100_600, false, "id 0"),
            (1001, 0o40_700, false, "id 1001"),
            (1001, 0o120_777, true, "id 1001"),
            (1000, 0o100_664, false, "its group"),
            (1000, 0o40_777, false, "everyone"),
            (1000, 0o41_777, false, "everyone"),
        ] {
            let objection = me.objection(owner, 100, mode, is_link).unwrap();
            assert!(objection.contains(part), "{objection}");
        }
    }

    #[test]
    fn private_group_of_the_user_may_write() {
        let me = Owners {
            private_group: Some(1000),
            ..Owners::new(1000, None)
        };
        assert_eq!(me.objection(1000, 1000, 0o100_664, false), None);
        assert!(me.objection(1000, 1000, 0o100_666, false).is_some());
        assert!(me.objection(1000, 100, 0o100_664, false).is_some());
        assert!(me.objection(1001, 1000, 0o100_664, false).is_some());
    }

    #[test]
    fn group_with_other_members_is_not_private() {
        let users = "root:x:0:0::/root:/bin/sh\nanna:x:1000:1000::/:/bin/sh\n";
        assert_eq!(
            private_group(1000, users, "root:x:0:\nanna:x:1000:\n"),
            Some(1000)
        );
        assert_eq!(private_group(1000, users, "anna:x:1000:anna\n"), Some(1000));
        let with_bob = format!("{users}bob:x:1001:1000::/:/bin/sh\n");
        for (users, groups) in [
            (users, "anna:x:1000:bob\n"),
            (users, "staff:x:1000:\n"),
            (users, "anna:x:1000:\nbob:x:1000:\n"),
            (users, "bob:x:1001:\n"),
            (users, ""),
            ("", "anna:x:1000:\n"),
            (with_bob.as_str(), "anna:x:1000:\n"),
        ] {
            assert_eq!(private_group(1000, users, groups), None, "{groups}");
        }
    }

    #[test]
    fn sudo_caller_is_an_owner_for_root_only() {
        let root = Owners::new(0, Some("1000"));
        assert_eq!(root.objection(1000, 100, 0o600, false), None);
        assert_eq!(root.objection(0, 100, 0o600, false), None);
        assert!(root.objection(1001, 100, 0o600, false).is_some());
        assert!(
            Owners::new(1001, Some("1000"))
                .objection(1000, 100, 0o600, false)
                .is_some()
        );
        assert!(
            Owners::new(0, Some("x"))
                .objection(1000, 100, 0o600, false)
                .is_some()
        );
    }
}
