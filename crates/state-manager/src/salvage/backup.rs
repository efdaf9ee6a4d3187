//! Reads stacks of a backup: a folder that was made by copying the folder of a store.
//!
//! A stack of a backup is read into memory and verified as deeply as a stored one. Nothing in the backup is written, and
//! nothing of a damaged stack is used.

use crate::objects::document::Revision;
use crate::read::verify;
use crate::salvage::Salvage;
use crate::salvage::damage::Damage;
use crate::salvage::head_template::{self, HeadTemplate};
use crate::salvage::rebuild::{self, RebuiltStack};
use crate::salvage::stack_files::StackFiles;
use crate::salvage::stack_folders;
use crate::salvage::survey;
use state_core::{Error, Lineage, Result, RevisionId, StackName};

/// A verified stack of a backup.
#[derive(Clone, Debug)]
pub(super) struct BackupStack {
    pub(super) files: StackFiles,
    pub(super) template: HeadTemplate,
    pub(super) rebuilt: RebuiltStack,
    /// The revisions, newest first.
    pub(super) revisions: Vec<Revision>,
}

impl BackupStack {
    pub(super) const fn lineage(&self) -> Lineage {
        self.rebuilt.head.lineage
    }

    pub(super) const fn name(&self) -> &StackName {
        &self.rebuilt.head.name
    }

    pub(super) fn has(&self, revision: &RevisionId) -> bool {
        self.revisions.iter().any(|listed| listed.id == *revision)
    }

    /// The current revision of the backup; none if it has no revision.
    pub(super) fn current(&self) -> Option<&Revision> {
        self.revisions.iter().find(|revision| revision.current)
    }

    /// Requires that this client accepts the key and the policy of the backup by what it remembers of the stack. Nothing
    /// else proves that the backup is one of this stack.
    ///
    /// # Errors
    /// `Distrusted` if the backup has another data key than this client remembers.
    pub(super) async fn require_trusted(&self, target: &Salvage) -> Result<()> {
        if self
            .rebuilt
            .head
            .key_id
            .is_some_and(|key| target.facts.keys.contains(&key))
        {
            return Ok(());
        }
        head_template::of(&target.client, &self.files, &target.facts)
            .await
            .map(drop)
    }
}

/// Reads and verifies a stack of a backup. The inner result has all damage.
pub(super) async fn read(
    backup: &Salvage,
    lineage: Lineage,
) -> Result<std::result::Result<BackupStack, Vec<Damage>>> {
    let files = backup.files(lineage).await?;
    if !files.damage.is_empty() {
        return Ok(Err(files.damage));
    }
    let template = backup.template(&files).await?;
    let rebuilt = match rebuild::complete(&backup.client, &files, &template).await {
        Err(Error::Corrupt { object, reason, .. }) => return Ok(Err(vec![Damage::new(object, &*reason)])),
        rebuilt => rebuilt?,
    };
    let verified = match verify::verify(rebuilt.view.context(), true).await {
        Err(Error::Corrupt { object, reason, .. }) => return Ok(Err(vec![Damage::new(object, &*reason)])),
        verified => verified?,
    };
    if !verified.report.is_valid() {
        let object = format!("backup of stack {}", rebuilt.head.name.short());
        return Err(Error::integrity(object, verified.report.violations));
    }
    let revisions = rebuilt.view.history().await?;
    Ok(Ok(BackupStack {
        files,
        template,
        rebuilt,
        revisions,
    }))
}

/// The stacks of the backup to restore: all, or the one with a name, in the backup or in the store.
pub(super) async fn chosen(
    target: &Salvage,
    backup: &Salvage,
    only: Option<&StackName>,
) -> Result<Vec<Lineage>> {
    let folders = stack_folders::folders(&backup.client, &backup.store).await?;
    let Some(only) = only else {
        return Ok(folders.into_iter().map(|folder| folder.lineage).collect());
    };
    let has_name = |name: &StackName| name.folded() == only.folded();
    let named = folders
        .iter()
        .find(|folder| folder.name.as_ref().is_some_and(has_name));
    if let Some(named) = named {
        return Ok(vec![named.lineage]);
    }
    // The stack may have got the name after the backup was made.
    let pointers = target.store.pointers().await?;
    let pointers = pointers.iter().filter_map(|file| file.pointer.as_ref().ok());
    let led_to = pointers
        .filter(|pointer| has_name(&pointer.name))
        .find_map(|pointer| pointer.lineage());
    let led_to = led_to.filter(|lineage| folders.iter().any(|folder| folder.lineage == *lineage));
    Ok(led_to.into_iter().collect())
}

/// Damage of the backup outside of the folders of stacks. The name pointers don't matter for one stack.
pub(super) async fn store_damage(backup: &Salvage, is_whole: bool) -> Result<Vec<Damage>> {
    let mut damage = survey::store_damage(&backup.store, &backup.store.pointers().await?).await?;
    damage.retain(|damage| is_whole || !damage.object.starts_with("names/"));
    Ok(damage)
}
