//! `az://container/prefix`: Azure Blob Storage.

use super::machine::Machine;
use super::{CONNECT, Kind, TIMEOUT, install_tls, is_plain, retry, text, unbuilt};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::{ClientConfigKey, ObjectStore};
use state_core::backend::BackendType;
use state_core::configuration::{Configuration, FieldKind, FieldType};
use state_core::{Error, Result};
use std::sync::Arc;

pub(super) fn backend_type() -> Result<BackendType> {
    let string = |name, description| FieldType::new(name, FieldKind::String, description);
    let kind = Kind {
        scheme: "az",
        description: "A container of Azure Blob Storage.",
        bucket: "container",
        fields: vec![
            string("account", "the storage account; else AZURE_STORAGE_ACCOUNT_NAME"),
            string(
                "endpoint",
                "the server's URL; else AZURE_STORAGE_ENDPOINT; plain http for loopback only",
            ),
            FieldType::new(
                "emulator",
                FieldKind::Boolean,
                "whether the server is Azurite on this machine, with the account that everybody knows, at \
                 AZURITE_BLOB_STORAGE_URL or its usual port; never with an endpoint",
            ),
            string(
                "access-key",
                "the account's key; else AZURE_STORAGE_ACCOUNT_KEY, or what the machine is given",
            )
            .secret(),
        ],
        connect,
    };
    kind.backend_type()
}

fn connect(configuration: &Configuration, container: &str) -> Result<Arc<dyn ObjectStore>> {
    install_tls();
    let object = format!("backend az://{container}");
    let mut builder = MicrosoftAzureBuilder::from_env().with_container_name(container);
    let given = [
        ("account", AzureConfigKey::AccountName),
        ("access-key", AzureConfigKey::AccessKey),
    ];
    for (field, key) in given {
        if let Some(value) = text(configuration, field) {
            builder = builder.with_config(key, value);
        }
    }
    let given = Given {
        endpoint: text(configuration, "endpoint"),
        emulator: configuration.boolean("emulator"),
    };
    let azurite = std::env::var("AZURITE_BLOB_STORAGE_URL").ok();
    builder = with_endpoint(&object, builder, given, azurite.as_deref())?
        .with_config(AzureConfigKey::Client(ClientConfigKey::ConnectTimeout), CONNECT)
        .with_config(AzureConfigKey::Client(ClientConfigKey::Timeout), TIMEOUT)
        .with_retry(retry());
    let asks_machine = !has_credentials(&builder);
    let build = |builder: MicrosoftAzureBuilder| builder.build().map_err(|error| unbuilt(&object, error));
    let mut store = build(builder.clone())?;
    if asks_machine {
        let machine = Machine::new(store.credentials(), &object, ADVICE);
        store = build(builder.with_credentials(Arc::new(machine)))?;
    }
    Ok(Arc::new(store))
}

/// What to do without credentials.
const ADVICE: &str = "set AZURE_STORAGE_ACCOUNT_KEY, or AZURE_CLIENT_ID with its secret";

/// Whether somebody gave credentials, or said who has them.
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

/// What says where requests go, before the environment.
#[derive(Clone, Copy)]
struct Given<'a> {
    endpoint: Option<&'a str>,
    emulator: Option<bool>,
}

/// Says where requests go. With an emulator that is where a variable says that `Azurite` is, whatever the endpoint, and
/// plain http is allowed there: so that must be on this machine.
fn with_endpoint(
    object: &str,
    mut builder: MicrosoftAzureBuilder,
    given: Given<'_>,
    azurite: Option<&str>,
) -> Result<MicrosoftAzureBuilder> {
    if let Some(endpoint) = given.endpoint {
        if given.emulator == Some(true) {
            let reason = "`emulator` and `endpoint` exclude each other: each says where the server is";
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
        let reason =
            "AZURITE_BLOB_STORAGE_URL is for http on loopback; give an `endpoint` for another server";
        return Err(Error::invalid(object, reason));
    }
    Ok(builder.with_allow_http(plain || emulator))
}

/// As the builder reads it. What it can't read it refuses.
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
        with_endpoint("b", builder, Given { endpoint, emulator }, azurite)
    }

    #[test]
    fn an_emulator_is_on_this_machine_whoever_asks_for_it() {
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
    fn a_given_endpoint_counts_before_an_emulator_of_the_environment() {
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
    fn an_endpoint_of_the_environment_is_checked_where_no_emulator_is_asked_for() {
        for no in ["false", "0", "off", "No", "perhaps"] {
            let builder = MicrosoftAzureBuilder::new()
                .with_config(AzureConfigKey::UseEmulator, no)
                .with_endpoint(FAR.to_owned());
            let nothing = Given {
                endpoint: None,
                emulator: None,
            };
            with_endpoint("b", builder, nothing, Some(LOCAL)).unwrap_err();
        }
    }

    #[test]
    fn an_emulator_with_an_endpoint_is_refused() {
        let refused = settled(None, Some(LOCAL), Some(true), None).unwrap_err();
        assert!(refused.to_string().contains("exclude each other"), "{refused}");
    }
}
