//! A stack's state as an opaque, versioned document, for tools that forward states without reading them.

use crate::error::{Error, Result};
use crate::json::Json;
use crate::snapshot::{CURRENT_FORMAT_VERSION, Snapshot};
use crate::{codec, snapshot};
use serde::{Deserialize, Serialize};

/// A versioned document with a state in an opaque format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct UntypedDeployment {
    /// Format version of the document.
    pub version: u64,
    /// The state. For the version that this build supports, a snapshot in the encoding of [`codec`].
    pub deployment: Json,
}

impl UntypedDeployment {
    /// Encodes a snapshot as a document.
    ///
    /// # Errors
    /// `Malformed` if the encoded snapshot is not valid JSON, because a field contains a value that the format can't
    /// represent.
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

    /// Decodes the snapshot in the document. Doesn't verify its integrity.
    ///
    /// # Errors
    /// `Format` for a version that this build doesn't support; `Malformed` if the document is not a snapshot.
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
    use crate::testkit::run::property_config;
    use crate::testkit::strategy::snapshots;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(property_config())]

        #[test]
        fn snapshot_survives_encoding_as_deployment(snapshot in snapshots(8)) {
            let document = UntypedDeployment::of(&snapshot).unwrap();
            let text = serde_json::to_string(&document).unwrap();
            let read: UntypedDeployment = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(read.snapshot().unwrap(), snapshot);
        }
    }

    #[test]
    fn unsupported_version_is_refused_with_its_number() {
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
