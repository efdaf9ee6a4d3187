//! Configuration of the `file://` backend.

use crate::store::{FsBackend, LOCK_TIMEOUT};
use state_core::backend::{BackendType, OpenRequest, Opening};
use state_core::configuration::{ConfigurationType, FieldKind, FieldType, FieldValue};
use state_core::{Backend, Error, Result};
use std::sync::Arc;
use std::time::Duration;

/// Returns the backend type `file`, with the schema of its configuration.
///
/// # Errors
/// None in practice: the schema is constant, and a test checks that it is valid.
pub fn backend_type() -> Result<BackendType> {
    let lock_timeout = i64::try_from(LOCK_TIMEOUT.as_secs()).unwrap_or(i64::MAX);
    let fields = vec![
        FieldType::new("path", FieldKind::Path, "folder of the store").required(),
        FieldType::new(
            "lock-timeout",
            FieldKind::Integer,
            "seconds to wait for another process that is changing the same stack or a stack name",
        )
        .with_default(FieldValue::Integer(lock_timeout)),
        FieldType::new(
            "group-writable",
            FieldKind::Boolean,
            "let the members of the folder's group use a store that is created",
        )
        .with_default(FieldValue::Boolean(false)),
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
    let lock_timeout = configuration.integer("lock-timeout").unwrap_or_default();
    let lock_timeout = u64::try_from(lock_timeout)
        .map_err(|_| invalid("`lock-timeout` must be a number of seconds, 0 or more"))?;
    let is_group_writable = configuration.boolean("group-writable").unwrap_or_default();
    let store = match opening {
        Opening::Existing => FsBackend::open(path)?,
        Opening::Create if is_group_writable => FsBackend::create_for_group(path)?,
        Opening::Create => FsBackend::create(path)?,
    };
    Ok(Arc::new(
        store.with_lock_timeout(Duration::from_secs(lock_timeout)),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schema_is_valid_and_opens_the_store_it_names() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let kind = backend_type().unwrap();
        let given = [("path", path.to_str().unwrap())];
        let missing = kind.open(given, Opening::Existing, None).unwrap_err();
        assert!(matches!(missing, Error::NotFound { .. }), "{missing}");
        let made = kind.open(given, Opening::Create, None).unwrap();
        assert!(made.url().ends_with("/store"));
        kind.open(given, Opening::Existing, None).unwrap();
        let negative = kind.open([given[0], ("lock-timeout", "-1")], Opening::Existing, None);
        assert!(negative.unwrap_err().to_string().contains("`lock-timeout`"));
    }
}
