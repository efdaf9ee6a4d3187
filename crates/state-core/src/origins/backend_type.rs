//! Kinds of backends: how a crate registers a backend with its configuration schema.

use crate::backend::Backend;
use crate::configuration::{Configuration, ConfigurationType};
use crate::crypter::Crypter;
use crate::error::{Error, Result};
use std::fmt;
use std::sync::Arc;

/// A kind of backend. Its name is the scheme of its URLs: a registered kind opens every URL with this scheme.
///
/// ```
/// use state_core::backend::{Backend, BackendType};
/// use state_core::configuration::{ConfigurationType, FieldKind, FieldType};
/// use state_core::MemoryBackend;
/// use std::sync::Arc;
///
/// let fields = vec![FieldType::new("region", FieldKind::String, "where the store is")];
/// let kind = BackendType::new("mine", "My own store.", ConfigurationType::new(fields)?, |_request| {
///     Ok(Arc::new(MemoryBackend::new()) as Arc<dyn Backend>)
/// })?;
/// assert_eq!(kind.name(), "mine");
/// # Ok::<(), state_core::Error>(())
/// ```
#[derive(Clone)]
pub struct BackendType {
    name: String,
    description: String,
    configuration: ConfigurationType,
    location: Vec<String>,
    factory: Arc<dyn BackendFactory>,
}

/// Opens stores of one kind.
///
/// The method is not async and may block for a few reads. A store that needs more requests sends them when it is first
/// used.
pub trait BackendFactory: Send + Sync {
    /// Opens a store.
    ///
    /// # Errors
    /// `NotFound` if the store does not exist and must not be created; `Invalid` if the configuration is
    /// inconsistent; `Unavailable` if the store can't be reached; `Denied` if it refuses access.
    fn open(&self, request: OpenRequest) -> Result<Arc<dyn Backend>>;
}

impl<F: Fn(OpenRequest) -> Result<Arc<dyn Backend>> + Send + Sync> BackendFactory for F {
    fn open(&self, request: OpenRequest) -> Result<Arc<dyn Backend>> {
        self(request)
    }
}

/// The arguments of [`BackendFactory::open`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OpenRequest {
    /// Configuration, decoded by the schema of the kind.
    pub configuration: Configuration,
    /// Whether a missing store is created.
    pub opening: Opening,
    /// Crypter for stores that keep secrets, such as credentials.
    pub crypter: Option<Arc<dyn Crypter>>,
}

impl OpenRequest {
    /// Creates a request from its parts.
    pub const fn new(
        configuration: Configuration,
        opening: Opening,
        crypter: Option<Arc<dyn Crypter>>,
    ) -> Self {
        Self {
            configuration,
            opening,
            crypter,
        }
    }
}

/// The action if the store does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// Return an error instead of creating the store.
    Existing,
    /// Create the missing store.
    Create,
}

impl BackendType {
    /// Creates a kind of backend.
    ///
    /// # Errors
    /// `Invalid` if the name is not a valid URL scheme: lower-case letters, digits, `+`, `-` and `.`, beginning with
    /// a letter.
    pub fn new(
        name: impl Into<String>,
        description: impl Into<String>,
        configuration: ConfigurationType,
        factory: impl BackendFactory + 'static,
    ) -> Result<Self> {
        let name = name.into();
        let legal = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"+-.".contains(&b);
        if !name.starts_with(|c: char| c.is_ascii_lowercase()) || !name.bytes().all(legal) {
            return Err(Error::invalid(
                format!("backend type `{}`", name.escape_debug()),
                "the name is not a valid URL scheme",
            ));
        }
        Ok(Self {
            name,
            description: description.into(),
            configuration,
            location: Vec::new(),
            factory: Arc::new(factory),
        })
    }

    /// Declares the fields that are taken from the URL after `://`. The text is split at slashes; the last field
    /// takes the rest.
    ///
    /// # Errors
    /// `Invalid` if the configuration has no such field.
    pub fn with_location(mut self, fields: &[&str]) -> Result<Self> {
        if let Some(unknown) = fields
            .iter()
            .find(|name| self.configuration.field(name).is_none())
        {
            let reason =
                format!("its location refers to `{unknown}`, which is not a field of the configuration");
            return Err(Error::invalid(format!("backend type {}", self.name), reason));
        }
        self.location = fields.iter().map(|&name| name.to_owned()).collect();
        Ok(self)
    }

    /// The name of the kind, which is the scheme of its URLs.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Description of the kind, for lists of backends.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Schema of the configuration.
    pub const fn configuration(&self) -> &ConfigurationType {
        &self.configuration
    }

    /// The fields that are taken from the URL after `://`.
    pub fn location(&self) -> &[String] {
        &self.location
    }

    /// Opens a store of this kind from configuration values as text. If a key occurs again, the last value applies.
    ///
    /// # Errors
    /// `Invalid` with all values that don't match the schema; otherwise the errors of [`BackendFactory::open`].
    pub fn open<K: AsRef<str>, V: AsRef<str>>(
        &self,
        given: impl IntoIterator<Item = (K, V)>,
        opening: Opening,
        crypter: Option<Arc<dyn Crypter>>,
    ) -> Result<Arc<dyn Backend>> {
        let object = format!("backend {}", self.name);
        let configuration = self.configuration.decode(&object, given)?;
        self.factory
            .open(OpenRequest::new(configuration, opening, crypter))
    }
}

impl fmt::Debug for BackendType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackendType")
            .field("name", &self.name)
            .field("location", &self.location)
            .field("configuration", &self.configuration)
            .finish_non_exhaustive()
    }
}
