//! Stores by URL.

use crate::environment::Environment;
use crate::stacks::Stacks;
use state_core::{Error, Result};

impl Stacks {
    /// Opens the store at a URL: `file://PATH`, where the path may be relative to the working folder.
    ///
    /// # Errors
    /// `NotFound` when there is no store; `Unsupported` for a scheme that this build lacks.
    pub fn open(url: &str, environment: Environment) -> Result<Self> {
        at(url, environment, Existing::Required)
    }

    /// Opens the store at a URL, and makes it first where there is none.
    ///
    /// # Errors
    /// `Denied` or `Unavailable` when it can't be made; `Unsupported` for a scheme that this build lacks.
    pub fn create(url: &str, environment: Environment) -> Result<Self> {
        at(url, environment, Existing::Optional)
    }
}

#[derive(Clone, Copy)]
enum Existing {
    Required,
    Optional,
}

fn at(url: &str, environment: Environment, existing: Existing) -> Result<Stacks> {
    match url.split_once("://") {
        Some(("file", path)) => file(path, environment, existing),
        Some((scheme @ ("s3" | "gs" | "az" | "http" | "https"), _)) => Err(Error::Unsupported {
            object: format!("backend {scheme}://"),
            missing: "object storage in this build".to_owned(),
        }),
        _ => Err(Error::invalid(
            format!("backend `{}`", url.escape_debug()),
            "a backend is a URL such as file://.state",
        )),
    }
}

#[cfg(feature = "fs")]
fn file(path: &str, environment: Environment, existing: Existing) -> Result<Stacks> {
    use state_backend_fs::FsBackend;
    let backend = match existing {
        Existing::Required => FsBackend::open(path)?,
        Existing::Optional => FsBackend::create(path)?,
    };
    Ok(Stacks::new(std::sync::Arc::new(backend), environment))
}

#[cfg(not(feature = "fs"))]
fn file(_: &str, _: Environment, _: Existing) -> Result<Stacks> {
    Err(Error::Unsupported {
        object: "backend file://".to_owned(),
        missing: "the feature `fs` of state-manager".to_owned(),
    })
}
