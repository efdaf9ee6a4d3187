//! Configuration of the backends `s3://`, `gs://` and `az://`: the URL, its parameters, and the environment variables
//! of each cloud's own tools. URL and parameters override the environment.

#[cfg(feature = "azure")]
mod azure;
#[cfg(feature = "client")]
mod connector;
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

/// Time limit for opening a connection.
const CONNECT: &str = "5 seconds";

/// [`CONNECT`] as a duration.
#[cfg(feature = "client")]
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Time limit of the HTTP client. It is longer than any request, because [`Options::request_timeout`] sets the actual
/// limit.
const TIMEOUT: &str = "1 hour";

/// The shortest lease in seconds. It is renewed four times, and GCS allows one write per second to an object.
const SHORTEST_LEASE: u64 = 8;

/// The longest patience in seconds.
const LONGEST_PATIENCE: u64 = 600;

/// Returns the backend types of the object stores in this build.
///
/// # Errors
/// None in practice: the schemas are constant, and a test checks that they are valid.
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

/// The properties of one kind of object store.
struct StoreKind {
    scheme: &'static str,
    description: &'static str,
    /// Name of the field for the bucket, which is the first part of the URL.
    bucket: &'static str,
    fields: Vec<FieldType>,
    connect: fn(&Configuration, &str) -> Result<Arc<dyn ObjectStore>>,
}

impl StoreKind {
    fn backend_type(self) -> Result<BackendType> {
        let bucket = format!("name of the {}", self.bucket);
        let mut fields = vec![
            FieldType::new(self.bucket, FieldKind::String, bucket).required(),
            FieldType::new(
                "prefix",
                FieldKind::String,
                "path under which the state is stored",
            ),
        ];
        fields.extend(self.fields);
        fields.push(
            FieldType::new(
                "lease",
                FieldKind::Integer,
                "seconds for which a lock lasts without a renewal",
            )
            .with_default(FieldValue::Integer(60)),
        );
        fields.push(
            FieldType::new(
                "patience",
                FieldKind::Integer,
                "seconds for which a request is repeated while the store is busy or gives no answer",
            )
            .with_default(FieldValue::Integer(30)),
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
        Path::parse(prefix).map_err(|error| invalid(&format!("`prefix` isn't a valid path: {error}")))?;
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
            let reason = format!("`lease` must be {SHORTEST_LEASE} to {longest} seconds");
            return Err(invalid(&reason));
        }
    }
    let patience = request.configuration.integer("patience").unwrap_or(30);
    match u64::try_from(patience) {
        Ok(seconds) if (1..=LONGEST_PATIENCE).contains(&seconds) => {
            options.retry_timeout = Duration::from_secs(seconds);
        }
        _ => {
            let reason = format!("`patience` must be 1 to {LONGEST_PATIENCE} seconds");
            return Err(invalid(&reason));
        }
    }
    Ok(Arc::new(ObjectBackend::new(store, options, request.opening)))
}

/// Returns the value of a field, unless it is empty.
fn text<'a>(configuration: &'a Configuration, field: &str) -> Option<&'a str> {
    configuration.string(field).filter(|text| !text.is_empty())
}

/// Disables the retries of the HTTP client. A blind retry could apply a write twice; this crate settles each outcome
/// before it sends a request again.
fn retry() -> RetryConfig {
    RetryConfig {
        max_retries: 0,
        ..RetryConfig::default()
    }
}

/// Installs the process-wide TLS provider, unless the application has installed one.
fn install_tls() {
    drop(rustls::crypto::ring::default_provider().install_default());
}

/// Whether requests to an endpoint may go without TLS: only on this machine.
///
/// # Errors
/// `Invalid` for plain http to another host, and for an endpoint with a user name or password, which messages would
/// show.
fn is_plain(object: &str, endpoint: Option<&str>) -> Result<bool> {
    let endpoint = endpoint.unwrap_or_default();
    // In any position: parsers disagree on where the host begins.
    if endpoint.contains('@') {
        let reason = "an endpoint must contain no `@`, no user name and no password; set the fields for credentials instead";
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
    let reason = "plain http is allowed for loopback only, because it exposes the state; use https://";
    Err(Error::invalid(object, reason))
}

/// Refuses a text that becomes part of a host name: with `/`, `#` or `@` in it, requests and their credentials would go to
/// another host.
///
/// # Errors
/// `Invalid`, without the text, which may be a password in the wrong place.
fn require_host_label(scheme: &str, field: &str, text: &str) -> Result<()> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    if text.bytes().all(is_plain) {
        return Ok(());
    }
    let reason = format!("`{field}` may contain only letters, digits, `-`, `.` and `_`");
    Err(Error::invalid(format!("backend {scheme}://"), reason))
}

/// Returns the error for an invalid configuration. The client's message names keys, not values.
fn unbuilt(object: &str, error: object_store::Error) -> Error {
    let failure = crate::error::RequestFailure::Store(error);
    Error::invalid(object, format!("the configuration is invalid: {failure}"))
}

#[cfg(test)]
mod tests;
