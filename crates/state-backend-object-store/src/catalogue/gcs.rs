//! The backend `gs://bucket/prefix`: Google Cloud Storage, whose conditions compare generations instead of ETags.

use super::connector::Connector;
use super::machine::MachineCredentials;
use super::{CONNECT, StoreKind, TIMEOUT, install_tls, is_plain, require_host_label, retry, text, unbuilt};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::{ClientConfigKey, ObjectStore};
use state_core::Result;
use state_core::backend::BackendType;
use state_core::configuration::{Configuration, FieldKind, FieldType};
use std::sync::Arc;

pub(super) fn backend_type() -> Result<BackendType> {
    let string = |name, description| FieldType::new(name, FieldKind::String, description);
    let kind = StoreKind {
        scheme: "gs",
        description: "A bucket of Google Cloud Storage.",
        bucket: "bucket",
        fields: vec![
            FieldType::new(
                "service-account",
                FieldKind::Path,
                "file with the key of a service account; default: GOOGLE_SERVICE_ACCOUNT, or the service account of the machine",
            ),
            string(
                "endpoint",
                "URL of another server, which is used without credentials; plain http for loopback only",
            ),
        ],
        connect,
    };
    kind.backend_type()
}

fn connect(configuration: &Configuration, bucket: &str) -> Result<Arc<dyn ObjectStore>> {
    install_tls();
    require_host_label("gs", "bucket", bucket)?;
    let object = format!("backend gs://{bucket}");
    let mut builder = GoogleCloudStorageBuilder::from_env().with_bucket_name(bucket);
    if let Some(path) = configuration.path("service-account") {
        builder = builder.with_service_account_path(path.to_string_lossy());
    }
    let endpoint = text(configuration, "endpoint");
    let plain = is_plain(&object, endpoint)?;
    if let Some(endpoint) = endpoint {
        builder = builder.with_base_url(endpoint).with_skip_signature(true);
    }
    builder = builder
        .with_config(GoogleConfigKey::Client(ClientConfigKey::ConnectTimeout), CONNECT)
        .with_config(GoogleConfigKey::Client(ClientConfigKey::Timeout), TIMEOUT)
        .with_config(
            GoogleConfigKey::Client(ClientConfigKey::AllowHttp),
            plain.to_string(),
        )
        .with_http_connector(Connector)
        .with_retry(retry());
    let asks_machine = !has_credentials(&builder);
    let build = |builder: GoogleCloudStorageBuilder| builder.build().map_err(|error| unbuilt(&object, error));
    // Built twice: only a built store gives access to the client's own credential provider, which is then wrapped.
    let mut store = build(builder.clone())?;
    if asks_machine {
        let machine = MachineCredentials::new(store.credentials(), &object, ADVICE);
        store = build(builder.with_credentials(Arc::new(machine)))?;
    }
    Ok(Arc::new(store))
}

/// Advice for an error about missing credentials.
const ADVICE: &str = "set GOOGLE_SERVICE_ACCOUNT or GOOGLE_APPLICATION_CREDENTIALS";

/// Whether credentials are configured.
fn has_credentials(builder: &GoogleCloudStorageBuilder) -> bool {
    let keys = [
        GoogleConfigKey::ServiceAccount,
        GoogleConfigKey::ServiceAccountKey,
        GoogleConfigKey::ApplicationCredentials,
    ];
    keys.iter().any(|key| builder.get_config_value(key).is_some())
}
