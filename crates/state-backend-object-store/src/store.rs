//! The store: [`ObjectBackend`].

use crate::options::Options;
use object_store::ObjectStore;
use std::fmt;
use std::sync::Arc;

/// A store of stacks on an object store.
pub struct ObjectBackend {
    store: Arc<dyn ObjectStore>,
    options: Options,
}

impl ObjectBackend {
    /// A store of stacks under the prefix that the options name. Nothing is asked of the store before it is used.
    pub fn new(store: Arc<dyn ObjectStore>, options: Options) -> Self {
        Self { store, options }
    }

    /// What it stands on.
    pub const fn object_store(&self) -> &Arc<dyn ObjectStore> {
        &self.store
    }

    /// How it is used.
    pub const fn options(&self) -> &Options {
        &self.options
    }
}

impl fmt::Debug for ObjectBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectBackend")
            .field("url", &self.options.url)
            .finish_non_exhaustive()
    }
}
