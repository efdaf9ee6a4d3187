//! Reads and repairs a damaged store in files or objects: lists all damage, reads the revisions that survive, rebuilds stacks, and
//! restores stacks from a backup.
//!
//! Readers of a store refuse damage. This module reads the files without the backend, as far as they are intact, and
//! rebuilds stacks in memory. A rebuilt stack is opened as any other stack: its head, frames and snapshots are
//! authenticated, and its state is replayed. So there is one way to accept a state, for intact and for rebuilt stacks.
//!
//! ```text
//!  files ─► intact frames, by chain ─► linked up to a revision ─► base with an intact snapshot ─► stack in memory
//!           intact objects             (frame_index)              (rebuild)                       (read::open)
//! ```
//!
//! | file | purpose |
//! |---|---|
//! | `damaged_store` | the interface for reading a damaged store; `damage` is what a survey finds |
//! | `store_files`, `store_objects` | stores in folders and object stores behind this interface |
//! | `journal_files`, `slot_objects`, `frame_index`, `frame_tags` | the intact frames of a journal |
//! | `object_files`, `stack_files` | the intact objects of a stack, and all damage |
//! | `intact_objects`, `rebuilt_backend` | reads intact objects one at a time, also for a rebuilt stack |
//! | `head_template` | name, policy and keys for a rebuilt head |
//! | `rebuild`, `beginnings` | a stack from intact parts, replayed from a beginning of its history |
//! | `survey`, `survivors`, `stack_folders` | damage, surviving revisions and orphaned stacks of a store |
//! | `exchange`, `attachment` | put a stack in the place of another one, and let its name lead to it |
//! | `repair`, `report`, `marking` | puts rebuilt parts in place, with a revision that records the salvage |
//! | `store_repair`, `file_repair`, `object_repair` | moves damaged parts aside, and replaces stacks, in both kinds of stores |
//! | `backup` | reads and verifies stacks of a backup |
//! | `comparison`, `restore` | compare a backup with the store, and restore it |
//!
//! What proves a rebuilt state: each frame is covered by the digest chain of the frames after it, and on a sealed stack by
//! a MAC under the data key. Keys, policy and recipients come from the stored head or from this client's memory.

mod attachment;
mod backup;
mod beginnings;
mod comparison;
mod damage;
mod damaged_store;
mod earlier_keys;
mod exchange;
mod file_repair;
mod frame_index;
mod frame_tags;
mod head_template;
mod intact_objects;
mod journal_files;
mod marking;
mod object_files;
mod object_repair;
mod rebuild;
mod rebuilt_backend;
mod repair;
mod report;
mod restore;
mod slot_objects;
mod stack_files;
mod stack_folders;
mod store_files;
mod store_objects;
mod store_repair;
mod survey;
mod survivors;

pub use comparison::RestoreMethod;
pub use damage::Damage;
pub use report::{SalvageReport, SalvagedStack};
pub use restore::{RestorePlan, RestoredStack, StackRestore};
pub use stack_folders::StackFolder;
pub use survey::{StackSurvey, StoreSurvey};

use crate::environment::Environment;
use crate::intent::UpdateRequest;
use crate::known_stacks::KnownStacks;
use crate::read::revision_spec::RevisionSpec;
use crate::read::view::View;
use crate::salvage::rebuild::Beginning;
use damaged_store::{ASIDE, SharedStore};
use head_template::{Client, HeadTemplate, SuppliedFacts};
use stack_files::StackFiles;
use state_core::head::SealingPolicy;
use state_core::sealing::KeyProvider;
use state_core::{Backend, Error, KeyId, Lineage, Result, StackName};
use std::path::Path;
use std::sync::Arc;
use store_files::StoreFiles;
use store_objects::StoreObjects;

/// Access to a store that may be damaged, in a folder or in an object store.
///
/// ```
/// use state_manager::{Actor, Environment, Salvage, Stacks, file_url};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let folder = tempfile::tempdir().unwrap();
/// let environment = Environment::system(Actor::default());
/// let stacks = Stacks::create(&file_url(folder.path().to_str().unwrap()), environment.clone())?;
/// let stack = stacks.new_stack(&"shop/production".parse()?).await?;
/// stack.lock("deploy").await?.close().await?;
///
/// let survey = Salvage::of_folder(folder.path(), environment)?.survey().await?;
/// assert!(survey.is_intact());
/// # Ok::<(), state_core::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Salvage {
    store: SharedStore,
    /// The folder of the store; none for an object store.
    folder: Option<StoreFiles>,
    client: Client,
    facts: SuppliedFacts,
}

impl Salvage {
    /// The store in a folder. No file in it needs to be intact.
    ///
    /// # Errors
    /// `NotFound` if there is no such folder.
    pub fn of_folder(folder: impl AsRef<Path>, environment: Environment) -> Result<Self> {
        StoreFiles::new(folder.as_ref())?;
        Self::of_folder_or_missing(folder, environment)
    }

    /// The store of a backend that gives access to single objects, such as an object store. No object in it needs to be
    /// intact.
    ///
    /// # Errors
    /// `Unsupported` if the backend gives no such access.
    pub fn of_backend(backend: Arc<dyn Backend>, environment: Environment) -> Result<Self> {
        Ok(Self::new(
            Arc::new(StoreObjects::new(backend)?),
            None,
            environment,
        ))
    }

    /// The store in a folder that may be missing: [`Salvage::restore`] creates it.
    ///
    /// # Errors
    /// `Unavailable` if the path can't be resolved.
    pub fn of_folder_or_missing(folder: impl AsRef<Path>, environment: Environment) -> Result<Self> {
        let files = StoreFiles::new_or_missing(folder.as_ref())?;
        Ok(Self::new(Arc::new(files.clone()), Some(files), environment))
    }

    fn new(store: SharedStore, folder: Option<StoreFiles>, environment: Environment) -> Self {
        Self {
            store,
            folder,
            client: Client {
                environment,
                keys: None,
                known_stacks: None,
            },
            facts: SuppliedFacts::default(),
        }
    }

    /// The folder of the store, as an absolute path; none for an object store.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_ref().map(StoreFiles::root)
    }

    /// The files of the store.
    ///
    /// # Errors
    /// `Unsupported` for an object store.
    fn require_folder(&self) -> Result<&StoreFiles> {
        self.folder
            .as_ref()
            .ok_or_else(|| Error::unsupported("store", "a restore of a backup into an object store"))
    }

    /// The same store with a provider of data keys.
    #[must_use]
    pub fn with_keys(mut self, keys: Arc<dyn KeyProvider>) -> Self {
        self.client.keys = Some(keys);
        self
    }

    /// The same store with a memory of known stacks: it says which name, data key, policy and recipients a stack with a
    /// damaged head has.
    #[must_use]
    pub fn with_known_stacks(mut self, known_stacks: Arc<dyn KnownStacks>) -> Self {
        self.client.known_stacks = Some(known_stacks);
        self
    }

    /// The encryption policy of a stack without a data key whose head is damaged and that this client doesn't remember.
    #[must_use]
    pub const fn with_policy(mut self, policy: SealingPolicy) -> Self {
        self.facts.policy = Some(policy);
        self
    }

    /// The name that a stack gets whose name is lost or taken.
    #[must_use]
    pub fn with_name(mut self, name: StackName) -> Self {
        self.facts.name = Some(name);
        self
    }

    /// The data keys that a backup may have although this client remembers another one: those of the time at which it was
    /// made.
    #[must_use]
    pub fn with_keys_of_backup(mut self, keys: Vec<KeyId>) -> Self {
        self.facts.keys = keys;
        self
    }

    /// Whether there is a store, intact or damaged. A bucket without one has neither the object `format` nor stacks nor names.
    ///
    /// # Errors
    /// `Unavailable` if files can't be read.
    pub async fn exists(&self) -> Result<bool> {
        Ok(self.store.read("format").await?.is_some()
            || !self.store.entries("stacks").await?.is_empty()
            || !self.store.entries("names").await?.is_empty())
    }

    /// Lists all damage of the store, the revisions that survive, and the stacks that no name leads to. Changes nothing.
    ///
    /// # Errors
    /// `Unavailable` if files can't be read; `Format` for a store of another version.
    pub async fn survey(&self) -> Result<StoreSurvey> {
        Box::pin(survey::survey(&self.client, &self.store, &self.facts)).await
    }

    /// The stacks of the store, with their last known names. Removed stacks aren't listed.
    ///
    /// # Errors
    /// `Unavailable` if files can't be read.
    pub async fn stacks(&self) -> Result<Vec<StackFolder>> {
        Box::pin(stack_folders::folders(&self.client, &self.store)).await
    }

    /// The state at a revision of a damaged stack, from what is intact: from the stack's folder, else from the files that
    /// an earlier salvage moved aside. The revision is the current one of the view.
    ///
    /// # Errors
    /// `NotFound` if no intact frame or page names the revision; `Corrupt` if what leads to it is damaged; any error of
    /// reading the stack.
    pub async fn view_at(&self, lineage: Lineage, wanted: &RevisionSpec) -> Result<View> {
        let here = std::iter::once(Arc::clone(&self.store));
        let aside = self.stores_aside().await?;
        self.view_in_one_of(here.chain(aside), lineage, wanted).await
    }

    /// As [`Self::view_at`], only from the files that an earlier salvage or restore moved aside.
    ///
    /// # Errors
    /// As [`Self::view_at`].
    pub async fn view_set_aside(&self, lineage: Lineage, wanted: &RevisionSpec) -> Result<View> {
        let aside = self.stores_aside().await?;
        self.view_in_one_of(aside, lineage, wanted).await
    }

    /// The folders of files that were moved aside, newest first.
    async fn stores_aside(&self) -> Result<impl Iterator<Item = SharedStore>> {
        let aside = self.store.entries(ASIDE).await?.into_iter().rev();
        // The lock file of the repairs lies beside the folders.
        let aside = aside.filter(|name| !name.ends_with(".lock"));
        Ok(aside.map(|folder| self.store.below(&format!("{ASIDE}/{folder}"))))
    }

    async fn view_in_one_of(
        &self,
        stores: impl IntoIterator<Item = SharedStore>,
        lineage: Lineage,
        wanted: &RevisionSpec,
    ) -> Result<View> {
        let mut failed = None;
        for store in stores {
            if store.entries(&format!("stacks/{lineage}")).await?.is_empty() {
                continue;
            }
            let there = Self {
                store,
                ..self.clone()
            };
            match Box::pin(there.view_in_folder(lineage, wanted)).await {
                Ok(view) => return Ok(view),
                Err(error @ Error::NotFound { .. }) => drop(failed.get_or_insert(error)),
                Err(error) => failed = Some(error),
            }
        }
        Err(failed.unwrap_or_else(|| Error::not_found(format!("stack {lineage}"))))
    }

    async fn view_in_folder(&self, lineage: Lineage, wanted: &RevisionSpec) -> Result<View> {
        let files = self.files(lineage).await?;
        let object = || format!("revision {wanted} of stack {lineage}");
        let mut matching = files
            .revisions
            .values()
            .filter(|document| wanted.fits(&document.revision));
        let (found, more) = (matching.next(), matching.next());
        if more.is_some() {
            return Err(Error::invalid(
                object(),
                "several revisions match: use the whole id",
            ));
        }
        let template = self.template(&files).await?;
        let read = match found {
            Some(document) => {
                Box::pin(survivors::at_revision(&self.client, &files, &template, document)).await
            }
            None => Err(Error::not_found(object())),
        };
        match read {
            Ok((rebuilt, _)) => Ok(rebuilt.view),
            // Without the frame that made it, the base of the stack may have its state.
            Err(error) => self.newest_with(&files, &template, wanted).await.ok_or(error),
        }
    }

    /// The stack up to its newest intact frame, if it proves a revision.
    async fn newest_with(
        &self,
        files: &StackFiles,
        template: &HeadTemplate,
        wanted: &RevisionSpec,
    ) -> Option<View> {
        let end = files.end()?;
        let rebuilt = rebuild::rebuild(&self.client, files, template, &end, Beginning::Earliest);
        let view = Box::pin(rebuilt).await.ok()?.view;
        let id = view.resolve(wanted).await.ok()?.ok()?;
        view.get(&id).await.ok()?;
        Some(view)
    }

    /// The current state of a stack of which only snapshots are damaged that the state doesn't need: its journal proves
    /// that nothing follows.
    ///
    /// # Errors
    /// `Corrupt` if the head or the journal is damaged too: then the newest readable state may not be the current one.
    pub async fn current(&self, lineage: Lineage) -> Result<View> {
        let files = self.files(lineage).await?;
        let object = format!("stack {lineage}");
        let end = files
            .end()
            .filter(|_| files.head.is_some() && files.is_journal_whole);
        let Some(end) = end else {
            let reason = "its head or the end of its journal is damaged, so the current state is unknown";
            return Err(Error::corrupt(object, 0, reason));
        };
        let template = self.template(&files).await?;
        let rebuilt = rebuild::rebuild(&self.client, &files, &template, &end, Beginning::Earliest);
        let view = Box::pin(rebuilt).await?.view;
        let pin = match &self.client.known_stacks {
            Some(known) => known.seen(lineage).await?,
            None => None,
        };
        match pin.filter(|pin| pin.serial > view.state.serial()) {
            Some(pin) => {
                let reason = format!("this client knows serial {}, which is missing", pin.serial);
                Err(Error::distrusted(object, reason))
            }
            None => Ok(view),
        }
    }

    /// Repairs the store, or one of its stacks: rebuilds files that can be derived, stores the newest provable state of
    /// each damaged stack as a new revision, and lets its name lead to it again. Damaged files are moved to the folder
    /// `damaged` of the store. Running it again continues an interrupted salvage.
    ///
    /// # Errors
    /// Any error of the store, if nothing was changed before it. A stack that can't be rebuilt, or whose lock a writer holds,
    /// isn't changed: the report says why, and what a person must supply.
    pub async fn salvage(&self, only: Option<Lineage>) -> Result<SalvageReport> {
        Box::pin(repair::salvage(self, only)).await
    }

    /// Compares a backup of this store with the store: a folder that was made by copying the store's folder. Each stack of the
    /// backup is read and verified as a whole. `only` names one stack, by its name in the backup or in the store. Changes
    /// nothing.
    ///
    /// # Errors
    /// `Sealed` if no identity opens the data key of a stack; `Distrusted` if a stack of the backup has another data key than
    /// this client remembers; `Conflict` if another stack of the store has its name; `Integrity` if its state breaks a
    /// rule. Damage of the backup is no error: the plan lists it.
    pub async fn plan_restore(&self, backup: &Self, only: Option<&StackName>) -> Result<RestorePlan> {
        Box::pin(restore::plan(self, backup, only)).await
    }

    /// Restores the stacks of a plan. The state of the backup becomes a new revision of a stack that works. The backup takes
    /// the place of a stack that doesn't, which is moved to the folder `damaged` of the store, and this client then trusts
    /// what was restored. Running it again continues an interrupted restore.
    ///
    /// # Errors
    /// `Locked` if a writer holds the lock of a stack; `Conflict` if a stack changed after the plan was made, or if a stack
    /// that works has pending operations; `Corrupt` if the backup is damaged; any error of the store.
    pub async fn restore(&self, plan: &RestorePlan, request: &UpdateRequest) -> Result<Vec<RestoredStack>> {
        Box::pin(restore::restore(self, plan, request)).await
    }

    async fn files(&self, lineage: Lineage) -> Result<StackFiles> {
        survey::read_stack(&self.client, &self.store, lineage).await
    }

    async fn template(&self, files: &StackFiles) -> Result<head_template::HeadTemplate> {
        let facts = self.facts_of(files).await?;
        let mut template = head_template::of(&self.client, files, &facts).await?;
        if let Some(name) = self
            .facts
            .name
            .as_ref()
            .filter(|name| **name != template.head.name)
        {
            template.head.name = name.clone();
            template.is_renamed = true;
        }
        Ok(template)
    }

    /// The supplied facts, with the last known name of the stack.
    async fn facts_of(&self, files: &StackFiles) -> Result<SuppliedFacts> {
        let pointers = self.store.pointers().await?;
        let name = survey::name_of(&self.client, files, &pointers).await?;
        Ok(SuppliedFacts {
            name: self.facts.name.clone().or(name),
            ..self.facts.clone()
        })
    }
}
