//! Tests which configurations of object stores are accepted, without a request to a server.

use super::*;
use state_core::ErrorKind;
use state_core::backend::Opening;

fn kind(scheme: &str) -> BackendType {
    let kinds = backend_types().unwrap();
    kinds.into_iter().find(|kind| kind.name() == scheme).unwrap()
}

#[cfg(feature = "aws")]
fn s3(given: &[(&str, &str)]) -> Result<Arc<dyn Backend>> {
    let usual = [
        ("bucket", "b"),
        ("region", "r"),
        ("access-key-id", "k"),
        ("secret-access-key", "CANARY"),
    ];
    kind("s3").open(usual.iter().chain(given).copied(), Opening::Existing, None)
}

#[cfg(feature = "aws")]
#[test]
fn store_shows_its_url_but_no_secret() {
    let store = s3(&[("prefix", "deep/er"), ("endpoint", "http://127.0.0.1:1")]).unwrap();
    assert_eq!(store.url(), "s3://b/deep/er");
    assert!(!format!("{store:?}").contains("CANARY"));
    assert_eq!(s3(&[]).unwrap().url(), "s3://b");
}

#[cfg(feature = "aws")]
#[test]
fn plain_http_is_for_loopback_only() {
    for local in [
        "http://127.0.0.1:9000",
        "http://[::1]:9000/x",
        "http://localhost",
        "https://s3.example",
    ] {
        s3(&[("endpoint", local)]).unwrap();
    }
    for far in [
        "http://10.0.0.1:9000",
        "http://s3.example/",
        "http://localhost.evil",
    ] {
        let refused = s3(&[("endpoint", far)]).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid, "{far}");
        assert!(refused.to_string().contains("loopback"), "{refused}");
    }
}

#[cfg(feature = "aws")]
#[test]
fn lease_is_limited_to_one_hour() {
    s3(&[("lease", "3600")]).unwrap();
    let refused = s3(&[("lease", "3601")]).unwrap_err();
    assert!(refused.to_string().contains("8 to 3600"), "{refused}");
}

#[cfg(all(feature = "aws", feature = "gcp", feature = "azure"))]
#[test]
fn endpoint_with_password_is_refused_and_not_repeated() {
    for endpoint in [
        "http://me:CANARY@127.0.0.1:9000",
        "https://me:CANARY@s3.example",
        "https:/me:CANARY@s3.example",
        "http://CANARY.example\\@127.0.0.1",
        "CANARY@s3.example",
    ] {
        for (scheme, bucket) in [("s3", "bucket"), ("gs", "bucket"), ("az", "container")] {
            let given = [(bucket, "b"), ("endpoint", endpoint)];
            let refused = kind(scheme).open(given, Opening::Existing, None).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Invalid, "{scheme}");
            assert!(refused.to_string().contains("no password"), "{refused}");
            assert!(!format!("{refused:?} {refused}").contains("CANARY"), "{refused}");
        }
    }
}

#[cfg(feature = "aws")]
#[test]
fn invalid_configuration_is_refused_without_a_request() {
    for given in [
        ("lease", "1"),
        ("lease", "-60"),
        ("lease", "3601"),
        ("patience", "0"),
        ("patience", "601"),
        ("prefix", "a//b"),
        ("path-style", "perhaps"),
    ] {
        assert_eq!(s3(&[given]).unwrap_err().kind(), ErrorKind::Invalid, "{given:?}");
    }
}

#[cfg(all(feature = "aws", feature = "gcp", feature = "azure"))]
#[test]
fn text_that_would_change_the_host_is_refused() {
    for other in [
        "CANARY.example/",
        "CANARY.example#",
        "a@CANARY.example",
        "a:CANARY@b",
        "a?CANARY",
        "a\\CANARY",
    ] {
        for (scheme, field, rest) in [
            ("s3", "bucket", ("region", "r")),
            ("s3", "region", ("bucket", "b")),
            ("gs", "bucket", ("endpoint", "https://gcs.example")),
            ("az", "container", ("account", "a")),
            ("az", "account", ("container", "c")),
        ] {
            let refused = kind(scheme).open([(field, other), rest], Opening::Existing, None);
            let refused = refused.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Invalid, "{scheme} {field} {other}");
            assert!(!format!("{refused:?} {refused}").contains("CANARY"), "{refused}");
        }
    }
}

#[cfg(all(feature = "aws", feature = "gcp", feature = "azure"))]
#[test]
fn every_scheme_has_a_valid_schema() {
    let kinds = backend_types().unwrap();
    let names: Vec<_> = kinds.iter().map(BackendType::name).collect();
    assert_eq!(names, ["s3", "gs", "az"]);
    let plain = "http://127.0.0.1:1";
    let gs = [("bucket", "b"), ("endpoint", plain)];
    assert_eq!(
        kind("gs").open(gs, Opening::Existing, None).unwrap().url(),
        "gs://b"
    );
    let az = [("container", "c"), ("emulator", "true")];
    assert_eq!(
        kind("az").open(az, Opening::Existing, None).unwrap().url(),
        "az://c"
    );
}
