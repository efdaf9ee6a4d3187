//! Tests of the codec.

mod blocks;
mod forms;
mod laws;
mod one_pass;
mod strictness;

use super::{decode, encode_pretty, encode_stored};
use crate::{Error, Snapshot};

/// A snapshot as version 0.4.0 of the tool unobin writes it.
const UNOBIN: &str = r#"{
  "format-version": 1,
  "stack": {
    "name": "shop",
    "version": "v0.3.1",
    "content-revision": "sha256:9f86d081"
  },
  "deployment-id": "prod",
  "generated-at": "2026-05-30T12:00:00.123456789Z",
  "entries": [
    {
      "address": "network.vpc",
      "type": "leaf",
      "kind": "aws-vpc",
      "schema-version": 2,
      "sensitive-inputs": [
        "secret"
      ],
      "inputs": {
        "cidr": "10.0.0.0/16",
        "ports": [
          80,
          443
        ],
        "secret": "a\u003cb\u0026c",
        "tags": {}
      },
      "outputs": {
        "id": "vpc-1",
        "size": 1.5
      }
    },
    {
      "address": "network",
      "type": "library-call",
      "library": "aws",
      "library-type": "network",
      "configuration": "aws.east",
      "depends-on": [
        "network.vpc"
      ]
    },
    {
      "address": "migrate",
      "type": "action",
      "kind": "run",
      "trigger-hash": "abc"
    }
  ],
  "outputs": {
    "url": "https://example.com/?a=1\u0026b=2"
  }
}
"#;

/// Decodes a valid snapshot.
fn read(text: &str) -> Snapshot {
    decode("snapshot", text.as_bytes()).unwrap_or_else(|error| panic!("{error}"))
}

/// Decodes an invalid snapshot, and returns the parse error without the object's name.
fn refusal(text: &str) -> String {
    match decode("snapshot s", text.as_bytes()) {
        Err(Error::Malformed { object, source }) => {
            assert_eq!(object, "snapshot s");
            source.to_string()
        }
        other => panic!("expected a malformed document, got {other:?}"),
    }
}

/// Returns the text of a snapshot with these entries, which begin on line 2.
fn with_entries(entries: &str) -> String {
    format!(
        "{{\"deployment-id\":\"s\",\"format-version\":1,\"generated-at\":\"t\",\"stack\":{{}},\"entries\":[\n{entries}\n]}}\n"
    )
}
