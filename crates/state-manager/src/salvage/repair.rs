//! Puts rebuilt parts of a store in place. Every damaged file is moved aside before another takes its path, and a rebuilt
//! stack is complete before it takes the place of the damaged one, with the revision that records the salvage. The name pointer
//! follows.

use crate::context::StoreContext;
use crate::intent::UpdateRequest;
use crate::keys::authenticate::UncheckedName;
use crate::keys::trust;
use crate::known_stacks::{SalvageEnd, StackPin};
use crate::salvage::Salvage;
use crate::salvage::attachment;
use crate::salvage::damaged_store::{PointerFile, SharedStore, path_of};
use crate::salvage::file_repair::FileRepair;
use crate::salvage::head_template::HeadTemplate;
use crate::salvage::marking;
use crate::salvage::object_repair::ObjectRepair;
use crate::salvage::rebuild::{self, Beginning, RebuiltStack};
use crate::salvage::report::{self, Cause, SalvageReport, SalvagedStack};
use crate::salvage::stack_files::StackFiles;
use crate::salvage::store_repair::StoreRepair;
use crate::salvage::survey;
use crate::salvage::survivors::{self, Survivors};
use state_core::backend::Tail;
use state_core::sealing::StackKey;
use state_core::{Error, ErrorKind, Lineage, Result, RevisionId, StackName, UpdateKind, UpdateResult};
use std::sync::Arc;

/// What is wrong with a stack.
struct Finding {
    /// Whether its files are intact and its name leads to it: then only its key is missing.
    is_whole: bool,
    is_bound: bool,
    report: SalvagedStack,
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
        match Box::pin(repair.stack(lineage, only.is_some())).await {
            Ok(Repaired::Intact) => {}
            Ok(Repaired::Stack(stack)) => stacks.push(*stack),
            Ok(Repaired::Moved(path)) => moved.push(path),
            Err(error) if stacks.is_empty() && moved.is_empty() => return Err(error),
            // What was done with the stacks before it must be reported.
            Err(error) => stacks.push(SalvagedStack::refused(lineage, None, error.to_string())),
        }
    }
    if only.is_none() {
        moved.extend(repair.unrepaired_pointers(&stacks).await?);
    }
    Ok(SalvageReport {
        aside: repair.changes.has_moved().then(|| repair.changes.aside()),
        moved,
        finished: repair.changes.finished().to_vec(),
        stacks,
    })
}

impl Repair<'_> {
    fn store(&self) -> &SharedStore {
        &self.salvage.store
    }

    /// Moves a damaged `format` aside, and creates it again. Moves aside anything else in the place of a folder.
    async fn store_level(&mut self) -> Result<Vec<String>> {
        let damage = survey::store_damage(self.store(), &self.pointers).await?;
        let mut moved = Vec::new();
        if damage.iter().any(|damage| damage.object == "format") {
            moved.extend(self.changes.move_aside("format").await?);
            self.changes.make_format().await?;
        }
        for misplaced in self.store().misplaced_folders().await? {
            moved.extend(self.changes.move_aside(&misplaced.object).await?);
        }
        Ok(moved)
    }

    /// Moves the damaged name pointers aside that lead to no repaired stack. A pointer to a stack of which nothing is left is
    /// damaged too: no command could use its name again. That of a stack that couldn't be repaired stays: a damaged name is
    /// better than none.
    async fn unrepaired_pointers(&mut self, stacks: &[SalvagedStack]) -> Result<Vec<String>> {
        let refused = stacks.iter().filter(|stack| stack.obstacle.is_some());
        let kept: Vec<_> = refused
            .filter_map(|stack| stack.name.as_ref().map(path_of))
            .collect();
        let lineages = self.store().stacks().await?;
        let mut moved = Vec::new();
        for file in self.store().pointers().await? {
            if survey::pointer_damage(&file, &lineages).is_some() && !kept.contains(&file.path) {
                moved.extend(self.changes.move_aside(&file.path).await?);
            }
        }
        Ok(moved)
    }

    /// Salvages a stack. `is_named` says whether the caller chose this stack.
    async fn stack(&mut self, lineage: Lineage, is_named: bool) -> Result<Repaired> {
        let files = match self.salvage.files(lineage).await {
            // A file of the stack can't be read.
            Err(error @ (Error::Corrupt { .. } | Error::Denied { .. })) => {
                let refused = SalvagedStack::refused(lineage, None, error.to_string());
                return Ok(Repaired::Stack(Box::new(refused)));
            }
            read => read?,
        };
        // A damaged pointer may have led to the stack.
        if survey::is_no_stack(&self.salvage.client, &files, &self.pointers).await? {
            return Ok(Repaired::Intact);
        }
        if self.salvage.folder.is_some() && survey::is_empty(&files, &self.pointers) {
            let moved = self.changes.move_aside(&format!("stacks/{lineage}")).await?;
            return Ok(moved.map_or(Repaired::Intact, Repaired::Moved));
        }
        let Some(first) = self.finding(&files).await? else {
            return Ok(Repaired::Intact);
        };
        if first.is_whole {
            return Ok(Repaired::Stack(Box::new(first.report)));
        }
        let mut report = first.report;
        match Box::pin(self.repair_stack(&files, is_named, &mut report)).await {
            Ok(true) => {}
            Ok(false) => return Ok(Repaired::Intact),
            // The stack itself is the obstacle, and others may be repaired. An error of the store ends the salvage, unless the
            // stack was replaced: that must be reported.
            Err(error) if is_obstacle(error.kind()) || report.rebuilt => {
                report.obstacle = Some(error.to_string());
            }
            Err(error) => return Err(error),
        }
        Ok(Repaired::Stack(Box::new(report)))
    }

    /// What is wrong with a stack; none if nothing is.
    async fn finding(&self, files: &StackFiles) -> Result<Option<Finding>> {
        let client = &self.salvage.client;
        let pointers = self.store().pointers().await?;
        let known = survey::name_of(client, files, &pointers).await?;
        let is_bound = survey::is_bound(files.lineage, known.as_ref(), &pointers);
        if let (true, Some(name), Some(wanted)) = (is_bound, &known, &self.salvage.facts.name)
            && name.folded() != wanted.folded()
        {
            let reason = "its name leads to it: salvage it without another name, and then rename it with `statectl stack rename`";
            return Err(Error::conflict(format!("stack {}", name.short()), reason));
        }
        let is_whole = files.damage.is_empty() && is_bound;
        let obstacle = match is_whole {
            true => survey::obstacle(client, files).await?,
            false => None,
        };
        let name = self.salvage.facts.name.clone().or(known);
        Ok((!is_whole || obstacle.is_some()).then(|| Finding {
            is_whole,
            is_bound,
            report: SalvagedStack {
                obstacle,
                ..SalvagedStack::found(files.lineage, name)
            },
        }))
    }

    /// Repairs a stack under its lock. Returns false if nothing is damaged any more.
    async fn repair_stack(
        &mut self,
        seen: &StackFiles,
        is_named: bool,
        report: &mut SalvagedStack,
    ) -> Result<bool> {
        self.changes.lock(seen).await?;
        let rebuilt = self.rebuild_locked(seen.lineage, is_named, report).await;
        let unlocked = self.changes.unlock().await;
        let Some((is_bound, name, key)) = rebuilt? else {
            return unlocked.map(|()| false);
        };
        match unlocked {
            // The stack was replaced while the lock was held. A process that took the expired lock since holds it now.
            Err(error) if report.rebuilt && error.kind() == ErrorKind::Conflict => {}
            other => other?,
        }
        if !is_bound {
            let path = path_of(&name);
            if self.is_damaged_pointer(&path) {
                self.changes.move_aside(&path).await?;
            }
            let client = &self.salvage.client;
            attachment::point_to(self.store(), client, &name, seen.lineage, key.as_deref()).await?;
            report.attached = true;
        }
        match report.rebuilt {
            true => self.accept(seen.lineage, &name, report.revision.as_ref()).await?,
            false => report.revision = self.record(&name, report).await?,
        }
        Ok(true)
    }

    /// Rebuilds a stack while its lock is held. The stack is read again: before the lock was taken, a writer may have changed
    /// it. None if nothing is damaged any more.
    async fn rebuild_locked(
        &mut self,
        lineage: Lineage,
        is_named: bool,
        report: &mut SalvagedStack,
    ) -> Result<Option<(bool, StackName, Option<Arc<dyn StackKey>>)>> {
        let files = self.salvage.files(lineage).await?;
        let Some(now) = self.finding(&files).await?.filter(|now| !now.is_whole) else {
            return Ok(None);
        };
        *report = now.report;
        let (name, key) = self.rebuild_stack(&files, now.is_bound, is_named, report).await?;
        Ok(Some((now.is_bound, name, key)))
    }

    fn is_damaged_pointer(&self, path: &str) -> bool {
        let mut damaged = self.pointers.iter().filter(|file| file.pointer.is_err());
        damaged.any(|file| file.path == path)
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
        let survivors = survivors::of(&self.salvage.client, files, &template).await;
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
            let seen = survey::remembered_serial(client, files.lineage).await?;
            report.remembered = survey::later_than(seen, report.restored.as_ref());
            let cause = match files.damage.is_empty() {
                true => Cause::NewName,
                false => Cause::Damage,
            };
            let request = self.request(report, cause);
            let (marked, revision) = Box::pin(marking::mark(&self.salvage.client, rebuilt, request)).await?;
            let client = self.salvage.client.remembering_store(self.store().backend()?);
            announce_salvage(&client, files.lineage, marked.end()).await;
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
        let Some((_, end)) = survivors::newest_end(files, surviving) else {
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
        let pointer = match self.is_damaged_pointer(&path_of(name)) {
            true => None,
            false => UncheckedName::read(&*backend, name).await?,
        };
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

    /// Lets this client accept a salvaged stack that ends before what it remembers. The person who salvages accepts that.
    async fn accept(&self, lineage: Lineage, name: &StackName, revision: Option<&RevisionId>) -> Result<()> {
        let stacks = attachment::stacks(self.store(), &self.salvage.client)?;
        attachment::accept(&stacks, lineage, name, revision).await
    }

    fn request(&self, report: &SalvagedStack, cause: Cause) -> UpdateRequest {
        let message = report::message(report, cause, &self.changes.aside());
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
                attachment::accept(&stacks, stack.lineage(), name, None).await?;
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

/// Whether an error is about the stack, and not about the store as a whole.
const fn is_obstacle(kind: ErrorKind) -> bool {
    use ErrorKind::{Conflict, Corrupt, Distrusted, Integrity, Invalid, Locked, NotFound, Sealed};
    matches!(
        kind,
        Conflict | Corrupt | Distrusted | Integrity | Invalid | Locked | NotFound | Sealed
    )
}

/// Pins the end of the journal that this client is about to put in the place of a damaged one. If this client crashes
/// after the exchange, it still recognises its own salvage, which ends before what it remembers.
async fn announce_salvage(store: &StoreContext, lineage: Lineage, end: Tail) {
    let Tail { next, chain } = end;
    trust::change_pin(store, lineage, |before| {
        Some(StackPin {
            salvaging_to: Some(SalvageEnd { next, chain }),
            ..before?.clone()
        })
    })
    .await;
}
