//! The native snapshot format, as backends store it and as exports write it.

use crate::error::{Error, Result};
use crate::format::{
    Confidence, Content, Description, Detection, Identity, Imported, ReadOptions, StateFormat,
};
use crate::state_file::StateFile;
use state_core::{Serial, Snapshot, codec};

/// The native snapshot format, compact or indented.
#[derive(Clone, Copy, Debug, Default)]
pub struct Native;

impl StateFormat for Native {
    fn name(&self) -> &'static str {
        "native"
    }

    fn description(&self) -> Description {
        Description {
            system: "statectl",
            reads: "native snapshots, as stored and as exported",
            writes: "any stack, indented",
            refuses: "other format versions",
        }
    }

    fn detect(&self, content: &Content<'_>) -> Detection {
        let version = content.root().and_then(|root| root.get("format-version"));
        let description = version.map(|version| {
            let version = version.as_u64().unwrap_or_default();
            format!("a snapshot of statectl, format version {version}")
        });
        Detection::of(Confidence::Likely, description)
    }

    fn read(&self, file: StateFile, options: &ReadOptions<'_>) -> Result<Imported> {
        let bytes = file.into_bytes();
        if bytes.is_empty() {
            return Err(Error::NoState);
        }
        Ok(Imported {
            snapshot: options.decode("snapshot", &bytes)?,
            foreign: None,
            notes: Vec::new(),
        })
    }

    fn write(&self, snapshot: &Snapshot, out: &mut dyn FnMut(&[u8])) -> Result<()> {
        out(codec::encode_pretty(snapshot).as_bytes());
        Ok(())
    }

    fn identity(&self, snapshot: &Snapshot) -> Result<Option<Identity>> {
        let lineage = snapshot.lineage.map(|lineage| lineage.to_string());
        Ok(Some(Identity {
            lineage: lineage.unwrap_or_default(),
            serial: Some(snapshot.serial.unwrap_or(Serial::ZERO).get()),
        }))
    }
}
