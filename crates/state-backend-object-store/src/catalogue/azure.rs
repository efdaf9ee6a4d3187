//! `az://container/prefix`: Azure Blob Storage.

use super::{CONNECT, Kind, TIMEOUT, install_tls, is_plain, is_set, retry, text, unbuilt};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::{ClientConfigKey, ObjectStore};
use state_core::Result;
use state_core::backend::BackendType;
use state_core::configuration::{Configuration, FieldKind, FieldType};
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
                "whether the server is Azurite on this machine, with the account that everybody knows",
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
        ("endpoint", AzureConfigKey::Endpoint),
        ("access-key", AzureConfigKey::AccessKey),
    ];
    for (field, key) in given {
        if let Some(value) = text(configuration, field) {
            builder = builder.with_config(key, value);
        }
    }
    let emulator = is_set(configuration, "emulator");
    if emulator {
        builder = builder.with_use_emulator(true);
    }
    let endpoint = builder.get_config_value(&AzureConfigKey::Endpoint);
    let plain = is_plain(&object, endpoint.as_deref())?;
    let store = builder
        .with_config(AzureConfigKey::Client(ClientConfigKey::ConnectTimeout), CONNECT)
        .with_config(AzureConfigKey::Client(ClientConfigKey::Timeout), TIMEOUT)
        .with_allow_http(plain || emulator)
        .with_retry(retry())
        .build()
        .map_err(|error| unbuilt(&object, error))?;
    Ok(Arc::new(store))
}
