//! Access to a store that may be damaged, without the backend's checks: [`DamagedStore`], which stores in folders and object
//! stores implement.

use crate::salvage::damage::{Damage, reason};
use async_trait::async_trait;
use bytes::Bytes;
use state_core::backend::NamePointer;
use state_core::{Backend, Enveloped, Lineage, Result, StackName};
use std::fmt;
use std::sync::Arc;

/// The folder with the objects that a salvage kept aside.
pub(super) const ASIDE: &str = "damaged";

/// A store of named objects, some of which may be damaged or missing. `docs/format.md` specifies their names.
#[async_trait]
pub(super) trait DamagedStore: fmt::Debug + Send + Sync {
    /// Reads an object; none if it is missing. Its content isn't validated.
    async fn read(&self, path: &str) -> Result<Option<Bytes>>;

    /// Reads several objects, in the order of their paths.
    async fn read_all(&self, paths: &[String]) -> Result<Vec<Option<Bytes>>>;

    /// The names of the objects and folders directly in a folder, sorted; none if the folder is missing.
    async fn entries(&self, folder: &str) -> Result<Vec<String>>;

    /// The part of this store in a folder, as a store. It is only read.
    fn below(&self, folder: &str) -> SharedStore;

    /// The stacks that an interrupted salvage or restore left complete, but not in their place, with the folder of each.
    async fn unfinished(&self) -> Result<Vec<(String, Lineage)>>;

    /// The stacks that have a folder.
    async fn stacks(&self) -> Result<Vec<Lineage>> {
        let names = self.entries("stacks").await?;
        Ok(names.iter().filter_map(|name| name.parse().ok()).collect())
    }

    /// Damage: anything else in the place of a stack's folder or of a folder of names. Object stores have no folders.
    ///
    /// # Errors
    /// `Corrupt` if the folder of all stacks or of all names isn't a folder.
    async fn misplaced_folders(&self) -> Result<Vec<Damage>> {
        Ok(Vec::new())
    }

    /// Damage of the locks of a stack, and anything else in the place of a folder in it.
    async fn part_damage(&self, lineage: Lineage) -> Result<Vec<Damage>>;

    /// The store as clients use it.
    ///
    /// # Errors
    /// `Corrupt` and `NotFound` if `format` is damaged or missing.
    fn backend(&self) -> Result<Arc<dyn Backend>>;
}

/// A damaged store that several readers share.
pub(super) type SharedStore = Arc<dyn DamagedStore>;

/// The state of a name pointer's object.
#[derive(Clone, Debug)]
pub(super) struct PointerFile {
    /// Path below the store.
    pub(super) path: String,
    pub(super) pointer: Result<NamePointer, String>,
}

impl dyn DamagedStore {
    /// Reads all name pointers of the store.
    pub(super) async fn pointers(&self) -> Result<Vec<PointerFile>> {
        let mut paths = Vec::new();
        for project in self.entries("names").await? {
            for file in self.entries(&format!("names/{project}")).await? {
                let Some(stack) = file.strip_suffix(".json") else {
                    continue;
                };
                if format!("{project}/{stack}").parse::<StackName>().is_ok() {
                    paths.push(format!("names/{project}/{file}"));
                }
            }
        }
        let stored = self.read_all(&paths).await?;
        let pointers = paths.into_iter().zip(stored).map(|(path, bytes)| {
            let pointer = match NamePointer::decode(&path, &bytes.unwrap_or_default()) {
                Ok(pointer) if path_of(&pointer.name) == path => Ok(pointer),
                Ok(_) => Err("it is the pointer of another name".to_owned()),
                Err(error) => Err(reason(&error)),
            };
            PointerFile { path, pointer }
        });
        Ok(pointers.collect())
    }
}

/// The path of the pointer of a name.
pub(super) fn path_of(name: &StackName) -> String {
    let (project, stem) = name.folded();
    format!("names/{project}/{stem}.json")
}
