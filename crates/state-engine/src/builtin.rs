//! Providers that do real work on one machine: files, folders, commands, random values.

mod command;
mod directory;
mod file;
mod members;
mod mode;
mod place;
mod random;
mod schema;
mod staged;

#[cfg(test)]
mod tests;

pub use schema::{InputProperty, InputType, KindDescription, OutputProperty};

use crate::provider::{Failure, Provider};
use crate::registry::Registry;
use command::Commands;
use directory::Directories;
use file::Files;
use random::{Randoms, Value};
use state_manager::Environment;
use std::path::Path;
use std::sync::Arc;

/// All built-in providers, each in charge of its kind. Relative paths are taken from `folder`, which is absolute.
pub fn registry(environment: &Environment, folder: &Path) -> Registry {
    let entropy = || Arc::clone(&environment.entropy);
    let folder = || folder.to_owned();
    let random = |value| Randoms {
        value,
        entropy: entropy(),
    };
    let providers: [(&KindDescription, Arc<dyn Provider>); 5] = [
        (&command::KIND, Arc::new(Commands { folder: folder() })),
        (&directory::KIND, Arc::new(Directories { folder: folder() })),
        (
            &file::KIND,
            Arc::new(Files {
                folder: folder(),
                entropy: entropy(),
            }),
        ),
        (&random::ID, Arc::new(random(Value::Id))),
        (&random::PASSWORD, Arc::new(random(Value::Password))),
    ];
    let mut registry = Registry::new();
    for (kind, provider) in providers {
        registry.register(kind.kind, provider);
    }
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

/// Work on files, on a thread that may block. It goes on to its end when nobody waits for it any more.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(_) => Err(Failure::unknown("its work ended early")),
    }
}
