//! The intact objects of a stack. Only small ones are kept in memory: snapshots and logs are read again when they are needed,
//! because those of a long history may not fit into memory together.

use crate::compute::compute;
use crate::salvage::damaged_store::SharedStore;
use bytes::Bytes;
use state_core::backend::{ObjectKind, ObjectName};
use state_core::{Digest, Error, Lineage, Result};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Where the bytes of an intact object are.
#[derive(Clone, Debug)]
enum ObjectSource {
    Memory(Bytes),
    /// In the store, as they were when they were checked.
    Store {
        length: u64,
        digest: Digest,
    },
}

/// The intact objects of a stack, by name.
#[derive(Clone, Debug)]
pub(super) struct IntactObjects {
    store: SharedStore,
    lineage: Lineage,
    sources: BTreeMap<ObjectName, ObjectSource>,
}

impl IntactObjects {
    pub(super) fn new(store: &SharedStore, lineage: Lineage) -> Self {
        Self {
            store: Arc::clone(store),
            lineage,
            sources: BTreeMap::new(),
        }
    }

    /// Adds an object that was read from the store and is intact. Wrapped keys and pages of the history stay in memory.
    pub(super) fn add_stored(&mut self, name: ObjectName, bytes: Bytes, digest: Digest) {
        let source = match name.kind() {
            ObjectKind::Key | ObjectKind::Update => ObjectSource::Memory(bytes),
            _ => ObjectSource::Store {
                length: bytes.len() as u64,
                digest,
            },
        };
        self.sources.insert(name, source);
    }

    /// Adds an object that isn't stored.
    pub(super) fn add_made(&mut self, name: ObjectName, bytes: Bytes) {
        self.sources.insert(name, ObjectSource::Memory(bytes));
    }

    pub(super) fn contains(&self, name: &ObjectName) -> bool {
        self.sources.contains_key(name)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &ObjectName> {
        self.sources.keys()
    }

    pub(super) fn retain(&mut self, is_kept: impl Fn(&ObjectName) -> bool) {
        self.sources.retain(|name, _| is_kept(name));
    }

    /// The bytes of an object that is kept in memory.
    pub(super) fn in_memory(&self, name: &ObjectName) -> Option<&Bytes> {
        match self.sources.get(name)? {
            ObjectSource::Memory(bytes) => Some(bytes),
            ObjectSource::Store { .. } => None,
        }
    }

    /// The number of bytes in memory.
    #[cfg(test)]
    pub(super) fn memory(&self) -> usize {
        let names = self.names().filter_map(|name| self.in_memory(name));
        names.map(Bytes::len).sum()
    }

    /// Length and digest of an object's bytes.
    pub(super) fn identity(&self, name: &ObjectName) -> Option<(u64, Digest)> {
        Some(match self.sources.get(name)? {
            ObjectSource::Memory(bytes) => (bytes.len() as u64, Digest::of(bytes)),
            ObjectSource::Store { length, digest } => (*length, *digest),
        })
    }

    /// Names, lengths and digests of the published outputs.
    pub(super) fn published(&self) -> Vec<(ObjectName, Option<(u64, Digest)>)> {
        let outputs = self.names().filter(|name| name.kind() == ObjectKind::Outputs);
        outputs.map(|name| (name.clone(), self.identity(name))).collect()
    }

    /// Reads an object.
    ///
    /// # Errors
    /// `NotFound` if no intact object has this name; `Corrupt` if its file changed since it was checked.
    pub(super) async fn read(&self, name: &ObjectName) -> Result<Bytes> {
        let path = self.path(name);
        let (length, digest) = match self.sources.get(name) {
            None => return Err(Error::not_found(path)),
            Some(ObjectSource::Memory(bytes)) => return Ok(bytes.clone()),
            Some(ObjectSource::Store { length, digest }) => (*length, *digest),
        };
        let found = self.store.read(&path).await?;
        let check = move || found.filter(|bytes| (bytes.len() as u64, Digest::of(bytes)) == (length, digest));
        compute(check)
            .await?
            .ok_or_else(|| Error::corrupt(path, 0, "it changed while the stack was read"))
    }

    fn path(&self, name: &ObjectName) -> String {
        format!("{}/{}", name.kind().path(self.lineage), name.file_name())
    }
}

#[cfg(test)]
mod tests {
    use super::IntactObjects;
    use crate::salvage::damaged_store::SharedStore;
    use crate::salvage::store_files::StoreFiles;
    use bytes::Bytes;
    use state_core::backend::ObjectName;
    use state_core::{Digest, ErrorKind, Lineage, Serial, Slot};
    use std::fs;
    use std::sync::Arc;

    #[tokio::test]
    async fn packed_objects_are_read_again_and_not_held() {
        let folder = tempfile::tempdir().unwrap();
        let lineage = Lineage::from_bytes([7; 16]);
        let store: SharedStore = Arc::new(StoreFiles::new(folder.path()).unwrap());
        let mut objects = IntactObjects::new(&store, lineage);
        let snapshot = ObjectName::Snapshot {
            slot: Slot(1),
            short: "0123456789abcdef".to_owned(),
        };
        let bytes = Bytes::from(vec![1; 1 << 20]);
        for name in [
            snapshot.clone(),
            ObjectName::Log(Serial(1)),
            ObjectName::Outputs(Serial(1)),
        ] {
            let path = folder.path().join(objects.path(&name));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, &bytes).unwrap();
            objects.add_stored(name.clone(), bytes.clone(), Digest::of(&bytes));
            assert_eq!(objects.read(&name).await.unwrap(), bytes);
        }
        assert_eq!(objects.memory(), 0);
        // A file that changed since it was checked isn't taken for the object.
        fs::write(folder.path().join(objects.path(&snapshot)), "other").unwrap();
        let changed = objects.read(&snapshot).await.unwrap_err();
        assert_eq!(changed.kind(), ErrorKind::Corrupt, "{changed}");
        fs::remove_file(folder.path().join(objects.path(&snapshot))).unwrap();
        assert_eq!(
            objects.read(&snapshot).await.unwrap_err().kind(),
            ErrorKind::Corrupt
        );
        assert_eq!(objects.clone().memory(), 0);
    }
}
