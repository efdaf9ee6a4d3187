//! Kinds of backends, as those who ship one tell of it: seed 003's `BackendType`.

use crate::backend::Backend;
use crate::configuration::{Configuration, ConfigurationType};
use crate::crypter::Crypter;
use crate::error::{Error, Result};
use std::fmt;
use std::sync::Arc;

/// A kind of store: its name is the scheme of its URLs. Register it, and every URL of that scheme leads to it.
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

/// Makes handles to stores of one kind.
///
/// Not async: it may block for a few reads. A store that has to be talked to at length does so when it is first
/// used.
pub trait BackendFactory: Send + Sync {
    /// Opens a store.
    ///
    /// # Errors
    /// `NotFound` when there is none and none may be made; `Invalid` when the configuration makes no sense;
    /// `Unavailable` or `Denied`.
    fn open(&self, request: OpenRequest) -> Result<Arc<dyn Backend>>;
}

impl<F: Fn(OpenRequest) -> Result<Arc<dyn Backend>> + Send + Sync> BackendFactory for F {
    fn open(&self, request: OpenRequest) -> Result<Arc<dyn Backend>> {
        self(request)
    }
}

/// What a factory is given.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OpenRequest {
    /// What was configured, decoded by the kind's schema.
    pub configuration: Configuration,
    /// Whether a store may be made.
    pub opening: Opening,
    /// What seals values, for stores that keep something of their own that is secret.
    pub crypter: Option<Arc<dyn Crypter>>,
}

impl OpenRequest {
    /// All that a factory needs.
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

/// What to do where there is no store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// Fail.
    Existing,
    /// Make one.
    Create,
}

impl BackendType {
    /// A kind of backend.
    ///
    /// # Errors
    /// `Invalid` when the name can't be the scheme of a URL: lower-case letters, digits, `+`, `-` and `.`, a letter
    /// first.
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
                "its name can't be the scheme of a URL",
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

    /// The same, with the fields that the URL fills behind its `://`: divided at slashes, the last takes the rest.
    ///
    /// # Errors
    /// `Invalid` when the configuration has no such field.
    pub fn with_location(mut self, fields: &[&str]) -> Result<Self> {
        if let Some(unknown) = fields
            .iter()
            .find(|name| self.configuration.field(name).is_none())
        {
            let reason = format!("its location fills `{unknown}`, and there is no such field");
            return Err(Error::invalid(format!("backend type {}", self.name), reason));
        }
        self.location = fields.iter().map(|&name| name.to_owned()).collect();
        Ok(self)
    }

    /// Its name, and the scheme of its URLs.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it is.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// What can be configured.
    pub const fn configuration(&self) -> &ConfigurationType {
        &self.configuration
    }

    /// The fields that the URL fills behind its `://`.
    pub fn location(&self) -> &[String] {
        &self.location
    }

    /// Opens a store of this kind from what was given as text. What is given later counts.
    ///
    /// # Errors
    /// `Invalid` with all that doesn't fit the schema; what the factory says.
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
