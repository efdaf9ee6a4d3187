//! The registry of backend types, which maps the scheme of a store's URL to a backend: built-in types, and types that
//! an application registers.

use super::*;
use state_core::backend::{Backend, BackendType, OpenRequest};
use state_core::configuration::{ConfigurationType, FieldKind, FieldType};
use state_core::{Crypter, ErrorKind, Result};
use state_manager::{BackendRegistry, StoreRequest};

/// A crypter that is only passed on.
#[derive(Debug)]
struct Rot13;

impl Crypter for Rot13 {
    fn encrypt(&self, _context: &str, _plaintext: &[u8]) -> Result<String> {
        Ok(String::new())
    }

    fn decrypt(&self, _context: &str, _ciphertext: &str) -> Result<Vec<u8>> {
        Ok(Vec::new())
    }
}

/// A backend type that accepts only one token, and requires a crypter.
fn picky() -> BackendType {
    let fields = vec![
        FieldType::new("bucket", FieldKind::String, "where").required(),
        FieldType::new("prefix", FieldKind::String, "where in it"),
        FieldType::new("token", FieldKind::String, "who").secret(),
    ];
    let open = |request: OpenRequest| {
        assert!(request.crypter.is_some(), "the factory must receive the crypter");
        assert_eq!(request.configuration.string("token"), Some("hunter2"));
        assert_eq!(request.configuration.string("prefix"), Some("a/b"));
        Ok(Arc::new(MemoryBackend::new()) as Arc<dyn Backend>)
    };
    BackendType::new(
        "picky",
        "For this test.",
        ConfigurationType::new(fields).unwrap(),
        open,
    )
    .unwrap()
    .with_location(&["bucket", "prefix"])
    .unwrap()
}

#[tokio::test]
async fn third_party_backend_is_opened_by_its_url() {
    let mut registry = BackendRegistry::default();
    registry.register(picky()).unwrap();
    let store = StoreRequest::new("picky://bucket/a/b?token=wrong")
        .with_config("token", "hunter2")
        .with_crypter(Arc::new(Rot13));
    assert!(!format!("{store:?}").contains("wrong"));
    let stacks = Stacks::open_with(&registry, &store, environment(1)).unwrap();
    stacks.new_stack(&"shop".parse().unwrap()).await.unwrap();
    assert_eq!(
        registry.register(picky()).unwrap_err().kind(),
        ErrorKind::Conflict
    );
}

#[test]
fn invalid_configuration_error_lists_the_valid_fields() {
    let mut registry = BackendRegistry::default();
    registry.register(picky()).unwrap();
    let error = |store: &StoreRequest| Stacks::open_with(&registry, store, environment(1)).unwrap_err();
    let unknown = error(&StoreRequest::new("picky://b?tokn=hunter2"));
    assert_eq!(unknown.kind(), ErrorKind::Invalid);
    assert!(
        unknown.to_string().contains("`bucket`, `prefix`, `token`"),
        "{unknown}"
    );
    assert!(!unknown.to_string().contains("hunter2"), "{unknown}");
    let missing = error(&StoreRequest::new("picky://"));
    assert!(
        missing.to_string().contains("`bucket` is missing: where"),
        "{missing}"
    );
    let scheme = error(&StoreRequest::new("ftp://x"));
    assert!(scheme.to_string().contains("memory://, picky://"), "{scheme}");
    for (scheme, feature) in [("file", "fs"), ("s3", "aws"), ("gs", "gcp"), ("az", "azure")] {
        if registry.get(scheme).is_none() {
            let off = error(&StoreRequest::new(format!("{scheme}://x")));
            assert_eq!(off.kind(), ErrorKind::Unsupported);
            assert!(
                off.to_string().contains(&format!("the feature `{feature}`")),
                "{off}"
            );
        }
    }
}

#[test]
fn secrets_in_a_url_are_not_printed() {
    let mut registry = BackendRegistry::default();
    registry.register(picky()).unwrap();
    for (url, shown) in [
        ("picky://b/a?token=hunter2", "picky://b/a"),
        ("picky://b?prefix=x&token=hunter2", "picky://b?prefix=x"),
        ("other://b?token=hunter2", "other://b"),
        ("picky://b?hunter2", "picky://b"),
        ("picky://b", "picky://b"),
        (
            "picky://b?prefix=http://u:hunter2@minio:9000/x",
            "picky://b?prefix=http://minio:9000/x",
        ),
        (
            "picky://b?prefix=http%3A%2F%2Fu%3Ahunter2%40m",
            "picky://b?prefix=http://m",
        ),
        ("picky://b?prefix=u:hunter2@m", "picky://b?prefix=m"),
    ] {
        assert_eq!(registry.shown(url), shown);
    }
}

#[tokio::test]
async fn store_in_memory_is_shared_within_its_registry() {
    let registry = BackendRegistry::default();
    let store = StoreRequest::new("memory://one");
    let missing = Stacks::open_with(&registry, &store, environment(1)).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    let stacks = Stacks::create_with(&registry, &store, environment(1)).unwrap();
    stacks.new_stack(&"shop".parse().unwrap()).await.unwrap();
    let again = Stacks::open_with(&registry.clone(), &store, environment(2)).unwrap();
    assert_eq!(again.names().await.unwrap().len(), 1);
    let other = Stacks::create_with(&registry, &StoreRequest::new("memory://"), environment(3)).unwrap();
    assert!(other.names().await.unwrap().is_empty());
}

#[cfg(feature = "fs")]
#[test]
fn file_url_accepts_parameters() {
    let folder = tempfile::tempdir().unwrap();
    let url = state_manager::file_url(folder.path().join("a?b 100%").to_str().unwrap());
    Stacks::create(&url, environment(1)).unwrap();
    assert!(folder.path().join("a?b 100%/format").is_file());
    Stacks::open(&format!("{url}?lock-timeout=1"), environment(1)).unwrap();
    let error = Stacks::open(&format!("{url}?lock-timeout=soon"), environment(1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("whole number"), "{error}");
}
