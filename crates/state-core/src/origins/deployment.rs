//! A stack's state as an opaque document with a version: how seed 001 hands states over.

use crate::error::{Error, Result};
use crate::json::Json;
use crate::snapshot::{CURRENT_FORMAT_VERSION, Snapshot};
use crate::{codec, snapshot};
use serde::{Deserialize, Serialize};

/// A versioned document that whoever passes it on needn't understand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct UntypedDeployment {
    /// The format version of what is inside.
    pub version: u64,
    /// The state: for the version that this build knows, a snapshot as [`codec`] reads and writes it.
    pub deployment: Json,
}

impl UntypedDeployment {
    /// A snapshot as a document.
    ///
    /// # Errors
    /// `Malformed` when it can't be read back: then a field of it holds what no document can.
    pub fn of(snapshot: &Snapshot) -> Result<Self> {
        let text = codec::encode_pretty(snapshot);
        let deployment = Json::parse(&text).map_err(|source| Error::Malformed {
            object: format!("snapshot of {}", snapshot.stack),
            source,
        })?;
        Ok(Self {
            version: CURRENT_FORMAT_VERSION,
            deployment,
        })
    }

    /// The snapshot in it. Doesn't verify integrity.
    ///
    /// # Errors
    /// `Format` for a version that this build doesn't know; `Malformed` when it isn't a snapshot.
    pub fn snapshot(&self) -> Result<Snapshot> {
        if self.version != snapshot::CURRENT_FORMAT_VERSION {
            return Err(Error::format("deployment", self.version, CURRENT_FORMAT_VERSION));
        }
        codec::decode("deployment", self.deployment.as_str().as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::UntypedDeployment;
    use crate::error::ErrorKind;
    use crate::testkit::strategy::snapshots;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_snapshot_survives_as_a_document_and_as_its_text(snapshot in snapshots(8)) {
            let document = UntypedDeployment::of(&snapshot).unwrap();
            let text = serde_json::to_string(&document).unwrap();
            let read: UntypedDeployment = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(read.snapshot().unwrap(), snapshot);
        }
    }

    #[test]
    fn other_versions_are_refused_by_number() {
        let text = r#"{"version":3,"deployment":{}}"#;
        let read: UntypedDeployment = serde_json::from_str(text).unwrap();
        let error = read.snapshot().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Format);
        assert!(error.to_string().contains('3'), "{error}");
        let text = r#"{"version":1,"deployment":{}}"#;
        let read: UntypedDeployment = serde_json::from_str(text).unwrap();
        assert_eq!(read.snapshot().unwrap_err().kind(), ErrorKind::Invalid);
    }
}
