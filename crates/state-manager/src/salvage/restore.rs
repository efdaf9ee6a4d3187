//! Restores stacks from a backup. What the store has stays: in the history, or moved aside ([`Exchange`]).
//!
//! The restored stack gets the revision that records the restore before it takes its place. So a crash leaves the store as it
//! was, or with the whole restored stack, or between the two: the next restore continues.

use crate::intent::UpdateRequest;
use crate::objects::document::Revision;
use crate::read::view;
use crate::salvage::backup::{self, BackupStack};
use crate::salvage::comparison::{self, Decision, RestoreMethod};
use crate::salvage::damage::Damage;
use crate::salvage::damaged_store::path_of;
use crate::salvage::exchange::{Exchange, lock_stack};
use crate::salvage::store_files::StoreFiles;
use crate::salvage::{Salvage, attachment, head_template, rebuild, survey};
use crate::write::{opening, snapshots, steps};
use crate::{client_lock, lock};
use serde::Serialize;
use state_backend_fs::FsBackend;
use state_core::sealing::StackKey;
use state_core::{Backend, Error, Lineage, Result, RevisionId, Serial, StackName, UpdateResult};
use std::sync::Arc;

/// What a restore from a backup would do.
#[derive(Clone, Debug)]
pub struct RestorePlan {
    /// All damage of the backup. Nothing is restored from a damaged backup.
    pub damage: Vec<Damage>,
    /// The stacks of the backup.
    pub stacks: Vec<StackRestore>,
}

/// What a restore would do with one stack.
#[derive(Clone, Debug)]
pub struct StackRestore {
    decision: Decision,
    backup: Box<BackupStack>,
}

impl StackRestore {
    /// Identity of the stack.
    pub const fn lineage(&self) -> Lineage {
        self.backup.lineage()
    }

    /// Name that the stack has afterwards.
    pub const fn name(&self) -> &StackName {
        &self.decision.name
    }

    /// How the stack is restored.
    pub const fn method(&self) -> RestoreMethod {
        self.decision.method
    }

    /// Why the history of the store's stack isn't continued; none if it is, or if the store has no such stack.
    pub fn reason(&self) -> Option<&str> {
        self.decision.reason.as_deref()
    }

    /// The current revision of the backup; none if it has no revision.
    pub fn backup(&self) -> Option<&Revision> {
        self.backup.current()
    }

    /// Whether the backup was made during an update. If the history of the store's stack is continued, the state of the last
    /// revision before that update is restored, else the update is ended as interrupted.
    pub fn is_update_open(&self) -> bool {
        self.backup.rebuilt.view.update_open()
    }

    /// The revisions of the store's stack that the backup doesn't contain, newest first, as far as its files are intact.
    pub fn later(&self) -> &[Revision] {
        &self.decision.later
    }

    /// The highest serial that this client remembers, if neither the backup nor the store's stack has it: later revisions
    /// are lost.
    pub const fn remembered(&self) -> Option<Serial> {
        self.decision.remembered
    }
}

/// What a restore did with one stack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct RestoredStack {
    /// Identity of the stack.
    pub lineage: Lineage,
    /// Name of the stack.
    pub name: StackName,
    /// How it was restored.
    pub method: RestoreMethod,
    /// The current revision of the backup; none if it has no revision.
    pub backup: Option<RevisionId>,
    /// The revision that records the restore; none if no revision was written.
    pub revision: Option<RevisionId>,
    /// The folder of the files that were moved aside, below the store; none if nothing was moved.
    pub aside: Option<String>,
}

/// Compares a backup with the store. Changes nothing.
pub(super) async fn plan(
    target: &Salvage,
    backup: &Salvage,
    only: Option<&StackName>,
) -> Result<RestorePlan> {
    let mut plan = RestorePlan {
        damage: backup::store_damage(backup, only.is_none()).await?,
        stacks: Vec::new(),
    };
    let mut read = Vec::new();
    for lineage in backup::chosen(target, backup, only).await? {
        match Box::pin(backup::read(backup, lineage)).await? {
            Ok(stack) => read.push(stack),
            Err(damage) => plan.damage.extend(damage),
        }
    }
    if !plan.damage.is_empty() {
        return Ok(plan);
    }
    for stack in read {
        stack.template.require_key("restored")?;
        plan.stacks.push(StackRestore {
            decision: Box::pin(comparison::compare(target, &stack)).await?,
            backup: Box::new(stack),
        });
    }
    Ok(plan)
}

/// Restores the stacks of a plan.
pub(super) async fn restore(
    target: &Salvage,
    plan: &RestorePlan,
    request: &UpdateRequest,
) -> Result<Vec<RestoredStack>> {
    if let Some(damage) = plan.damage.first() {
        return Err(Error::corrupt(&damage.object, 0, &damage.reason));
    }
    let folder = target.require_folder()?;
    if !folder.root().is_dir() {
        FsBackend::create(folder.root())?;
    }
    let mut exchange = Exchange::begin(folder, &target.client.environment)?;
    let is_format_new = require_format(target, folder, &mut exchange).await?;
    let mut restored = Vec::new();
    for stack in &plan.stacks {
        let now = Box::pin(comparison::compare(target, &stack.backup)).await?;
        // An interrupted restore that was finished just now explains a difference, and so does a store that can be opened again.
        if !is_format_new && !exchange.finished.contains(&stack.backup.lineage()) && now != stack.decision {
            return Err(changed(&now.name));
        }
        let mut restoration = Restoration {
            target,
            exchange: &mut exchange,
            backup: &stack.backup,
            decision: &now,
            request,
        };
        restored.push(Box::pin(restoration.run()).await?);
    }
    Ok(restored)
}

fn changed(name: &StackName) -> Error {
    let reason = "it changed after it was compared with the backup, and wasn't restored";
    Error::conflict(format!("stack {}", name.short()), reason)
}

/// Creates the file `format` if it is missing. A damaged one is moved aside. Returns whether it was missing or damaged.
async fn require_format(target: &Salvage, folder: &StoreFiles, exchange: &mut Exchange) -> Result<bool> {
    let damage = survey::store_damage(&target.store, &[]).await?;
    let is_damaged = damage.iter().any(|damage| damage.object == "format");
    if is_damaged && exchange.exists("format") {
        exchange.move_aside("format")?;
    }
    FsBackend::create_like(folder.root(), folder.root())?;
    Ok(is_damaged)
}

/// The restore of one stack.
struct Restoration<'a> {
    target: &'a Salvage,
    exchange: &'a mut Exchange,
    backup: &'a BackupStack,
    decision: &'a Decision,
    request: &'a UpdateRequest,
}

impl Restoration<'_> {
    async fn run(&mut self) -> Result<RestoredStack> {
        let lineage = self.backup.lineage();
        // Only what this stack moves is reported with it.
        self.exchange.has_moved = false;
        let mut restored = RestoredStack {
            lineage,
            name: self.decision.name.clone(),
            method: self.decision.method,
            backup: self.backup.current().map(|current| current.id.clone()),
            revision: None,
            aside: None,
        };
        match self.decision.method {
            RestoreMethod::None => {}
            RestoreMethod::Accept => {
                self.bind().await?;
                self.accept(None).await?;
            }
            RestoreMethod::Append => {
                self.bind().await?;
                restored.revision = Some(self.append().await?);
            }
            RestoreMethod::Replace | RestoreMethod::Create => {
                let revision = self.replace().await?;
                self.accept(Some(&revision)).await?;
                restored.revision = Some(revision);
            }
        }
        restored.aside = self.exchange.has_moved.then(|| self.exchange.aside());
        Ok(restored)
    }

    /// Lets the name lead to the stack that the store has.
    async fn bind(&mut self) -> Result<()> {
        if self.decision.is_bound {
            return Ok(());
        }
        let target = self.target;
        let files = target.files(self.backup.lineage()).await?;
        // The memory of this client may say otherwise: it is replaced afterwards.
        let client = target.client.without_memory();
        let template = head_template::of(&client, &files, &target.facts).await?;
        self.point_to(template.key.as_deref()).await
    }

    async fn point_to(&mut self, key: Option<&dyn StackKey>) -> Result<()> {
        let (target, name) = (self.target, &self.decision.name);
        let path = path_of(name);
        let damaged = target
            .store
            .pointers()
            .await?
            .into_iter()
            .find(|file| file.path == path && file.pointer.is_err());
        if let Some(damaged) = damaged {
            self.exchange.move_aside(&damaged.path)?;
        }
        let lineage = self.backup.lineage();
        attachment::point_to(&target.store, &target.client, name, lineage, key).await
    }

    /// Writes the state of the backup as a new revision after the history of the store's stack.
    async fn append(&self) -> Result<RevisionId> {
        let target = self.target;
        let store = target.client.remembering_store(target.store.backend()?);
        let stack = store.stack(self.decision.name.clone(), self.backup.lineage());
        let Some(current) = self.backup.current() else {
            return Err(Error::NoCurrent {
                object: format!("backup of {}", stack.object()),
            });
        };
        let view = &self.backup.rebuilt.view;
        let snapshot = match self.decision.contained {
            Some(_) => None,
            None => Some(view.reveal(view.get(&current.id).await?).await?),
        };
        let locked = Box::pin(lock::lock(&stack, "restore", None)).await?;
        let request = self.request.clone();
        let written = match snapshot {
            None => snapshots::rollback(&locked, request, &current.id).await,
            Some(snapshot) => snapshots::restore(&locked, request, &current.id, snapshot).await,
        };
        locked.close_after(written).await
    }

    /// Writes the stack of the backup beside the one of the store, with the revision that records the restore, and exchanges
    /// the two.
    async fn replace(&mut self) -> Result<RevisionId> {
        let (target, lineage) = (self.target, self.backup.lineage());
        let clock = &target.client.environment.clock;
        let locks = lock_stack(target.require_folder()?, lineage, &**clock).await?;
        // A writer may have changed it before its lock was taken.
        let now = Box::pin(comparison::compare(target, self.backup)).await?;
        if now != *self.decision {
            return Err(changed(&now.name));
        }
        self.refuse_client_lock().await?;
        let environment = &target.client.environment;
        let (building, backend) = self.exchange.build(environment)?;
        let backend = Arc::new(backend);
        let rebuilt = &self.backup.rebuilt;
        let before = rebuilt.before;
        rebuild::store_in(
            &*backend,
            &rebuilt.head,
            before,
            &rebuilt.frames,
            &rebuilt.objects,
        )
        .await?;
        // Outputs of later revisions must not stay: the next revisions have the same serials.
        building.make_folder(&format!("outputs/{lineage}"))?;
        let client = target.client.without_memory();
        let stack = client
            .store(Arc::clone(&backend) as Arc<dyn Backend>)
            .stack(self.decision.name.clone(), lineage);
        // Neither a client lock of the time of the backup nor moves from and to other stacks matter here.
        let locked = Box::pin(opening::acquire_ungated(&stack, "restore")).await?;
        let recorded = match steps::start(&locked, self.request.clone(), false).await {
            Ok(_) => locked.end_update(UpdateResult::Succeeded).await,
            Err(error) => Err(error),
        };
        let revision = locked.close_after(recorded).await?;
        let written = view::tip(&stack).await?;
        if written.state.current() != Some(&revision) {
            let object = format!("{}/stacks/{lineage}", building.root().display());
            return Err(Error::corrupt(
                object,
                0,
                "the restored stack, read back, has another state",
            ));
        }
        drop((written, stack, backend));
        self.exchange.put_in_place(&building, lineage)?;
        drop(locks);
        self.point_to(self.backup.template.key.as_deref()).await?;
        Ok(revision)
    }

    /// Refuses to replace a stack on which another client has a lock.
    async fn refuse_client_lock(&self) -> Result<()> {
        let files = self.target.files(self.backup.lineage()).await?;
        let now = self.target.client.environment.clock.now();
        let head = files.head.filter(|head| !head.removed);
        match head.and_then(|head| head.client_lock) {
            Some(lock) if client_lock::holds(&lock, &now) => {
                let mut holder = lock.holder;
                holder.operation = format!("client lock {}", lock.id);
                Err(Error::locked(
                    format!("stack {}", self.decision.name.short()),
                    holder,
                ))
            }
            _ => Ok(()),
        }
    }

    /// Replaces what this client remembers of the stack and of its name. `revision` is the one that must be current.
    async fn accept(&self, revision: Option<&RevisionId>) -> Result<()> {
        let stacks = attachment::stacks(&self.target.store, &self.target.client)?;
        attachment::accept(&stacks, self.backup.lineage(), &self.decision.name, revision).await
    }
}
