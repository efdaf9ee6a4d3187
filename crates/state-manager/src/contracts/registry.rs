//! Which kinds of backends there are: ours, and those that others register.

use crate::contracts::store_url::StoreUrl;
use state_core::backend::{BackendType, OpenRequest, Opening};
use state_core::configuration::{ConfigurationType, FieldKind, FieldType};
use state_core::{Backend, Crypter, Error, MemoryBackend, Result};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// The kinds of backends by name. [`BackendRegistry::default`] knows ours.
///
/// ```
/// use state_core::backend::{Backend, BackendType};
/// use state_core::configuration::ConfigurationType;
/// use state_core::MemoryBackend;
/// use state_manager::{Actor, BackendRegistry, Environment, Stacks, StoreRequest};
/// use std::sync::Arc;
///
/// let mut registry = BackendRegistry::default();
/// let schema = ConfigurationType::new(Vec::new())?;
/// registry.register(BackendType::new("mine", "My own.", schema, |_request| {
///     Ok(Arc::new(MemoryBackend::new()) as Arc<dyn Backend>)
/// })?)?;
/// let environment = Environment::system(Actor::default());
/// let stacks = Stacks::open_with(&registry, &StoreRequest::new("mine://"), environment)?;
/// # Ok::<(), state_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct BackendRegistry {
    types: BTreeMap<String, BackendType>,
}

/// Which store is meant, and how it is configured.
#[derive(Clone)]
pub struct StoreRequest {
    url: String,
    config: Vec<(String, String)>,
    crypter: Option<Arc<dyn Crypter>>,
}

impl StoreRequest {
    /// The store at this URL: `scheme://location?key=value`.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            config: Vec::new(),
            crypter: None,
        }
    }

    /// The same, with one more value. It counts before one of the same key in the URL, or given earlier.
    #[must_use]
    pub fn with_config(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.config.push((key.into(), value.into()));
        self
    }

    /// The same, with what seals values for the backend.
    #[must_use]
    pub fn with_crypter(self, crypter: Arc<dyn Crypter>) -> Self {
        Self {
            crypter: Some(crypter),
            ..self
        }
    }
}

/// Without parameters: they may be secret.
impl fmt::Debug for StoreRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bare = self.url.split('?').next().unwrap_or_default();
        f.debug_struct("StoreRequest")
            .field("url", &bare)
            .finish_non_exhaustive()
    }
}

impl Default for BackendRegistry {
    fn default() -> Self {
        let mut registry = Self::empty();
        let ours = [
            memory(),
            #[cfg(feature = "fs")]
            state_backend_fs::backend_type(),
        ];
        // Our schemas are sound: the tests of each say so.
        for kind in ours.into_iter().flatten().chain(clouds()) {
            registry.types.insert(kind.name().to_owned(), kind);
        }
        registry
    }
}

impl BackendRegistry {
    /// Knows none.
    pub const fn empty() -> Self {
        Self {
            types: BTreeMap::new(),
        }
    }

    /// Adds one of your own.
    ///
    /// # Errors
    /// `Conflict` when there is one of this name.
    pub fn register(&mut self, kind: BackendType) -> Result<()> {
        if self.types.contains_key(kind.name()) {
            let object = format!("backend type {}", kind.name());
            return Err(Error::conflict(object, "there is one of this name already"));
        }
        self.types.insert(kind.name().to_owned(), kind);
        Ok(())
    }

    /// All of them, sorted by name.
    pub fn types(&self) -> impl Iterator<Item = &BackendType> {
        self.types.values()
    }

    /// The kind with this name.
    pub fn get(&self, name: &str) -> Option<&BackendType> {
        self.types.get(name)
    }

    /// Opens the store that is meant.
    ///
    /// # Errors
    /// `Unsupported` for a scheme that this build lacks, `Invalid` for one that nobody registered and for a
    /// configuration that doesn't fit the schema; what the backend says.
    pub fn open(&self, store: &StoreRequest, opening: Opening) -> Result<Arc<dyn Backend>> {
        let url = StoreUrl::parse(&store.url)?;
        let kind = self
            .get(&url.scheme)
            .ok_or_else(|| self.no_such_type(&url.scheme))?;
        let given = url.given(kind.location())?;
        kind.open(
            given.into_iter().chain(store.config.iter().cloned()),
            opening,
            store.crypter.clone(),
        )
    }

    /// A URL as it may be told: what is secret in it, or unknown, is left out.
    pub fn shown(&self, url: &str) -> String {
        let Some((bare, query)) = url.split_once('?') else {
            return url.to_owned();
        };
        let kind = bare.split_once("://").and_then(|(scheme, _)| self.get(scheme));
        let is_open = |part: &&str| {
            let name = part.split_once('=').map(|(name, _)| name);
            let field = name.and_then(|name| kind?.configuration().field(name));
            field.is_some_and(|field| !field.is_secret())
        };
        let kept: Vec<&str> = query.split('&').filter(is_open).collect();
        if kept.is_empty() {
            return bare.to_owned();
        }
        format!("{bare}?{}", kept.join("&"))
    }

    fn no_such_type(&self, scheme: &str) -> Error {
        let missing = match scheme {
            "file" => "the feature `fs` of state-manager",
            "s3" => "the feature `aws` of state-manager",
            "gs" => "the feature `gcp` of state-manager",
            "az" => "the feature `azure` of state-manager",
            _ => {
                let known: Vec<_> = self.types.keys().map(|name| format!("{name}://")).collect();
                let reason = format!("there is no such kind of backend; there is {}", known.join(", "));
                return Error::invalid(format!("backend {}://", scheme.escape_debug()), reason);
            }
        };
        Error::unsupported(format!("backend {scheme}://"), missing)
    }
}

/// The object stores that this build has.
fn clouds() -> Vec<BackendType> {
    #[cfg(any(feature = "aws", feature = "gcp", feature = "azure"))]
    return state_backend_object_store::backend_types().unwrap_or_default();
    #[cfg(not(any(feature = "aws", feature = "gcp", feature = "azure")))]
    Vec::new()
}

/// Stores in memory, by name: those of one registry, and its clones, are shared.
fn memory() -> Result<BackendType> {
    let fields = vec![FieldType::new(
        "name",
        FieldKind::String,
        "which of the stores in memory",
    )];
    let stores: Mutex<BTreeMap<String, MemoryBackend>> = Mutex::default();
    let open = move |request: OpenRequest| {
        let name = request.configuration.string("name").unwrap_or_default();
        let mut stores = stores.lock().unwrap_or_else(PoisonError::into_inner);
        if request.opening == Opening::Existing && !stores.contains_key(name) {
            return Err(Error::not_found(format!("state store memory://{name}")));
        }
        let store = stores.entry(name.to_owned()).or_default().clone();
        Ok(Arc::new(store) as Arc<dyn Backend>)
    };
    BackendType::new(
        "memory",
        "In the memory of this process, gone when it ends: for tests.",
        ConfigurationType::new(fields)?,
        open,
    )?
    .with_location(&["name"])
}
