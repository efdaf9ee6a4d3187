//! Puts rebuilt parts of a store in place. Every damaged file is moved aside before another takes its path, and a rebuilt
//! stack is complete before it takes the place of the damaged one, with the revision that records the salvage. The name pointer
//! follows.

use crate::intent::UpdateRequest;
use crate::keys::authenticate::UncheckedName;
use crate::keys::trust;
use crate::salvage::Salvage;
use crate::salvage::attachment;
use crate::salvage::damaged_store::{PointerFile, SharedStore};
use crate::salvage::file_repair::FileRepair;
use crate::salvage::head_template::HeadTemplate;
use crate::salvage::marking;
use crate::salvage::object_repair::ObjectRepair;
use crate::salvage::rebuild::{self, Beginning, RebuiltStack};
use crate::salvage::stack_files::StackFiles;
use crate::salvage::store_repair::StoreRepair;
use crate::salvage::survey::{self, Survivors};
use serde::Serialize;
use state_core::sealing::StackKey;
use state_core::{
    Error, ErrorKind, Lineage, Result, RevisionId, Serial, StackName, UpdateKind, UpdateResult,
};
use std::sync::Arc;

/// What a salvage did.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct SalvageReport {
    /// The folder of the files that were moved aside, below the store; none if nothing was moved.
    pub aside: Option<String>,
    /// Files outside of the folders of stacks that were moved aside.
    pub moved: Vec<String>,
    /// The stacks that were damaged or orphaned.
    pub stacks: Vec<SalvagedStack>,
}

/// What a salvage did with one stack.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct SalvagedStack {
    /// Identity of the stack.
    pub lineage: Lineage,
    /// Name of the stack; none if it is unknown.
    pub name: Option<StackName>,
    /// Whether the stack was rebuilt from its intact parts.
    pub rebuilt: bool,
    /// Whether its name leads to it again.
    pub attached: bool,
    /// The revision whose state was restored; none if the stack has no revision, or wasn't rebuilt.
    pub restored: Option<RevisionId>,
    /// The revision that records the salvage.
    pub revision: Option<RevisionId>,
    /// Revisions that the rebuilt history doesn't contain, and that can be read from the files that were moved aside.
    pub aside: Vec<RevisionId>,
    /// Revisions that can't be read any more, as far as their ids are known.
    pub lost: Vec<RevisionId>,
    /// The highest serial that this client remembered, if it is higher than that of the restored revision: later revisions
    /// are lost, unless `aside` lists them.
    pub remembered: Option<Serial>,
    /// Why the stack wasn't salvaged, and what a person must supply; none if it was.
    pub obstacle: Option<String>,
}

/// The outcome for the folder of one stack.
enum Repaired {
    /// Nothing is wrong with it, or it belongs to a removed stack.
    Intact,
    Stack(Box<SalvagedStack>),
    /// Nothing of a stack was left in it, and it was moved here, below the store.
    Moved(String),
}

/// A salvage that is running.
struct Repair<'a> {
    salvage: &'a Salvage,
    changes: Box<dyn StoreRepair>,
    /// The name pointers as they were before the salvage.
    pointers: Vec<PointerFile>,
}

/// Repairs a store, or one of its stacks.
pub(super) async fn salvage(salvage: &Salvage, only: Option<Lineage>) -> Result<SalvageReport> {
    let store = &salvage.store;
    let changes: Box<dyn StoreRepair> = match &salvage.folder {
        Some(folder) => Box::new(FileRepair::begin(folder, &salvage.client)?),
        None => Box::new(ObjectRepair::new(&store.backend()?, &salvage.client)),
    };
    let mut repair = Repair {
        salvage,
        changes,
        pointers: store.pointers().await?,
    };
    let mut moved = repair.store_level().await?;
    let mut stacks = Vec::new();
    for lineage in store.stacks().await? {
        if only.is_some_and(|only| only != lineage) {
            continue;
        }
        match Box::pin(repair.stack(lineage, only.is_some())).await? {
            Repaired::Intact => {}
            Repaired::Stack(stack) => stacks.push(*stack),
            Repaired::Moved(path) => moved.push(path),
        }
    }
    Ok(SalvageReport {
        aside: repair.changes.has_moved().then(|| repair.changes.aside()),
        moved,
        stacks,
    })
}

impl Repair<'_> {
    fn store(&self) -> &SharedStore {
        &self.salvage.store
    }

    /// Moves a damaged `format` and damaged name pointers aside, and creates `format` again. A pointer to a stack of which
    /// nothing is left is damaged too: no command could use its name again.
    async fn store_level(&mut self) -> Result<Vec<String>> {
        let damage = survey::store_damage(self.store(), &self.pointers).await?;
        let mut moved = Vec::new();
        let stacks = self.store().stacks().await?;
        for file in &self.pointers {
            if survey::pointer_damage(file, &stacks).is_none() {
                continue;
            }
            moved.extend(self.changes.move_aside(&file.path).await?);
        }
        if damage.iter().any(|damage| damage.object == "format") {
            moved.extend(self.changes.move_aside("format").await?);
            self.changes.make_format().await?;
        }
        Ok(moved)
    }

    /// Salvages a stack. `is_named` says whether the caller chose this stack.
    async fn stack(&mut self, lineage: Lineage, is_named: bool) -> Result<Repaired> {
        let files = self.salvage.files(lineage).await?;
        // A damaged pointer may have led to the stack.
        if survey::is_no_stack(&files, &self.pointers) {
            return Ok(Repaired::Intact);
        }
        let pointers = self.store().pointers().await?;
        if self.salvage.folder.is_some() && !is_named && survey::is_empty(&files, &self.pointers) {
            let moved = self.changes.move_aside(&format!("stacks/{lineage}")).await?;
            return Ok(moved.map_or(Repaired::Intact, Repaired::Moved));
        }
        let facts = self.salvage.facts_of(&files).await?;
        let known = survey::name_of(&self.salvage.client, &files, &pointers).await?;
        let is_bound = survey::is_bound(lineage, known.as_ref(), &pointers);
        let is_whole = files.damage.is_empty() && is_bound;
        let obstacle = match is_whole {
            true => survey::key_obstacle(&self.salvage.client, &files).await?,
            false => None,
        };
        if is_whole && obstacle.is_none() {
            return Ok(Repaired::Intact);
        }
        let mut report = SalvagedStack {
            lineage,
            name: facts.name.clone(),
            rebuilt: false,
            attached: false,
            restored: None,
            revision: None,
            aside: Vec::new(),
            lost: Vec::new(),
            remembered: None,
            obstacle,
        };
        if is_whole {
            return Ok(Repaired::Stack(Box::new(report)));
        }
        match Box::pin(self.repair_stack(&files, is_bound, is_named, &mut report)).await {
            Ok(()) => {}
            // The stack itself is the obstacle, and others may be repaired. An error of the store ends the salvage.
            Err(error) if is_obstacle(error.kind()) => report.obstacle = Some(error.to_string()),
            Err(error) => return Err(error),
        }
        Ok(Repaired::Stack(Box::new(report)))
    }

    async fn repair_stack(
        &mut self,
        files: &StackFiles,
        is_bound: bool,
        is_named: bool,
        report: &mut SalvagedStack,
    ) -> Result<()> {
        self.changes.lock(files).await?;
        let replaced = self.rebuild_stack(files, is_bound, is_named, report).await;
        let released = self.changes.unlock().await;
        let (name, key) = replaced?;
        released?;
        if !is_bound {
            let client = &self.salvage.client;
            attachment::point_to(self.store(), client, &name, files.lineage, key.as_deref()).await?;
            report.attached = true;
        }
        match report.rebuilt {
            true => self.accept(&name).await,
            false => {
                report.revision = self.record(&name, report).await?;
                Ok(())
            }
        }
    }

    /// Rebuilds a stack while its lock is held. Returns the name that must lead to it, and the key that signs the pointer.
    async fn rebuild_stack(
        &mut self,
        files: &StackFiles,
        is_bound: bool,
        is_named: bool,
        report: &mut SalvagedStack,
    ) -> Result<(StackName, Option<Arc<dyn StackKey>>)> {
        let template = self.salvage.template(files).await?;
        let survivors = survey::survivors(&self.salvage.client, files, &template).await;
        report.lost.clone_from(&survivors.lost);
        let Survivors {
            surviving, current, ..
        } = survivors;
        template.require_key("salvaged")?;
        let rebuilt = match current {
            Ok(rebuilt) => rebuilt,
            Err(error) => self.newest(files, &template, &surviving).await?.ok_or(error)?,
        };
        let name = rebuilt.head.name.clone();
        report.name = Some(name.clone());
        if !is_bound {
            self.require_free(&name, files.lineage, is_named).await?;
        }
        let is_changed = !files.damage.is_empty() || template.is_renamed;
        if is_changed {
            let listed = rebuilt.view.history().await?;
            let is_listed = |id: &RevisionId| listed.iter().any(|revision| revision.id == *id);
            report.aside = surviving.into_iter().filter(|id| !is_listed(id)).collect();
            report.restored = rebuilt.view.state.current().cloned();
            let client = &self.salvage.client;
            report.remembered = survey::remembered(client, files.lineage, report.restored.as_ref()).await?;
            let cause = match files.damage.is_empty() {
                true => Cause::NewName,
                false => Cause::Damage,
            };
            let request = self.request(report, cause);
            let (marked, revision) = Box::pin(marking::mark(&self.salvage.client, rebuilt, request)).await?;
            let client = self.salvage.client.remembering_store(self.store().backend()?);
            trust::announce_salvage(&client, files.lineage, marked.end()).await;
            self.replace(files, &marked).await?;
            (report.rebuilt, report.revision) = (true, revision);
        }
        Ok((name, template.key))
    }

    /// The stack up to its newest revision that can be read, for one whose later frames need lost snapshots.
    async fn newest(
        &self,
        files: &StackFiles,
        template: &HeadTemplate,
        surviving: &[RevisionId],
    ) -> Result<Option<RebuiltStack>> {
        let Some((_, end)) = survey::newest_end(files, surviving) else {
            return Ok(None);
        };
        let client = &self.salvage.client;
        let rebuilt = rebuild::rebuild(client, files, template, &end, Beginning::Earliest).await;
        rebuilt.map(Some)
    }

    /// Puts the rebuilt stack in place of the damaged one, and moves damaged outputs aside.
    async fn replace(&mut self, files: &StackFiles, rebuilt: &RebuiltStack) -> Result<()> {
        let outputs = files.damage.iter().map(|damage| &damage.object);
        for object in outputs.filter(|object| object.starts_with("outputs/")) {
            self.changes.move_aside(object).await?;
        }
        self.changes.replace(files, rebuilt).await
    }

    /// Requires that no other stack has the name. A tombstone of another stack is no obstacle for a stack that the caller
    /// chose.
    async fn require_free(&self, name: &StackName, lineage: Lineage, is_named: bool) -> Result<()> {
        let backend = self.store().backend()?;
        let object = format!("stack {}", name.short());
        let attach = format!(
            "attach stack {lineage} under another name with `statectl salvage --attach {lineage} --name NAME`"
        );
        let pointer = UncheckedName::read(&*backend, name).await?;
        if let Some(other) = pointer.filter(|pointer| pointer.subject() != lineage) {
            if other.lineage().is_some() {
                let reason = format!("stack {} has this name; {attach}", other.subject());
                return Err(Error::conflict(object, reason));
            }
            if !is_named {
                let reason = format!(
                    "another stack had this name last; to use it again, run `statectl salvage --attach {lineage}`"
                );
                return Err(Error::conflict(object, reason));
            }
        }
        let Some(known) = &self.salvage.client.known_stacks else {
            return Ok(());
        };
        match known.named(name).await? {
            Some(other) if other != lineage => {
                let reason = format!("this client remembers stack {other} under this name; {attach}");
                Err(Error::conflict(object, reason))
            }
            _ => Ok(()),
        }
    }

    /// Lets this client accept a rebuilt stack that ends before what it remembers. The person who salvages accepts that.
    async fn accept(&self, name: &StackName) -> Result<()> {
        let stacks = attachment::stacks(self.store(), &self.salvage.client)?;
        let stack = stacks.get(name).await?;
        let stack = stack.ok_or_else(|| Error::not_found(format!("stack {}", name.short())))?;
        match stack.tip().await {
            Ok(view) if view.regression.is_none() => Ok(()),
            Ok(_) | Err(Error::Distrusted { .. }) => stacks.trust(name, None).await.map(drop),
            Err(error) => Err(error),
        }
    }

    fn request(&self, report: &SalvagedStack, cause: Cause) -> UpdateRequest {
        let message = message(report, cause, &self.changes.aside());
        UpdateRequest::new(UpdateKind::Restore).with_message(message)
    }

    /// Writes the revision that records that a stack was attached. None if a client lock refuses it: its holder decides.
    async fn record(&self, name: &StackName, report: &SalvagedStack) -> Result<Option<RevisionId>> {
        let stacks = attachment::stacks(self.store(), &self.salvage.client)?;
        let found = stacks.get(name).await?;
        let stack = found.ok_or_else(|| Error::not_found(format!("stack {}", name.short())))?;
        let session = match stack.lock("salvage").await {
            // The stack ends before what this client remembers. The person who salvages accepts that.
            Err(error) if error.kind() == ErrorKind::Distrusted => {
                stacks.trust(name, None).await?;
                stack.lock("salvage").await?
            }
            Err(error) if error.kind() == ErrorKind::Locked => return Ok(None),
            locked => locked?,
        };
        let update = session
            .start_update(self.request(report, Cause::LostName))
            .await?;
        let revision = update.finish(UpdateResult::Succeeded).await?;
        session.close().await?;
        Ok(Some(revision))
    }
}

/// Why a revision records a salvage.
#[derive(Clone, Copy)]
enum Cause {
    /// Its files were damaged.
    Damage,
    /// It was attached under another name.
    NewName,
    /// No name led to it.
    LostName,
}

fn message(report: &SalvagedStack, cause: Cause, aside: &str) -> String {
    let (action, kept) = match cause {
        Cause::Damage => {
            let restored = report.restored.as_ref();
            let up_to = restored.map(|restored| format!(" up to revision {restored}"));
            let action = format!(
                "salvaged: rebuilt from damaged files{}",
                up_to.unwrap_or_default()
            );
            (action, format!("; damaged files are in {aside}"))
        }
        Cause::NewName => (
            "salvaged: attached under another name".to_owned(),
            format!("; its former files are in {aside}"),
        ),
        Cause::LostName => ("salvaged: its name leads to it again".to_owned(), String::new()),
    };
    let later = report
        .remembered
        .map(|serial| format!("; later revisions, up to serial {serial}, are lost"));
    let lost = match (later, report.lost.len()) {
        (Some(later), _) => later,
        (None, 0) => String::new(),
        (None, 1) => "; 1 revision is lost".to_owned(),
        (None, lost) => format!("; {lost} revisions are lost"),
    };
    format!("{action}{lost}{kept}")
}

/// Whether an error is about the stack, and not about the store as a whole.
const fn is_obstacle(kind: ErrorKind) -> bool {
    use ErrorKind::{Conflict, Corrupt, Distrusted, Integrity, Invalid, Locked, NotFound, Sealed};
    matches!(
        kind,
        Conflict | Corrupt | Distrusted | Integrity | Invalid | Locked | NotFound | Sealed
    )
}
