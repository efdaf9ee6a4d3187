//! The backend `s3://bucket/prefix`: Amazon S3 and compatible servers.

use super::connector::Connector;
use super::machine::MachineCredentials;
use super::{CONNECT, StoreKind, TIMEOUT, install_tls, is_plain, require_host_label, retry, text, unbuilt};
use crate::etags::UnquotedEtags;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::{ClientConfigKey, ObjectStore};
use state_core::Result;
use state_core::backend::BackendType;
use state_core::configuration::{Configuration, FieldKind, FieldType};
use std::sync::Arc;

pub(super) fn backend_type() -> Result<BackendType> {
    let string = |name, description| FieldType::new(name, FieldKind::String, description);
    let boolean = |name, description| FieldType::new(name, FieldKind::Boolean, description);
    let kind = StoreKind {
        scheme: "s3",
        description: "A bucket of Amazon S3, or of a compatible server that supports conditional writes.",
        bucket: "bucket",
        fields: vec![
            string("region", "region of the bucket; default: AWS_REGION"),
            string(
                "endpoint",
                "URL of the server; default: AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL; plain http for loopback only",
            ),
            boolean(
                "path-style",
                "whether the bucket is part of the path; default: true, unless AWS_VIRTUAL_HOSTED_STYLE_REQUEST is true",
            ),
            boolean(
                "unquoted-etags",
                "whether the server compares ETags without quotes, as Ceph does",
            ),
            string(
                "access-key-id",
                "default: AWS_ACCESS_KEY_ID, or the IAM role of the machine",
            )
            .secret(),
            string(
                "secret-access-key",
                "default: AWS_SECRET_ACCESS_KEY, or the IAM role of the machine",
            )
            .secret(),
            string("session-token", "default: AWS_SESSION_TOKEN").secret(),
        ],
        connect,
    };
    kind.backend_type()
}

fn connect(configuration: &Configuration, bucket: &str) -> Result<Arc<dyn ObjectStore>> {
    install_tls();
    require_host_label("s3", "bucket", bucket)?;
    let object = format!("backend s3://{bucket}");
    let mut builder = AmazonS3Builder::from_env().with_bucket_name(bucket);
    let given = [
        ("region", AmazonS3ConfigKey::Region),
        ("access-key-id", AmazonS3ConfigKey::AccessKeyId),
        ("secret-access-key", AmazonS3ConfigKey::SecretAccessKey),
        ("session-token", AmazonS3ConfigKey::Token),
    ];
    for (field, key) in given {
        if let Some(value) = text(configuration, field) {
            builder = builder.with_config(key, value);
        }
    }
    if let Some(region) = builder.get_config_value(&AmazonS3ConfigKey::Region) {
        require_host_label("s3", "region", &region)?;
    }
    builder = with_endpoint(&object, builder, text(configuration, "endpoint"))?;
    if let Some(path_style) = configuration.boolean("path-style") {
        builder = builder.with_virtual_hosted_style_request(!path_style);
    }
    builder = builder
        .with_config(
            AmazonS3ConfigKey::Client(ClientConfigKey::ConnectTimeout),
            CONNECT,
        )
        .with_config(AmazonS3ConfigKey::Client(ClientConfigKey::Timeout), TIMEOUT)
        .with_http_connector(Connector)
        .with_retry(retry());
    let asks_machine = !has_credentials(&builder);
    let build = |builder: AmazonS3Builder| builder.build().map_err(|error| unbuilt(&object, error));
    // Built twice: only a built store gives access to the client's own credential provider, which is then wrapped.
    let mut store = build(builder.clone())?;
    if asks_machine {
        let machine = MachineCredentials::new(store.credentials(), &object, ADVICE);
        store = build(builder.with_credentials(Arc::new(machine)))?;
    }
    let store: Arc<dyn ObjectStore> = Arc::new(store);
    if configuration.boolean("unquoted-etags").unwrap_or_default() {
        return Ok(Arc::new(UnquotedEtags::new(store)));
    }
    Ok(store)
}

/// Advice for an error about missing credentials.
const ADVICE: &str = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY";

/// Whether credentials are configured, or a service that provides them.
fn has_credentials(builder: &AmazonS3Builder) -> bool {
    let keys = [
        AmazonS3ConfigKey::AccessKeyId,
        AmazonS3ConfigKey::SecretAccessKey,
        AmazonS3ConfigKey::WebIdentityTokenFile,
        AmazonS3ConfigKey::ContainerCredentialsRelativeUri,
        AmazonS3ConfigKey::ContainerCredentialsFullUri,
    ];
    keys.iter().any(|key| builder.get_config_value(key).is_some())
}

/// Sets the endpoint as `S3Endpoint`, because the client prefers `AWS_ENDPOINT_URL_S3` to an endpoint that is set as
/// `Endpoint`.
fn with_endpoint(object: &str, builder: AmazonS3Builder, given: Option<&str>) -> Result<AmazonS3Builder> {
    let builder = match given {
        Some(endpoint) => builder.with_config(AmazonS3ConfigKey::S3Endpoint, endpoint),
        None => builder,
    };
    let endpoint = builder
        .get_config_value(&AmazonS3ConfigKey::S3Endpoint)
        .or_else(|| builder.get_config_value(&AmazonS3ConfigKey::Endpoint));
    let plain = is_plain(object, endpoint.as_deref())?;
    Ok(builder.with_allow_http(plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAR: &str = "http://far.example";
    const LOCAL: &str = "http://127.0.0.1:9000";

    fn from_env(key: AmazonS3ConfigKey, value: &str) -> AmazonS3Builder {
        AmazonS3Builder::new().with_config(key, value)
    }

    #[test]
    fn given_endpoint_overrides_the_environment() {
        for key in [AmazonS3ConfigKey::S3Endpoint, AmazonS3ConfigKey::Endpoint] {
            let builder = with_endpoint("b", from_env(key, FAR), Some(LOCAL)).unwrap();
            let wins = builder.get_config_value(&AmazonS3ConfigKey::S3Endpoint);
            assert_eq!(wins.as_deref(), Some(LOCAL));
        }
    }

    #[test]
    fn plain_http_from_a_variable_is_for_loopback_only() {
        for key in [AmazonS3ConfigKey::S3Endpoint, AmazonS3ConfigKey::Endpoint] {
            with_endpoint("b", from_env(key, LOCAL), None).unwrap();
            with_endpoint("b", from_env(key, FAR), None).unwrap_err();
        }
        let both =
            from_env(AmazonS3ConfigKey::S3Endpoint, FAR).with_config(AmazonS3ConfigKey::Endpoint, LOCAL);
        with_endpoint("b", both, None).unwrap_err();
    }
}
