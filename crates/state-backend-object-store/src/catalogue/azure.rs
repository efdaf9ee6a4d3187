//! The backend `az://container/prefix`: Azure Blob Storage.

use super::connector::Connector;
use super::machine::MachineCredentials;
use super::{CONNECT, StoreKind, TIMEOUT, install_tls, is_plain, require_host_label, retry, text, unbuilt};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::{ClientConfigKey, ObjectStore};
use state_core::backend::BackendType;
use state_core::configuration::{Configuration, FieldKind, FieldType};
use state_core::{Error, Result};
use std::sync::Arc;

pub(super) fn backend_type() -> Result<BackendType> {
    let string = |name, description| FieldType::new(name, FieldKind::String, description);
    let kind = StoreKind {
        scheme: "az",
        description: "A container of Azure Blob Storage.",
        bucket: "container",
        fields: vec![
            string("account", "storage account; default: AZURE_STORAGE_ACCOUNT_NAME"),
            string(
                "endpoint",
                "URL of the server; default: AZURE_STORAGE_ENDPOINT; plain http for loopback only",
            ),
            FieldType::new(
                "emulator",
                FieldKind::Boolean,
                "whether to use Azurite on this machine, with its public test account and no credentials of the \
                 environment, at AZURITE_BLOB_STORAGE_URL or its default port; excludes `endpoint`",
            ),
            string(
                "access-key",
                "key of the account; default: AZURE_STORAGE_ACCOUNT_KEY, or the managed identity of the machine",
            )
            .secret(),
        ],
        connect,
    };
    kind.backend_type()
}

fn connect(configuration: &Configuration, container: &str) -> Result<Arc<dyn ObjectStore>> {
    install_tls();
    require_host_label("az", "container", container)?;
    let object = format!("backend az://{container}");
    let environment = match configuration.boolean("emulator") {
        // Any user of this machine can listen on the emulator's port, and a project's settings may name the emulator:
        // requests to it carry no credentials of the environment.
        Some(true) => MicrosoftAzureBuilder::new(),
        _ => MicrosoftAzureBuilder::from_env(),
    };
    let mut builder = environment.with_container_name(container);
    let given = [
        ("account", AzureConfigKey::AccountName),
        ("access-key", AzureConfigKey::AccessKey),
    ];
    for (field, key) in given {
        if let Some(value) = text(configuration, field) {
            builder = builder.with_config(key, value);
        }
    }
    if let Some(account) = builder.get_config_value(&AzureConfigKey::AccountName) {
        require_host_label("az", "account", &account)?;
    }
    let given = EndpointChoice {
        endpoint: text(configuration, "endpoint"),
        emulator: configuration.boolean("emulator"),
    };
    let azurite = std::env::var("AZURITE_BLOB_STORAGE_URL").ok();
    builder = with_endpoint(&object, builder, given, azurite.as_deref())?
        .with_config(AzureConfigKey::Client(ClientConfigKey::ConnectTimeout), CONNECT)
        .with_config(AzureConfigKey::Client(ClientConfigKey::Timeout), TIMEOUT)
        .with_http_connector(Connector)
        .with_retry(retry());
    let asks_machine = !has_credentials(&builder);
    let build = |builder: MicrosoftAzureBuilder| builder.build().map_err(|error| unbuilt(&object, error));
    // Built twice: only a built store gives access to the client's own credential provider, which is then wrapped.
    let mut store = build(builder.clone())?;
    if asks_machine {
        let machine = MachineCredentials::new(store.credentials(), &object, ADVICE);
        store = build(builder.with_credentials(Arc::new(machine)))?;
    }
    Ok(Arc::new(store))
}

/// Advice for an error about missing credentials.
const ADVICE: &str =
    "set AZURE_STORAGE_ACCOUNT_KEY, or AZURE_CLIENT_ID, AZURE_CLIENT_SECRET and AZURE_TENANT_ID";

/// Whether credentials are configured, or a service that provides them.
fn has_credentials(builder: &MicrosoftAzureBuilder) -> bool {
    let keys = [
        AzureConfigKey::AccessKey,
        AzureConfigKey::SasKey,
        AzureConfigKey::Token,
        AzureConfigKey::ClientId,
        AzureConfigKey::FederatedTokenFile,
    ];
    let is_on = |key| builder.get_config_value(key).is_some_and(|is| is_yes(&is));
    is_on(&AzureConfigKey::UseEmulator)
        || is_on(&AzureConfigKey::UseAzureCli)
        || keys.iter().any(|key| builder.get_config_value(key).is_some())
}

/// The configured endpoint, which overrides the environment.
#[derive(Clone, Copy)]
struct EndpointChoice<'a> {
    endpoint: Option<&'a str>,
    emulator: Option<bool>,
}

/// Sets the endpoint. For an emulator the client ignores the endpoint: it sends requests to `AZURITE_BLOB_STORAGE_URL`
/// and allows plain http. Therefore that variable must name this machine.
fn with_endpoint(
    object: &str,
    mut builder: MicrosoftAzureBuilder,
    given: EndpointChoice<'_>,
    azurite: Option<&str>,
) -> Result<MicrosoftAzureBuilder> {
    if let Some(endpoint) = given.endpoint {
        if given.emulator == Some(true) {
            let reason = "`emulator` and `endpoint` exclude each other";
            return Err(Error::invalid(object, reason));
        }
        builder = builder
            .with_endpoint(endpoint.to_owned())
            .with_use_emulator(false);
    }
    if let Some(emulator) = given.emulator {
        builder = builder.with_use_emulator(emulator);
    }
    let emulator = builder.get_config_value(&AzureConfigKey::UseEmulator);
    let emulator = emulator.is_some_and(|is| is_yes(&is));
    let endpoint = builder.get_config_value(&AzureConfigKey::Endpoint);
    let plain = is_plain(object, if emulator { azurite } else { endpoint.as_deref() })?;
    if emulator && azurite.is_some() && !plain {
        let reason = "AZURITE_BLOB_STORAGE_URL must be http on loopback; for another server set `endpoint`";
        return Err(Error::invalid(object, reason));
    }
    Ok(builder.with_allow_http(plain || emulator))
}

/// Whether the client reads this value as true. Anything else counts as false here; the client refuses an invalid
/// boolean when it is built.
fn is_yes(value: &str) -> bool {
    ["1", "true", "on", "yes", "y"].contains(&value.to_ascii_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAR: &str = "http://far.example";
    const LOCAL: &str = "http://127.0.0.1:10000";

    fn settled(
        variable: Option<&str>,
        endpoint: Option<&str>,
        emulator: Option<bool>,
        azurite: Option<&str>,
    ) -> Result<MicrosoftAzureBuilder> {
        let mut builder = MicrosoftAzureBuilder::new();
        if let Some(variable) = variable {
            builder = builder.with_config(AzureConfigKey::UseEmulator, variable);
        }
        with_endpoint("b", builder, EndpointChoice { endpoint, emulator }, azurite)
    }

    #[test]
    fn emulator_must_be_on_this_machine() {
        for azurite in [None, Some(LOCAL)] {
            settled(None, None, Some(true), azurite).unwrap();
            settled(Some("true"), None, None, azurite).unwrap();
        }
        for far in [FAR, "https://far.example", "HTTP://far.example", ""] {
            settled(None, None, Some(true), Some(far)).unwrap_err();
            for yes in ["true", "TRUE", "1", "yes", "on", "y"] {
                settled(Some(yes), None, None, Some(far)).unwrap_err();
            }
        }
    }

    #[test]
    fn given_endpoint_overrides_an_emulator_variable() {
        let builder = settled(Some("true"), Some(LOCAL), None, Some(FAR)).unwrap();
        let wins = |key| builder.get_config_value(&key);
        assert_eq!(wins(AzureConfigKey::UseEmulator).as_deref(), Some("false"));
        assert_eq!(wins(AzureConfigKey::Endpoint).as_deref(), Some(LOCAL));
        settled(None, Some(FAR), None, None).unwrap_err();
        for no in ["false", "0", "off", "No", "perhaps"] {
            settled(Some(no), Some(FAR), Some(false), Some(LOCAL)).unwrap_err();
        }
    }

    #[test]
    fn environment_endpoint_is_checked_without_emulator() {
        for no in ["false", "0", "off", "No", "perhaps"] {
            let builder = MicrosoftAzureBuilder::new()
                .with_config(AzureConfigKey::UseEmulator, no)
                .with_endpoint(FAR.to_owned());
            let nothing = EndpointChoice {
                endpoint: None,
                emulator: None,
            };
            with_endpoint("b", builder, nothing, Some(LOCAL)).unwrap_err();
        }
    }

    #[test]
    fn emulator_with_an_endpoint_is_refused() {
        let refused = settled(None, Some(LOCAL), Some(true), None).unwrap_err();
        assert!(refused.to_string().contains("exclude each other"), "{refused}");
    }
}
