//! Stores by URL.

use crate::environment::Environment;
use crate::registry::{BackendRegistry, StoreRequest};
use crate::stacks::Stacks;
use state_core::Result;
use state_core::backend::Opening;

impl Stacks {
    /// Opens the store at a URL: `file://PATH`, where the path may be relative to the working folder, with
    /// parameters as the backend's schema has them: `file://PATH?patience=30`. A store that is far away is asked
    /// nothing before it is used: [`Stacks::ready`] looks whether it is there.
    ///
    /// # Errors
    /// `NotFound` when there is no store; `Unsupported` for a scheme that this build lacks; `Invalid` for
    /// parameters that don't fit.
    pub fn open(url: &str, environment: Environment) -> Result<Self> {
        Self::open_with(&BackendRegistry::default(), &StoreRequest::new(url), environment)
    }

    /// Opens the store at a URL, and makes it first where there is none.
    ///
    /// # Errors
    /// `Denied` or `Unavailable` when it can't be made; else as [`Stacks::open`].
    pub fn create(url: &str, environment: Environment) -> Result<Self> {
        Self::create_with(&BackendRegistry::default(), &StoreRequest::new(url), environment)
    }

    /// As [`Stacks::open`], with backends and values of your own.
    ///
    /// # Errors
    /// As [`BackendRegistry::open`].
    pub fn open_with(
        registry: &BackendRegistry,
        store: &StoreRequest,
        environment: Environment,
    ) -> Result<Self> {
        let backend = registry.open(store, Opening::Existing)?;
        Ok(Self::new(backend, environment))
    }

    /// As [`Stacks::create`], with backends and values of your own.
    ///
    /// # Errors
    /// As [`BackendRegistry::open`].
    pub fn create_with(
        registry: &BackendRegistry,
        store: &StoreRequest,
        environment: Environment,
    ) -> Result<Self> {
        let backend = registry.open(store, Opening::Create)?;
        Ok(Self::new(backend, environment))
    }
}
