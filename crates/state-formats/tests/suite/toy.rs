//! A state format that is defined outside of the crate, in one file. The tests of `statectl` use this format too.

use state_core::mask::OpaquePointers;
use state_core::snapshot::ForeignSerial;
use state_core::{Entry, FactoryInfo, Json, Serial, Snapshot};
use state_formats::{
    Confidence, Content, Description, Detection, Error, ForeignMeta, Identity, Imported, ReadOptions, Result,
    StateFile, StateFormat,
};

const MAGIC: &str = "toy 1\n";

/// A format that isn't JSON: the first line names the format, each other line a resource.
#[derive(Debug)]
pub(crate) struct Toy;

impl Toy {
    fn text(bytes: &[u8]) -> Option<&str> {
        std::str::from_utf8(bytes).ok()?.strip_prefix(MAGIC)
    }
}

impl StateFormat for Toy {
    fn name(&self) -> &'static str {
        "toy"
    }

    fn aliases(&self) -> &'static [&'static str] {
        &["toys"]
    }

    fn description(&self) -> Description {
        Description {
            system: "Toy",
            reads: "names, one a line",
            writes: "the same",
            refuses: "nothing",
        }
    }

    fn detect(&self, content: &Content<'_>) -> Detection {
        let description = Self::text(content.bytes()).map(|_| "a state of Toy".to_owned());
        Detection::of(Confidence::Certain, description)
    }

    fn read(&self, file: StateFile, options: &ReadOptions<'_>) -> Result<Imported> {
        let names = Self::text(file.bytes()).ok_or(Error::NoState)?;
        let mut snapshot = Snapshot::new(FactoryInfo::default(), "", options.clock.now());
        for name in names.lines() {
            let entry = Entry::leaf(name.parse()?, "toy");
            snapshot.entries.push(entry.into());
        }
        snapshot.extensions.insert("toy", Json::null());
        let serial = ForeignSerial::after_import(None, 0, Serial::ZERO);
        snapshot.foreign_serials.insert("toy".to_owned(), serial);
        Ok(Imported {
            snapshot,
            foreign: Some(ForeignMeta {
                system: "toy",
                lineage: "the only one".to_owned(),
                serial: 0,
            }),
            notes: Vec::new(),
        })
    }

    fn write(&self, snapshot: &Snapshot, out: &mut dyn FnMut(&[u8])) -> Result<()> {
        let names = snapshot
            .entries
            .iter()
            .map(|entry| format!("{}\n", entry.address));
        out((MAGIC.to_owned() + &names.collect::<String>()).as_bytes());
        Ok(())
    }

    fn opaque(&self) -> Option<OpaquePointers<'static>> {
        Some(OpaquePointers {
            in_entry: &["/hidden"],
            in_snapshot: &[],
        })
    }

    fn identity(&self, snapshot: &Snapshot) -> Result<Option<Identity>> {
        Ok(self.came_from(snapshot).then(|| Identity {
            lineage: "the only one".to_owned(),
            serial: None,
        }))
    }
}
