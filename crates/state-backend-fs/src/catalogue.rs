//! How `file://` is configured.

use crate::store::{FsBackend, PATIENCE};
use state_core::backend::{BackendType, OpenRequest, Opening};
use state_core::configuration::{ConfigurationType, FieldKind, FieldType, FieldValue};
use state_core::{Backend, Error, Result};
use std::sync::Arc;
use std::time::Duration;

/// The kind of backend that is called `file`.
///
/// # Errors
/// None: the schema is sound, and a test says so.
pub fn backend_type() -> Result<BackendType> {
    let patience = i64::try_from(PATIENCE.as_secs()).unwrap_or(i64::MAX);
    let fields = vec![
        FieldType::new("path", FieldKind::Path, "the folder of the store").required(),
        FieldType::new(
            "patience",
            FieldKind::Integer,
            "seconds to wait for the short locks under which heads and names change",
        )
        .with_default(FieldValue::Integer(patience)),
    ];
    BackendType::new(
        "file",
        "A folder on a local filesystem.",
        ConfigurationType::new(fields)?,
        open,
    )?
    .with_location(&["path"])
}

fn open(request: OpenRequest) -> Result<Arc<dyn Backend>> {
    let invalid = |reason| Error::invalid("configuration of backend file", reason);
    let OpenRequest {
        configuration,
        opening,
        ..
    } = request;
    let path = configuration
        .path("path")
        .ok_or_else(|| invalid("`path` is missing"))?;
    let patience = configuration.integer("patience").unwrap_or_default();
    let patience =
        u64::try_from(patience).map_err(|_| invalid("`patience` is a number of seconds, 0 or more"))?;
    let store = match opening {
        Opening::Existing => FsBackend::open(path)?,
        Opening::Create => FsBackend::create(path)?,
    };
    Ok(Arc::new(store.with_patience(Duration::from_secs(patience))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_is_sound_and_opens_what_it_names() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let kind = backend_type().unwrap();
        let given = [("path", path.to_str().unwrap())];
        let missing = kind.open(given, Opening::Existing, None).unwrap_err();
        assert!(matches!(missing, Error::NotFound { .. }), "{missing}");
        let made = kind.open(given, Opening::Create, None).unwrap();
        assert!(made.url().ends_with("/store"));
        kind.open(given, Opening::Existing, None).unwrap();
        let negative = kind.open([given[0], ("patience", "-1")], Opening::Existing, None);
        assert!(negative.unwrap_err().to_string().contains("`patience`"));
    }
}
