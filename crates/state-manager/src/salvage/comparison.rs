//! Compares a stack of a backup with the stack that the store has, and decides how the backup is restored.
//!
//! | the store's stack | the backup's journal | method |
//! |---|---|---|
//! | is missing | – | create |
//! | can't be read, or this client doesn't accept it | – | replace |
//! | works | continues that of the store | replace |
//! | works, with the state of the backup | is a part of that of the store | none, or accept |
//! | works, with another state | any other | append |

use crate::objects::document::Revision;
use crate::read::view::View;
use crate::salvage::Salvage;
use crate::salvage::backup::BackupStack;
use crate::salvage::frame_index::FrameChain;
use crate::salvage::stack_files::StackFiles;
use crate::salvage::{attachment, survey};
use serde::Serialize;
use state_core::{Error, Lineage, Result, RevisionId, Serial, Snapshot, StackName};

/// How a stack of a backup is restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RestoreMethod {
    /// The store has the state of the backup already.
    None,
    /// The store has the state of the backup, and this client doesn't accept it yet: for example, the files were copied by
    /// hand.
    Accept,
    /// The state of the backup becomes a new revision after the history of the store's stack.
    Append,
    /// The stack of the backup, with its history, takes the place of the store's stack, which is moved aside.
    Replace,
    /// The stack of the backup, with its history, is put in the store, which doesn't have it.
    Create,
}

/// What restoring a stack of a backup does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Decision {
    pub(super) method: RestoreMethod,
    /// Why the history of the store's stack isn't continued; none if it is, or if there is no such stack.
    pub(super) reason: Option<String>,
    /// The name that the stack has afterwards.
    pub(super) name: StackName,
    /// Whether the name leads to the stack already.
    pub(super) is_bound: bool,
    /// The revisions of the store's stack that the backup doesn't contain, newest first.
    pub(super) later: Vec<Revision>,
    /// The highest serial that this client remembers, if neither the backup nor the store's stack has it.
    pub(super) remembered: Option<Serial>,
    /// The revision of the backup that the history of the store's stack contains.
    pub(super) contained: Option<RevisionId>,
}

/// The stack that the store has.
enum PresentStack {
    Missing,
    Refused { reason: String, files: StackFiles },
    Working { view: Box<View>, files: StackFiles },
}

/// Compares a stack of a backup with the one of the store. Changes nothing in the store.
///
/// # Errors
/// `Distrusted` if nothing proves that the backup is one of this stack; `Conflict` if another stack has its name;
/// `NoCurrent` if the backup has no revision to append; any error of the store.
pub(super) async fn compare(target: &Salvage, backup: &BackupStack) -> Result<Decision> {
    let lineage = backup.lineage();
    let mut decision = Decision {
        method: RestoreMethod::Create,
        reason: None,
        name: backup.name().clone(),
        is_bound: false,
        later: Vec::new(),
        remembered: None,
        contained: None,
    };
    let mut is_proven = false;
    match present(target, lineage).await? {
        PresentStack::Missing => {}
        PresentStack::Refused { reason, files } => {
            decision.method = RestoreMethod::Replace;
            decision.reason = Some(reason);
            decision.later = later(backup, listed(&files));
        }
        PresentStack::Working { view, files } => {
            is_proven = compare_working(target, backup, &view, &files, &mut decision).await?;
        }
    }
    if !is_proven {
        backup.require_trusted(target).await?;
    }
    if decision.method == RestoreMethod::Append && backup.current().is_none() {
        let object = format!("backup of stack {}", backup.name().short());
        return Err(Error::NoCurrent { object });
    }
    require_name(target, &decision.name, lineage).await?;
    decision.remembered = remembered(target, backup, &decision).await?;
    Ok(decision)
}

/// Compares the backup with a stack that can be read. Returns whether the stack's journal proves the backup.
async fn compare_working(
    target: &Salvage,
    backup: &BackupStack,
    view: &View,
    files: &StackFiles,
    decision: &mut Decision,
) -> Result<bool> {
    let lineage = backup.lineage();
    let journal = files.chain().unwrap_or_else(|| FrameChain::empty(lineage));
    let own = backup.rebuilt.journal();
    let contains = journal.passes(own.tail());
    let is_continued = !contains && own.passes(journal.tail());
    let is_same = contains && has_same_content(view, &backup.rebuilt.view).await?;
    let revisions = match view.history().await {
        Ok(revisions) => revisions,
        Err(_) => listed(files),
    };
    let current = backup.current().map(|current| current.id.clone());
    let is_listed = |id: &RevisionId| revisions.iter().any(|revision| revision.id == *id);
    decision.contained = current.filter(|id| contains && is_listed(id));
    decision.later = later(backup, revisions);
    let (method, reason) = match &view.regression {
        Some(_) if is_same => (RestoreMethod::Accept, None),
        Some(regression) => (RestoreMethod::Replace, Some(regression.clone())),
        None if is_continued => {
            let reason = "the backup continues its history".to_owned();
            (RestoreMethod::Replace, Some(reason))
        }
        None if is_same => (RestoreMethod::None, None),
        None => (RestoreMethod::Append, None),
    };
    decision.method = method;
    decision.reason = reason;
    if method != RestoreMethod::Replace {
        decision.name = view.head.name.clone();
        decision.is_bound = is_bound(target, &decision.name, lineage).await;
    }
    if method == RestoreMethod::None && !decision.is_bound {
        decision.method = RestoreMethod::Accept;
    }
    Ok(contains)
}

/// Reads the stack that the store has. Damage, and a stack that this client doesn't accept, are no errors.
async fn present(target: &Salvage, lineage: Lineage) -> Result<PresentStack> {
    if !target.store.stacks().await?.contains(&lineage) {
        return Ok(PresentStack::Missing);
    }
    let files = target.files(lineage).await?;
    let refused = |reason: String| {
        Ok(PresentStack::Refused {
            reason,
            files: files.clone(),
        })
    };
    if files.head.as_ref().is_some_and(|head| head.removed) {
        return refused("it was removed".to_owned());
    }
    let name = match &files.head {
        Some(head) => head.name.clone(),
        None => return refused("its head is damaged".to_owned()),
    };
    let read = async {
        let backend = target.store.backend()?;
        let store = target.client.remembering_store(backend);
        crate::read::view::tip(&store.stack(name, lineage)).await
    };
    match read.await {
        Ok(view) => Ok(PresentStack::Working {
            view: Box::new(view),
            files,
        }),
        Err(
            error @ (Error::Corrupt { .. }
            | Error::NotFound { .. }
            | Error::Distrusted { .. }
            | Error::Sealed { .. }
            | Error::Integrity { .. }),
        ) => refused(error.to_string()),
        Err(error) => Err(error),
    }
}

/// Whether two states have the same resources, outputs and pending operations. They may be sealed with different keys.
async fn has_same_content(present: &View, backup: &View) -> Result<bool> {
    let content = async |view: &View| {
        let (snapshot, _) = view.reveal_if_possible(view.snapshot()).await?;
        let Snapshot {
            pending_operations,
            invalidated,
            entries,
            outputs,
            sensitive_outputs,
            ..
        } = snapshot;
        Ok::<_, Error>((
            pending_operations,
            invalidated,
            entries,
            outputs,
            sensitive_outputs,
        ))
    };
    Ok(content(present).await? == content(backup).await?)
}

/// Whether a name leads to the stack, and this client accepts that.
async fn is_bound(target: &Salvage, name: &StackName, lineage: Lineage) -> bool {
    let Ok(stacks) = attachment::stacks(&target.store, &target.client) else {
        return false;
    };
    matches!(stacks.get(name).await, Ok(Some(stack)) if stack.lineage() == lineage)
}

/// Requires that no other stack has the name.
async fn require_name(target: &Salvage, name: &StackName, lineage: Lineage) -> Result<()> {
    let pointers = target.store.pointers().await?;
    let intact = pointers.iter().filter_map(|file| file.pointer.as_ref().ok());
    let leading = intact.filter(|pointer| pointer.name.folded() == name.folded());
    let stacks = target.store.stacks().await?;
    for other in leading.filter_map(|pointer| pointer.lineage()) {
        if other == lineage || !stacks.contains(&other) {
            continue;
        }
        let files = StackFiles::read_journal(&target.store, other).await?;
        let has_name = survey::name_of(&target.client, &files, &pointers)
            .await?
            .is_none_or(|known| known.folded() == name.folded());
        if has_name && !survey::is_no_stack(&target.client, &files, &pointers).await? {
            let reason = format!(
                "another stack, {other}, has this name in the store: give that one another name with `statectl stack rename {} \
                 NAME`, or restore another stack of the backup with `--stack`",
                name.short()
            );
            return Err(Error::conflict(format!("stack {}", name.short()), reason));
        }
    }
    Ok(())
}

/// The revisions that the intact files of a stack name, newest first. They aren't authenticated.
fn listed(files: &StackFiles) -> Vec<Revision> {
    let documents = files.revisions.values().rev();
    let documents = documents.filter(|document| !files.is_collected(&document.revision));
    documents
        .map(|document| document.clone().into_revision(None))
        .collect()
}

fn later(backup: &BackupStack, revisions: Vec<Revision>) -> Vec<Revision> {
    let mut later = revisions;
    // The backup may be older than a collection: revisions that it has and the store doesn't have aren't later.
    let first = backup.revisions.last().map(|first| first.id.serial());
    later.retain(|revision| {
        !backup.has(&revision.id) && first.is_none_or(|first| revision.id.serial() >= first)
    });
    later
}

async fn remembered(target: &Salvage, backup: &BackupStack, decision: &Decision) -> Result<Option<Serial>> {
    let Some(known) = &target.client.known_stacks else {
        return Ok(None);
    };
    let pin = known.seen(backup.lineage()).await?;
    let listed = decision.later.iter().map(|revision| revision.id.serial());
    let highest = listed.chain([backup.rebuilt.view.state.serial()]).max();
    Ok(pin.map(|pin| pin.serial).filter(|serial| Some(*serial) > highest))
}
