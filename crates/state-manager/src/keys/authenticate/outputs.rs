//! Published outputs. Their document has recipients of its own, and a MAC under the output key, which is wrapped in the
//! document. A reader of the outputs can't open the data key, so only its memory says which key is the stack's: see
//! `read::outputs`.

use super::Authenticated;
use crate::context::StoreContext;
use crate::keys::proof::Proof;
use state_core::backend::{ObjectKind, ObjectName};
use state_core::sealing::OpenedOutputs;
use state_core::{Error, Lineage, Result};

/// Reads the latest outputs document of a stack; none if there is none. `object` names the stack in errors.
///
/// # Errors
/// `Sealed` if this client can't open the document, or if its serial isn't the one in its name.
pub(crate) async fn outputs(
    store: &StoreContext,
    lineage: Lineage,
    object: &str,
) -> Result<Option<Authenticated<OpenedOutputs>>> {
    let documents = store.backend().list(lineage, ObjectKind::Outputs).await?;
    let Some(latest) = documents.last() else {
        return Ok(None);
    };
    let Some(provider) = store.keys() else {
        let reason = "its outputs are sealed, and no identity is available to open them";
        return Err(Error::sealed(object, reason));
    };
    let document = store.backend().read(lineage, latest).await?;
    // The provider doesn't know the name of the stack, and the user needs the name of the damaged document.
    let opened = provider
        .open_outputs(lineage, &document)
        .map_err(|error| match (error, latest) {
            (Error::Sealed { reason, .. }, ObjectName::Outputs(serial)) => {
                let path = format!("outputs/{lineage}/{:020}.json", serial.get());
                Error::sealed(object, format!("{path}: {reason}"))
            }
            (error, _) => error,
        })?;
    if ObjectName::Outputs(opened.serial) != *latest {
        // An attacker could store an old document under a newer name; the serial inside the document is sealed.
        let reason = format!(
            "{latest} contains the outputs of serial {}: the store was altered",
            opened.serial
        );
        return Err(Error::sealed(object, reason));
    }
    Ok(Some(Authenticated::new(opened, Proof::Published)))
}
