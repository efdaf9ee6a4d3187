//! Built-in providers for one machine: files, directories, commands and random values.
//!
//! [`registry`] registers them for their kinds; [`kinds`] describes the inputs and outputs of each kind. The providers
//! run on tokio, whose I/O driver must be enabled for commands.
//!
//! A create has an *unknown outcome* if no result of it was recorded, for example because the process crashed during
//! the create. Then the next run reads the object to learn whether the create made it. The providers guarantee:
//!
//! - **A file** is written beside its path, synced, and renamed. So its path never holds partial content: only nothing,
//!   the complete old content or the complete new content. A create never replaces an existing file. A crash before the
//!   rename leaves a temporary file whose name begins with `.statectl-`. The next change of the resource, or the next
//!   read outside of a preview, removes this temporary file. An updated file is a new inode, which belongs to the user
//!   of this process; hard links to the old inode have the old content. After a create with an unknown outcome, a file
//!   with exactly the desired content counts as created.
//! - **A directory** is removed only when it is empty.
//! - **A call that is dropped** (after its time limit or the second Ctrl-C) stops: work on files and directories makes
//!   no further visible change and removes its temporary files. Only the system call in progress at that moment can't
//!   be stopped.
//! - **A command** that failed may have changed something. The table of exit codes below says how a failure is treated.
//! - **A random value** exists only in the state. A create with an unknown outcome recorded no value, so it counts as
//!   not done. A resource whose value isn't recorded is replaced.
//!
//! The last component of a path is never followed if it is a symbolic link. Relative paths are resolved against the
//! `folder` argument of [`registry`], without reading the file system. The resulting absolute path is the id of a file
//! or directory. All misspelled names, wrong types and missing inputs of a resource are reported together, before a
//! provider creates or changes its object.
//!
//! ```
//! use state_engine::builtin::{kinds, registry};
//! use state_manager::{Actor, Environment};
//!
//! let registry = registry(&Environment::system(Actor::default()), "/srv/site".as_ref());
//! assert!(kinds().iter().all(|described| registry.contains(described.kind)));
//! ```
//!
//! # Kinds
//!
//! ## `command`
//! An object that commands create, read, update and delete.
//!
//! | property | type | default | |
//! |---|---|---|---|
//! | `create` | list of strings, or a string with `shell: true` | required | creates the object |
//! | `delete` | list of strings, or a string with `shell: true` | – | deletes the object; without it nothing runs |
//! | `dir` | string | – | directory in which the commands run; default: the working directory |
//! | `environment` | object of strings | – | environment variables for the commands |
//! | `read` | list of strings, or a string with `shell: true` | – | reads the object; without it the recorded outputs are used |
//! | `sensitive` | `true` or `false` | – | whether all outputs are secret |
//! | `sensitive_outputs` | list of strings | – | names of the secret outputs |
//! | `shell` | `true` or `false` | – | whether each command is one string for `sh -c` |
//! | `stdin` | string | – | standard input of `create` and `update` |
//! | `triggers` | anything | – | any value; a change replaces the object |
//! | `update` | list of strings, or a string with `shell: true` | – | updates the object; without it changes replace the object |
//! | → `stdout` | output | | printed text, unless it is a JSON object; the members of a JSON object are outputs |
//! | → `unfinished` | output | | the command that failed and must run again: `create` or `update` |
//!
//! ## `directory`
//! A directory with its permissions. It is deleted only when it is empty.
//!
//! | property | type | default | |
//! |---|---|---|---|
//! | `mode` | string of three or four octal digits | `"0755"` | permissions, independent of the umask |
//! | `path` | string | required | path; a change replaces the directory |
//! | → `mode` | output | | permissions as four octal digits |
//! | → `path` | output | | the absolute path, which is also the id |
//!
//! ## `file`
//! A file with its content and its permissions.
//!
//! | property | type | default | |
//! |---|---|---|---|
//! | `content` | string | – | content of the file; set either this or `source` |
//! | `mode` | string of three or four octal digits | `"0644"` | permissions, independent of the umask |
//! | `path` | string | required | path; a change replaces the file |
//! | `source` | string | – | path of a file to copy |
//! | → `digest` | output, secret | | BLAKE3 digest of the content; secret, because it reveals facts about the content |
//! | → `mode` | output | | permissions as four octal digits |
//! | → `path` | output | | the absolute path, which is also the id |
//! | → `size` | output | | size in bytes |
//!
//! ## `random:id`
//! Random bytes as text, for unique names.
//!
//! | property | type | default | |
//! |---|---|---|---|
//! | `bytes` | whole number from 1 to 1024 | `8` | number of bytes |
//! | `keepers` | anything | – | any value; a change generates a new value |
//! | `prefix` | string | – | prefix of each output |
//! | → `base64url` | output | | the bytes in URL-safe base64 without padding |
//! | → `hex` | output | | the bytes in hexadecimal digits |
//!
//! ## `random:password`
//! A random password.
//!
//! | property | type | default | |
//! |---|---|---|---|
//! | `digits` | `true` or `false` | `true` | whether to use digits |
//! | `keepers` | anything | – | any value; a change generates a new value |
//! | `length` | whole number from 8 to 1024 | `24` | number of characters |
//! | `lower` | `true` or `false` | `true` | whether to use lower-case letters |
//! | `min_digits` | whole number from 0 to 1024 | `0` | minimum number of digits |
//! | `min_lower` | whole number from 0 to 1024 | `0` | minimum number of lower-case letters |
//! | `min_special` | whole number from 0 to 1024 | `0` | minimum number of special characters |
//! | `min_upper` | whole number from 0 to 1024 | `0` | minimum number of upper-case letters |
//! | `special` | `true` or `false` | `true` | whether to use special characters |
//! | `special_characters` | string | `"!@#$%&*()-_=+[]{}<>:?"` | the allowed special characters |
//! | `upper` | `true` or `false` | `true` | whether to use upper-case letters |
//! | → `result` | output, secret | | the generated password |
//!
//! # Approval of a command
//! A state is untrusted input: a recorded command runs only if the program of the run declares it for the resource, or
//! if the user approved it (see [`CommandApprovals`](crate::CommandApprovals)). The approval covers the call, the
//! arguments, the directory, `environment` and, for `create` and `update`, `stdin`. The approval doesn't cover
//! the variables with data of the state (`STATE_ID`, `STATE_INPUTS`, `STATE_OUTPUTS`). Anyone who can change the state
//! can change their values, so a command must not evaluate these values as code. A command that contains an output of
//! another resource is declared only for a create or update of an applied plan.
//!
//! # Approval of a file
//! A recorded `file` or `directory` is read and deleted under the same condition. Otherwise a manipulated state could
//! name any file of the user, and a run would copy the content of this file into the store, or delete the file. The
//! approval covers the recorded id, which is the absolute path. After a create with an unknown outcome there is no id:
//! then the search for the file needs an approval of the recorded `path`, and of the recorded `source`.
//!
//! # Environment of a command
//! A command runs in its own process group, so that the terminal's Ctrl-C doesn't reach it. It inherits the variables
//! of this process, except those whose names begin with `STATECTL_` or `STATE_`. Added to them are the variables of the
//! input `environment`, and these:
//!
//! | variable | value | set for |
//! |---|---|---|
//! | `STATE_OP` | `create`, `read`, `update` or `delete` | all commands |
//! | `STATE_INPUTS` | the inputs as JSON | all commands |
//! | `STATE_ID` | the object's id | `update`, `delete`, `read` of a recorded object |
//! | `STATE_OUTPUTS` | the recorded outputs as JSON | as `STATE_ID` |
//! | `STATE_MUTATION` | the id of this create | `create`, and `read` after a create with an unknown outcome |
//!
//! A JSON variable of more than 100,000 bytes is left out, because operating systems refuse to start a program with
//! larger variables. If the operating system refuses to start the command because `environment` is too large, the call
//! fails and nothing was done. The variables contain secrets in plain text; the arguments contain secrets only if the
//! program puts secrets into them.
//!
//! # Output of a command
//! A JSON object on standard output becomes the outputs; other text becomes the output `stdout`, without trailing
//! newlines. The object's id is the member `id` of the JSON object if this member is a string or a number. Without such
//! a member, the id of a new object is the [`MutationId`](state_core::MutationId) of its create, and an existing object
//! keeps its id. An id must not be empty, longer than 1,024 bytes or contain control characters. If a create or update
//! prints an invalid id or more than 1 MiB, its object is recorded as unfinished: after an update under its previous
//! id, after a create under the id of the mutation.
//!
//! An `update` or `read` that prints nothing leaves the outputs unchanged. Previews run `read` too, so it must change
//! nothing.
//!
//! Lines on standard error go to the log, at most 64 KiB. In these lines, `***` replaces the values of `environment`
//! and `stdin`, secret outputs, and values that the program marks as secret. A marked string may contain more than the
//! actual secret: it may be a whole command that contains a token. Therefore `***` replaces every part of six bytes or
//! more that a line or a failure reason has in common with a marked string, so a token of six bytes or more isn't
//! revealed.
//!
//! | exit code | `create`, `update` | `read` | `delete` |
//! |---|---|---|---|
//! | 0 | done | the object exists | done |
//! | 66 | failed | the object doesn't exist | the object didn't exist: done |
//! | 75 | nothing was done | failed; after a create with an unknown outcome: still unknown | nothing was done |
//! | other, or a signal | failed, and may have changed something | failed | failed, and may have changed something |
//!
//! - **A failed create** is followed by `read`. If the object doesn't exist, nothing was created. If the object exists,
//!   it is recorded, and the next update runs `update` for it. Without `read` or without `update` the object is
//!   recorded as unfinished: the next update runs its `delete`, and then `create` again. So `delete` must accept an
//!   object that never existed.
//! - **A failed update** is recorded as failed, and the next update runs it again.
//! - **A failed delete** is followed by `read`; without a `read` command the object counts as still existing.
//! - If the process or the machine crashed during a create, its outcome is unknown: the next run executes `read`, and keeps
//!   the object that `read` finds; with an `update` command it also runs `update`. Without a `read` command the user must decide.
//! - **A command that prints the same id each time** can't create a second object beside the first, so a replacement
//!   fails and its `create` stays pending. Check the real object; then declare the operation as not done (`statectl
//!   pending resolve OPERATION --not-done`; with a `read` command the next run does this itself), and give the resource
//!   the option `delete_before_replace: true`, which runs `delete` first.
//! - Background processes of a command keep running, and their later output is lost. When a call is dropped (the second
//!   Ctrl-C, its time limit) the whole process group is killed. If *this* process is killed, the command keeps running. While it
//!   runs, or a background process of it, the next run on this machine leaves the operation pending; `statectl pending resolve`
//!   settles it anyway. Other machines can't see the command.

mod blocking;
mod command;
mod desired;
mod directory;
mod file;
mod members;
mod place;
mod random;
mod staged;

#[cfg(test)]
mod tests;

use crate::kind::KindDescription;
use crate::registry::Registry;
use command::{CommandLocks, Commands};
use directory::Directories;
use file::Files;
use random::{Randoms, Value};
use state_manager::Environment;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Returns a registry of all built-in providers. They resolve relative paths against `folder`. Commands hold no locks, so
/// after a crash of this process the next run doesn't know whether a command still runs: its operation stays pending if the object is as
/// before. See [`registry_with_locks`].
pub fn registry(environment: &Environment, folder: &Path) -> Registry {
    registered(environment, folder, None)
}

/// Like [`registry`]. A command that changes an object holds a lock in the folder `locks` until it ends, so that after a
/// crash of this process the next run knows whether the command still runs. All runs of a user on one machine must use the
/// same folder.
pub fn registry_with_locks(environment: &Environment, folder: &Path, locks: &Path) -> Registry {
    registered(environment, folder, Some(locks.to_owned()))
}

fn registered(environment: &Environment, folder: &Path, locks: Option<PathBuf>) -> Registry {
    let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let entropy = || Arc::clone(&environment.entropy);
    let random = |value| Randoms {
        value,
        entropy: entropy(),
    };
    let files = Files {
        folder: folder.clone(),
        entropy: entropy(),
    };
    let mut registry = Registry::new();
    registry.register(file::KIND.kind, Arc::new(files));
    registry.register(random::ID.kind, Arc::new(random(Value::Id)));
    registry.register(random::PASSWORD.kind, Arc::new(random(Value::Password)));
    let directories = folder.clone();
    registry.register(
        directory::KIND.kind,
        Arc::new(Directories { folder: directories }),
    );
    let locks = CommandLocks { folder: locks };
    registry.register(command::KIND.kind, Arc::new(Commands { folder, locks }));
    registry
}

/// Descriptions of all built-in kinds, sorted by name.
pub fn kinds() -> &'static [KindDescription] {
    const KINDS: [KindDescription; 5] = [
        command::KIND,
        directory::KIND,
        file::KIND,
        random::ID,
        random::PASSWORD,
    ];
    &KINDS
}
