//! Providers that do real work on one machine: files, folders, commands, random values.
//!
//! [`registry`] puts them in charge of their kinds; [`kinds`] says what each takes and gives. They run on tokio, whose I/O
//! must be enabled for commands. They are honest about what was done:
//!
//! - **A file** is written beside its place, synced, and renamed: at its path is nothing, the old content or the new one. A
//!   create never takes the place of something; what dies before the rename leaves a file that begins with `.statectl-`,
//!   which goes at the next look or change. A changed file is a new one: it belongs to who changed it, and other names of the
//!   old one keep the old content. After a create that nobody saw end, a file with just this content is the one.
//! - **A folder** is removed only when it is empty.
//! - **A call that is left** (its timeout, the second Ctrl-C) stops: work on files and folders does nothing more that shows
//!   and takes back what was on its way. What can't be stopped is the one system call that was under way just then.
//! - **A command** may have done something when it failed: what is made of that stands in the documentation of its exit
//!   codes, below.
//! - **A random value** is in the state and nowhere else. A create that nobody saw end left nothing; one whose value isn't
//!   on record is made anew.
//!
//! The last part of a path is never followed if it is a symbolic link. Relative paths are taken from the working
//! directory, `.` and `..` are resolved by their letters, and the absolute path is the id. Names that are misspelled, wrong
//! types and what is missing are told all at once, before anything is done.
//!
//!
//! ```
//! use state_engine::builtin::{kinds, registry};
//! use state_manager::{Actor, Environment};
//!
//! let registry = registry(&Environment::system(Actor::default()), "/srv/site".as_ref());
//! assert!(kinds().iter().all(|described| registry.knows(described.kind)));
//! ```
//!
//! # Kinds
//!
//! ## `command`
//! Whatever commands make, look at, change and delete.
//!
//! | property | takes | unless given | |
//! |---|---|---|---|
//! | `create` | list of strings, or a string with `shell: true` | must be given | makes it |
//! | `delete` | list of strings, or a string with `shell: true` | – | deletes it; without one nothing runs |
//! | `dir` | string | – | where the commands run; as a rule the working directory |
//! | `environment` | object of strings | – | variables for the commands |
//! | `read` | list of strings, or a string with `shell: true` | – | looks at it; without one it is as it is recorded |
//! | `sensitive` | `true` or `false` | – | all outputs are secret |
//! | `sensitive_outputs` | list of strings | – | the outputs that are secret |
//! | `shell` | `true` or `false` | – | each command is one string for `sh -c` |
//! | `stdin` | string | – | what `create` and `update` read |
//! | `triggers` | anything | – | a change of it makes the object anew |
//! | `update` | list of strings, or a string with `shell: true` | – | changes it; without one it is made anew |
//! | → `stdout` | output | | what it printed, if that isn't a JSON object; the members of an object are outputs |
//! | → `unfinished` | output | | what failed and has to be done again: `create` or `update` |
//!
//! ## `directory`
//! A folder with its rights. It is deleted only when nothing is in it.
//!
//! | property | takes | unless given | |
//! |---|---|---|---|
//! | `mode` | string of three or four octal digits | `"0755"` | its rights, whatever the umask |
//! | `path` | string | must be given | where it is; another path is another folder |
//! | → `mode` | output | | its rights, four octal digits |
//! | → `path` | output | | the absolute path; its id as well |
//!
//! ## `file`
//! A file with its content and its rights.
//!
//! | property | takes | unless given | |
//! |---|---|---|---|
//! | `content` | string | – | what is in it; either this or `source` |
//! | `mode` | string of three or four octal digits | `"0644"` | its rights, whatever the umask |
//! | `path` | string | must be given | where it is; another path is another file |
//! | `source` | string | – | the path of a file to copy |
//! | → `digest` | output, secret | | BLAKE3 of its content; secret, because it says something of the content |
//! | → `mode` | output | | its rights, four octal digits |
//! | → `path` | output | | the absolute path; its id as well |
//! | → `size` | output | | its length in bytes |
//!
//! ## `random:id`
//! Random bytes as text, for names that nobody else has.
//!
//! | property | takes | unless given | |
//! |---|---|---|---|
//! | `bytes` | whole number from 1 to 1024 | `8` | so many bytes |
//! | `keepers` | anything | – | a change of it makes a new value |
//! | `prefix` | string | – | stands before each output |
//! | → `base64url` | output | | the bytes in letters, digits, `-` and `_` |
//! | → `hex` | output | | the bytes in hexadecimal digits |
//!
//! ## `random:password`
//! A password.
//!
//! | property | takes | unless given | |
//! |---|---|---|---|
//! | `digits` | `true` or `false` | `true` | with digits |
//! | `keepers` | anything | – | a change of it makes a new value |
//! | `length` | whole number from 8 to 1024 | `24` | so many characters |
//! | `lower` | `true` or `false` | `true` | with lower-case letters |
//! | `min_digits` | whole number from 0 to 1024 | `0` | at least so many digits |
//! | `min_lower` | whole number from 0 to 1024 | `0` | at least so many lower-case letters |
//! | `min_special` | whole number from 0 to 1024 | `0` | at least so many special characters |
//! | `min_upper` | whole number from 0 to 1024 | `0` | at least so many upper-case letters |
//! | `special` | `true` or `false` | `true` | with special characters |
//! | `special_characters` | string | `"!@#$%&*()-_=+[]{}<>:?"` | the special characters |
//! | `upper` | `true` or `false` | `true` | with upper-case letters |
//! | → `result` | output, secret | | the password |
//!
//! # What a command is given
//! Its own process group, so that the terminal's Ctrl-C doesn't reach it; the environment of this process without the
//! variables whose names begin with `STATECTL_` or `STATE_`; the input `environment`; and
//!
//! | variable | what it holds | where |
//! |---|---|---|
//! | `STATE_OP` | `create`, `read`, `update` or `delete` | everywhere |
//! | `STATE_INPUTS` | the inputs as JSON | everywhere |
//! | `STATE_ID` | the object's id | `update`, `delete`, `read` of what is on record |
//! | `STATE_OUTPUTS` | the recorded outputs as JSON | as `STATE_ID` |
//! | `STATE_MUTATION` | names this create | `create`, and `read` after a create that nobody saw end |
//!
//! JSON of more than 100,000 bytes is left out: systems refuse to start a program with more. Where they refuse what
//! `environment` holds, nothing was done. Secrets are in there, open; among the arguments only where the program puts them.
//!
//! # What a command says
//! A JSON object on its standard output is its outputs; other text is the output `stdout`, without the newlines at its
//! end. The id is `id` of the JSON object if that is a string or a number, else the
//! [`MutationId`](state_core::MutationId) of the create. An id is neither empty nor longer than 1,024 bytes, and has no
//! control characters: a create or update that prints another one, or more than a mebibyte, is recorded under the id that
//! it has without that, as unfinished.
//!
//! An `update` or `read` that prints nothing leaves the outputs as they are; a `read` is run by previews too, so it must
//! change nothing.
//! Lines of its standard error go to the log: at most 64 KiB of them, without the values of `environment` and `stdin`,
//! secret outputs, and what the program marks as secret. Of a marked string that has a secret somewhere in it (a command
//! with a token) nobody says where, so whatever six bytes or more a line, or a reason why something failed, has in common
//! with it is `***`: a token of that length isn't told. Lines of commands with nothing marked are told as they are.
//!
//! | exit code | `create`, `update` | `read` | `delete` |
//! |---|---|---|---|
//! | 0 | done | it is there | done |
//! | 66 | failed | it isn't there | it wasn't there: done |
//! | 75 | nothing was done | it can't tell | nothing was done |
//! | other, or a signal | failed, and may have done something | failed | failed, and may have done something |
//!
//! - **A create that failed** is looked at with `read`: what isn't there wasn't done; what is there is recorded, and the
//!   next update mends it with `update`. Without `read` or without `update` it is recorded as unfinished: the next update
//!   runs `delete` for it, and `create` again. So a `delete` has to be fine with what was never there.
//! - **An update that failed** is recorded as such, and is run again by the next update.
//! - **A delete that failed** is looked at with `read`; without one it counts as still there.
//! - Nobody knows how a create ended whose process or machine died: then `read` is asked, and without one a person.
//! - **A command that prints the same id each time** can't have its successor beside it, so making it anew fails, with the
//!   new `create` pending. Look at the world; then say that it was not done (`statectl pending resolve OPERATION
//!   --not-done`; with a `read` the next update finds that out itself), and give the resource the option
//!   `delete_before_replace: true`: then `delete` is run first.
//! - Processes that a command leaves running stay, and what they print afterwards is lost. When a call is left (the
//!   second Ctrl-C, its timeout) the whole process group is killed. What kills *this* process lets a command run on.

mod blocking;
mod command;
mod directory;
mod file;
mod members;
mod place;
mod random;
mod staged;
mod wanted;

#[cfg(test)]
mod tests;

use crate::kind::KindDescription;
use crate::registry::Registry;
use command::Commands;
use directory::Directories;
use file::Files;
use random::{Randoms, Value};
use state_manager::Environment;
use std::path::Path;
use std::sync::Arc;

/// All built-in providers, each in charge of its kind. Relative paths are taken from `folder`.
pub fn registry(environment: &Environment, folder: &Path) -> Registry {
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
    registry.register(command::KIND.kind, Arc::new(Commands { folder }));
    registry
}

/// What the built-in providers make, sorted by kind.
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
