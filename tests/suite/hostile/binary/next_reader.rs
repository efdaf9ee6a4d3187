//! The client that reads the store after a run of the program.

use super::answers::{Shown, look};
use super::scenario::{Run, Scenario};
use super::server::wait;
use crate::store::environment;
use state_backend_object_store::object_store::ObjectStore;
use state_backend_object_store::object_store::path::Path;
use state_backend_object_store::{ObjectBackend, Options};
use state_core::Result;
use state_core::backend::Opening;
use state_core::sealing::KeyProvider;
use state_manager::{FileKnownStacks, Stacks, StoreIdentity};
use std::sync::Arc;
use std::time::Duration;

/// Reads a store in this process, with the memory of the client after a run, or without memory.
pub(super) fn next_reader(
    scenario: &Scenario,
    store: Arc<dyn ObjectStore>,
    memory: Option<&Run>,
) -> Result<Option<Shown>> {
    let mut options = Options::new("s3://states", Path::default());
    options.proof = None;
    options.retry_timeout = Duration::from_millis(20);
    let backend = Arc::new(ObjectBackend::new(store, options, Opening::Existing));
    let keys: Arc<dyn KeyProvider> = Arc::<state_encrypt::AgeKeys>::clone(&scenario.keys);
    let mut stacks = Stacks::new(backend, environment()).with_keys(keys);
    if let Some(run) = memory {
        // A copy, because the reader remembers what it reads.
        let url = scenario.server.url();
        let endpoint = url
            .split_once("endpoint=")
            .map(|(_, endpoint)| endpoint.to_owned());
        let field = |field: &str| endpoint.clone().filter(|_| field == "endpoint");
        let store = StoreIdentity::of(&url, field, |_| None);
        let root = run.folder.path().join("memory/statectl/seen");
        let known = FileKnownStacks::of_store(&root, &store, environment().entropy, |_| {});
        stacks = stacks.with_known_stacks(Arc::new(known));
    }
    wait(look(&stacks))
}
