//! Registry of backend types: the built-in ones, and those that an embedder registers.

use crate::contracts::store_url::{StoreUrl, parameter_without_userinfo, without_userinfo};
use state_core::backend::{BackendType, OpenRequest, Opening};
use state_core::configuration::{ConfigurationType, FieldKind, FieldType};
use state_core::{Backend, Crypter, Error, MemoryBackend, Result};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Backend types by name. [`BackendRegistry::default`] contains the built-in ones.
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

/// The URL of a store, and its configuration.
#[derive(Clone)]
pub struct StoreRequest {
    url: String,
    config: Vec<(String, String)>,
    crypter: Option<Arc<dyn Crypter>>,
}

impl StoreRequest {
    /// A request for the store at this URL: `scheme://location?key=value`.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            config: Vec::new(),
            crypter: None,
        }
    }

    /// The same request with one more value. The value overrides an earlier value of the same key, and a value in the
    /// URL.
    #[must_use]
    pub fn with_config(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.config.push((key.into(), value.into()));
        self
    }

    /// The same request with a crypter for values that the backend stores.
    #[must_use]
    pub fn with_crypter(self, crypter: Arc<dyn Crypter>) -> Self {
        Self {
            crypter: Some(crypter),
            ..self
        }
    }
}

/// Prints no parameters: they may be secret.
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
        // A built-in schema is valid, as its own tests prove, so `flatten` drops no type.
        for kind in ours.into_iter().flatten().chain(clouds()) {
            registry.types.insert(kind.name().to_owned(), kind);
        }
        registry
    }
}

impl BackendRegistry {
    /// A registry without any backend type.
    pub const fn empty() -> Self {
        Self {
            types: BTreeMap::new(),
        }
    }

    /// Adds a backend type.
    ///
    /// # Errors
    /// `Conflict` when a type with this name is registered.
    pub fn register(&mut self, kind: BackendType) -> Result<()> {
        if self.types.contains_key(kind.name()) {
            let object = format!("backend type {}", kind.name());
            return Err(Error::conflict(
                object,
                "a backend type with this name is already registered",
            ));
        }
        self.types.insert(kind.name().to_owned(), kind);
        Ok(())
    }

    /// All backend types, sorted by name.
    pub fn types(&self) -> impl Iterator<Item = &BackendType> {
        self.types.values()
    }

    /// The backend type with this name; none if it isn't registered.
    pub fn get(&self, name: &str) -> Option<&BackendType> {
        self.types.get(name)
    }

    /// Opens the requested store.
    ///
    /// # Errors
    /// `Unsupported` for a scheme whose feature this build doesn't include. `Invalid` for a URL that can't be parsed,
    /// for any other scheme that isn't registered, and for a configuration that doesn't match the schema. Any error of
    /// the backend.
    pub fn open(&self, store: &StoreRequest, opening: Opening) -> Result<Arc<dyn Backend>> {
        let url = StoreUrl::parse(&store.url)?;
        let kind = self
            .get(&url.scheme)
            .ok_or_else(|| self.no_such_type(&url.scheme))?;
        let given = url.field_values(kind.location())?;
        kind.open(
            given.into_iter().chain(store.config.iter().cloned()),
            opening,
            store.crypter.clone(),
        )
    }

    /// The configuration values that a URL contains, by field: its location and its parameters.
    ///
    /// # Errors
    /// `Unsupported` for a scheme whose feature this build doesn't include. `Invalid` for a URL that can't be parsed,
    /// and for any other scheme that isn't registered.
    pub fn configured(&self, url: &str) -> Result<BTreeMap<String, String>> {
        let url = StoreUrl::parse(url)?;
        let kind = self
            .get(&url.scheme)
            .ok_or_else(|| self.no_such_type(&url.scheme))?;
        Ok(url.field_values(kind.location())?.into_iter().collect())
    }

    /// A URL as it may be printed: without user name and password, and without its secret or unknown parameters.
    pub fn shown(&self, url: &str) -> String {
        // A text such as `s3:user:password@bucket` is meant as a URL, although it names a path.
        if let (Some(scheme), Some((_, host))) = (self.incomplete_scheme(url), url.rsplit_once('@')) {
            return format!("{scheme}:{host}");
        }
        let url = without_userinfo(url);
        // Only the path of a `file` URL may contain `#`. In other URLs, a secret may follow.
        let url = match url.starts_with("file://") || !url.contains("://") {
            true => &url,
            false => url.split('#').next().unwrap_or_default(),
        };
        let Some((bare, query)) = url.split_once('?') else {
            return url.to_owned();
        };
        let kind = bare.split_once("://").and_then(|(scheme, _)| self.get(scheme));
        let is_open = |part: &&str| {
            let name = part.split_once('=').map(|(name, _)| name);
            let field = name.and_then(|name| kind?.configuration().field(name));
            field.is_some_and(|field| !field.is_secret())
        };
        let kept: Vec<_> = query
            .split('&')
            .filter(is_open)
            .map(parameter_without_userinfo)
            .collect();
        if kept.is_empty() {
            return bare.to_owned();
        }
        format!("{bare}?{}", kept.join("&"))
    }

    /// The scheme of a text that begins like a URL of a registered backend type, without the whole `://` after the scheme,
    /// such as `s3:bucket` or `s3//bucket`. None for a URL and for a path; `./s3:bucket` is a path.
    pub fn incomplete_scheme<'u>(&self, text: &'u str) -> Option<&'u str> {
        let (scheme, rest) = text.split_at(text.find([':', '/'])?);
        let is_incomplete = !rest.starts_with("://") && (rest.starts_with(':') || rest.starts_with("//"));
        (is_incomplete && self.get(scheme).is_some()).then_some(scheme)
    }

    fn no_such_type(&self, scheme: &str) -> Error {
        let missing = match scheme {
            "file" => "the feature `fs` of state-manager",
            "s3" => "the feature `aws` of state-manager",
            "gs" => "the feature `gcp` of state-manager",
            "az" => "the feature `azure` of state-manager",
            _ => {
                let known: Vec<_> = self.types.keys().map(|name| format!("{name}://")).collect();
                let reason = format!("unknown backend type; known types: {}", known.join(", "));
                return Error::invalid(format!("backend {}://", scheme.escape_debug()), reason);
            }
        };
        Error::unsupported(format!("backend {scheme}://"), missing)
    }
}

/// The object stores that are compiled in.
fn clouds() -> Vec<BackendType> {
    #[cfg(any(feature = "aws", feature = "gcp", feature = "azure"))]
    return state_backend_object_store::backend_types().unwrap_or_default();
    #[cfg(not(any(feature = "aws", feature = "gcp", feature = "azure")))]
    Vec::new()
}

/// The backend type for named stores in the memory of this process. The clones of one registry share its stores.
fn memory() -> Result<BackendType> {
    let fields = vec![FieldType::new(
        "name",
        FieldKind::String,
        "Name of the store in memory",
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
        "Store in the memory of this process, lost when it ends: for tests.",
        ConfigurationType::new(fields)?,
        open,
    )?
    .with_location(&["name"])
}
