//! How `s3://`, `gs://` and `az://` are configured: by their URL, its parameters, and the environment variables that
//! each cloud's own tools read. What is given here counts before the environment.

#[cfg(feature = "azure")]
mod azure;
#[cfg(feature = "gcp")]
mod gcs;
mod machine;
#[cfg(feature = "aws")]
mod s3;

use crate::layout::LONGEST_LEASE;
use crate::options::Options;
use crate::store::ObjectBackend;
use object_store::path::Path;
use object_store::{ObjectStore, RetryConfig};
use state_core::backend::{BackendType, OpenRequest};
use state_core::configuration::{Configuration, ConfigurationType, FieldKind, FieldType, FieldValue};
use state_core::{Backend, Error, Result};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// How long a connection may take to come about.
const CONNECT: &str = "5 seconds";

/// Longer than any request may take: that is for [`Options::request`] to say.
const TIMEOUT: &str = "1 hour";

/// The shortest lease: it is renewed four times as often, and GCS allows one write a second on one name.
const SHORTEST_LEASE: u64 = 8;

/// The kinds of object stores that this build has.
///
/// # Errors
/// None: the schemas are sound, and a test says so.
pub fn backend_types() -> Result<Vec<BackendType>> {
    let kinds = [
        #[cfg(feature = "aws")]
        s3::backend_type(),
        #[cfg(feature = "gcp")]
        gcs::backend_type(),
        #[cfg(feature = "azure")]
        azure::backend_type(),
    ];
    kinds.into_iter().collect()
}

/// What is the same for all of them.
struct Kind {
    scheme: &'static str,
    description: &'static str,
    /// What the place that the URL names first is called.
    bucket: &'static str,
    fields: Vec<FieldType>,
    connect: fn(&Configuration, &str) -> Result<Arc<dyn ObjectStore>>,
}

impl Kind {
    fn backend_type(self) -> Result<BackendType> {
        let bucket = format!("the {}", self.bucket);
        let mut fields = vec![
            FieldType::new(self.bucket, FieldKind::String, bucket).required(),
            FieldType::new(
                "prefix",
                FieldKind::String,
                "the path in it under which the store is",
            ),
        ];
        fields.extend(self.fields);
        fields.push(
            FieldType::new(
                "lease",
                FieldKind::Integer,
                "seconds for which a writer that is silent keeps its stack",
            )
            .with_default(FieldValue::Integer(60)),
        );
        let (scheme, bucket, connect) = (self.scheme, self.bucket, self.connect);
        let open = move |request: OpenRequest| {
            let name = text(&request.configuration, bucket).unwrap_or_default();
            let store = connect(&request.configuration, name)?;
            open(scheme, name, store, &request)
        };
        let kind = BackendType::new(
            self.scheme,
            self.description,
            ConfigurationType::new(fields)?,
            open,
        )?;
        kind.with_location(&[self.bucket, "prefix"])
    }
}

fn open(
    scheme: &'static str,
    bucket: &str,
    store: Arc<dyn ObjectStore>,
    request: &OpenRequest,
) -> Result<Arc<dyn Backend>> {
    let prefix = text(&request.configuration, "prefix").unwrap_or_default();
    let url = format!("{scheme}://{bucket}/{prefix}");
    let url = url.trim_end_matches('/');
    let invalid = |reason: &str| Error::invalid(format!("backend {url}"), reason);
    let prefix =
        Path::parse(prefix).map_err(|error| invalid(&format!("`prefix` can't be a path: {error}")))?;
    let mut options = Options::new(url, prefix);
    let lease = request.configuration.integer("lease").unwrap_or(60);
    match u64::try_from(lease) {
        Ok(seconds) if (SHORTEST_LEASE..=LONGEST_LEASE.as_secs()).contains(&seconds) => {
            options.lease = Duration::from_secs(seconds);
            options.renewal = options.lease / 4;
            options.margin = options.lease / 6;
        }
        _ => {
            let longest = LONGEST_LEASE.as_secs();
            let reason = format!("`lease` is {SHORTEST_LEASE} to {longest} seconds");
            return Err(invalid(&reason));
        }
    }
    Ok(Arc::new(ObjectBackend::new(store, options, request.opening)))
}

/// What was given for a field, unless it is empty.
fn text<'a>(configuration: &'a Configuration, field: &str) -> Option<&'a str> {
    configuration.string(field).filter(|text| !text.is_empty())
}

/// No retries inside: each answer is settled before anything is sent again.
fn retry() -> RetryConfig {
    RetryConfig {
        max_retries: 0,
        ..RetryConfig::default()
    }
}

/// TLS needs a provider of its primitives, one for the process. Who installed one before keeps it.
fn install_tls() {
    drop(rustls::crypto::ring::default_provider().install_default());
}

/// Whether an endpoint may be spoken to without TLS: only on this machine.
///
/// # Errors
/// `Invalid` for one elsewhere, and for one with a name or a password in it, which messages would show.
fn is_plain(object: &str, endpoint: Option<&str>) -> Result<bool> {
    let endpoint = endpoint.unwrap_or_default();
    // Anywhere: where a name ends depends on who reads it.
    if endpoint.contains('@') {
        let reason =
            "an endpoint holds no `@`, no name and no password; credentials have fields of their own";
        return Err(Error::invalid(object, reason));
    }
    let Some(rest) = endpoint.strip_prefix("http://") else {
        return Ok(false);
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = match authority.strip_prefix('[') {
        Some(v6) => v6.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    let is_loopback = host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    if is_loopback || host == "localhost" {
        return Ok(true);
    }
    let reason = "plain http is for loopback only: whoever listens would read the state; use https://";
    Err(Error::invalid(object, reason))
}

/// What a builder says of its configuration. It names keys, not values.
fn unbuilt(object: &str, error: object_store::Error) -> Error {
    let trouble = crate::error::Trouble::Store(error);
    Error::invalid(object, format!("it can't be connected to: {trouble}"))
}

#[cfg(test)]
mod tests;
