//! Surveys a damaged store: all damage, the revisions that survive, and the stacks that no name leads to.

use crate::keys::authenticate;
use crate::objects::document::RevisionDocument;
use crate::read::{history_floor, view};
use crate::salvage::damage::{Damage, reason};
use crate::salvage::damaged_store::{PointerFile, SharedStore};
use crate::salvage::head_template::{self, Client, HeadTemplate, SuppliedFacts};
use crate::salvage::rebuild::{self, Beginning, RebuiltStack};
use crate::salvage::stack_files::StackFiles;
use serde::{Deserialize, Serialize};
use state_core::backend::{NameTarget, ObjectKind};
use state_core::{
    Base, Digest, Enveloped, Epoch, Error, Lineage, Result, RevisionId, Serial, Snapshot, StackName,
};
use std::collections::BTreeMap;

/// How the names of frames in errors begin.
const FRAME: &str = "journal frame";

/// What a survey of a store found.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct StoreSurvey {
    /// Damage outside of the folders of stacks: the file `format`, and name pointers.
    pub damage: Vec<Damage>,
    /// The stacks, by lineage.
    pub stacks: Vec<StackSurvey>,
}

/// What a survey found of one stack.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct StackSurvey {
    /// Identity of the stack.
    pub lineage: Lineage,
    /// Name of the stack, as its head, a name pointer or this client's memory has it; none if all are lost.
    pub name: Option<StackName>,
    /// Whether no name leads to the stack.
    pub orphaned: bool,
    /// Whether the state after the newest change can be read.
    pub current_readable: bool,
    /// The damage in the files of the stack.
    pub damage: Vec<Damage>,
    /// The revisions that can be read, oldest first. Listed only if something is damaged: else all of them can be read.
    pub surviving: Vec<RevisionId>,
    /// The revisions that can't be read, oldest first, as far as their ids are known.
    pub lost: Vec<RevisionId>,
    /// The revision whose state a salvage would restore; none if nothing is damaged, or if no revision can be restored.
    pub restorable: Option<RevisionId>,
    /// The highest serial that this client remembers, if it is higher than that of `restorable`: later revisions are lost.
    pub remembered: Option<Serial>,
    /// What keeps the stack from being rebuilt: a key or a fact that a person must supply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub obstacle: Option<String>,
}

impl StoreSurvey {
    /// Whether nothing is damaged, and a name leads to each stack.
    pub fn is_intact(&self) -> bool {
        self.damage.is_empty() && self.stacks.iter().all(StackSurvey::is_intact)
    }
}

impl StackSurvey {
    const fn new(lineage: Lineage, orphaned: bool, name: Option<StackName>) -> Self {
        Self {
            lineage,
            name,
            orphaned,
            current_readable: false,
            damage: Vec::new(),
            surviving: Vec::new(),
            lost: Vec::new(),
            restorable: None,
            remembered: None,
            obstacle: None,
        }
    }

    /// Whether nothing is damaged and a name leads to the stack.
    pub fn is_intact(&self) -> bool {
        self.damage.is_empty() && !self.orphaned && self.current_readable
    }
}

/// The content of the file `format`.
#[derive(Serialize, Deserialize)]
struct Layout {
    layout: u64,
}

impl Enveloped for Layout {
    const KIND: &'static str = "format";
}

/// Surveys the whole store.
pub(super) async fn survey(
    client: &Client,
    store: &SharedStore,
    facts: &SuppliedFacts,
) -> Result<StoreSurvey> {
    let pointers = store.pointers().await?;
    let mut stacks = Vec::new();
    for lineage in store.stacks().await? {
        match survey_stack(client, store, lineage, &pointers, facts).await {
            Ok(survey) => stacks.extend(survey),
            Err(error @ Error::Corrupt { .. }) => stacks.push(unreadable(lineage, &pointers, &error)),
            Err(error) => return Err(error),
        }
    }
    for (folder, lineage) in store.unfinished().await? {
        let staged = survey_stack(client, &store.below(&folder), lineage, &pointers, facts).await?;
        let reason =
            "an interrupted salvage or restore left the stack there: `statectl salvage` puts it in its place";
        stacks.extend(staged.map(|mut survey| {
            let object = format!("{folder}/stacks/{lineage}");
            survey.damage.push(Damage::new(object, reason));
            survey
        }));
    }
    Ok(StoreSurvey {
        damage: store_damage(store, &pointers).await?,
        stacks,
    })
}

/// The survey of a stack of which a file can't be read.
fn unreadable(lineage: Lineage, pointers: &[PointerFile], error: &Error) -> StackSurvey {
    let intact = pointers.iter().filter_map(|file| file.pointer.as_ref().ok());
    let name = intact
        .into_iter()
        .find(|pointer| pointer.lineage() == Some(lineage))
        .map(|pointer| pointer.name.clone());
    StackSurvey {
        damage: vec![Damage::new(error.object(), reason(error))],
        obstacle: Some("a file can't be read".to_owned()),
        ..StackSurvey::new(lineage, name.is_none(), name)
    }
}

/// Damage of the file `format` and of the name pointers.
pub(super) async fn store_damage(store: &SharedStore, pointers: &[PointerFile]) -> Result<Vec<Damage>> {
    let mut damage = Vec::new();
    let format = store.read("format").await?;
    let stacks = store.stacks().await?;
    match format.map(|bytes| Layout::decode("format", &bytes)) {
        None => damage.push(Damage::new("format", "it is missing")),
        Some(Err(error @ Error::Format { .. })) => return Err(error),
        Some(Err(error)) => damage.push(Damage::new("format", reason(&error))),
        Some(Ok(_)) => {}
    }
    damage.extend(pointers.iter().filter_map(|file| pointer_damage(file, &stacks)));
    Ok(damage)
}

/// Why a name pointer leads nowhere; none if it leads to one of these stacks, or says that the stack was removed.
pub(super) fn pointer_damage(file: &PointerFile, stacks: &[Lineage]) -> Option<Damage> {
    let target = match &file.pointer {
        Err(reason) => return Some(Damage::new(&file.path, reason)),
        Ok(pointer) => pointer.lineage()?,
    };
    (!stacks.contains(&target)).then(|| Damage::new(&file.path, format!("the stack {target} is missing")))
}

/// Surveys one stack; none if it was removed, or never finished to be created.
async fn survey_stack(
    client: &Client,
    store: &SharedStore,
    lineage: Lineage,
    pointers: &[PointerFile],
    facts: &SuppliedFacts,
) -> Result<Option<StackSurvey>> {
    let files = read_stack(client, store, lineage).await?;
    if is_no_stack(&files, pointers) {
        return Ok(None);
    }
    let name = name_of(client, &files, pointers).await?;
    let orphaned = !is_bound(lineage, name.as_ref(), pointers);
    let mut survey = StackSurvey {
        damage: files.damage.clone(),
        ..StackSurvey::new(lineage, orphaned, name.clone())
    };
    if files.damage.is_empty() {
        survey.obstacle = obstacle(client, &files).await?;
        survey.current_readable = survey.obstacle.is_none();
        return Ok(Some(survey));
    }
    let facts = SuppliedFacts {
        name: facts.name.clone().or(name),
        ..facts.clone()
    };
    match head_template::of(client, &files, &facts).await {
        Ok(template) => {
            let survivors = survivors(client, &files, &template).await;
            survey.current_readable = survivors.current.is_ok() && files.is_journal_whole;
            match template.require_key("salvaged") {
                Ok(()) => {
                    survey.restorable = survivors.restorable(&files);
                    survey.remembered = remembered(client, lineage, survey.restorable.as_ref()).await?;
                }
                Err(error) => survey.obstacle = Some(error.to_string()),
            }
            if let (Err(error), None, None) = (&survivors.current, &survey.restorable, &survey.obstacle) {
                survey.obstacle = Some(error.to_string());
            }
            survey.surviving = survivors.surviving;
            survey.lost = survivors.lost;
        }
        Err(error) => survey.obstacle = Some(error.to_string()),
    }
    Ok(Some(survey))
}

/// The highest serial that this client remembers of a stack, if it is higher than that of the restored revision.
pub(super) async fn remembered(
    client: &Client,
    lineage: Lineage,
    restored: Option<&RevisionId>,
) -> Result<Option<Serial>> {
    let Some(known) = &client.known_stacks else {
        return Ok(None);
    };
    let serial = known.seen(lineage).await?.map(|pin| pin.serial);
    let restored = restored.map_or(Serial::ZERO, RevisionId::serial);
    Ok(serial.filter(|serial| *serial > restored))
}

/// Reads all files of a stack. If no damage is found, the stack is also read as any client reads it: whatever a reader refuses
/// is never called intact.
pub(super) async fn read_stack(client: &Client, store: &SharedStore, lineage: Lineage) -> Result<StackFiles> {
    let mut files = StackFiles::read(store, lineage).await?;
    let head = files.head.as_ref().filter(|head| !head.removed);
    // Without an intact `format`, no client reads the store: that damage is reported apart.
    let (Some(head), true, Ok(backend)) = (head, files.damage.is_empty(), store.backend()) else {
        return Ok(files);
    };
    // A roll-back isn't damage of the files, so the memory of this client doesn't matter.
    let client = client.without_memory();
    let stack = client.store(backend).stack(head.name.clone(), lineage);
    let read = async {
        view::tip(&stack).await?;
        let journal = history_floor::whole_journal(&stack).await?;
        authenticate::check_earlier_frames(&stack, &journal).await
    };
    match Box::pin(read).await {
        Err(error @ (Error::Corrupt { .. } | Error::NotFound { .. })) => {
            files.damage.push(Damage::new(error.object(), reason(&error)));
            files.is_journal_whole = false;
        }
        // The data key opens, so this is no missing identity: the tag of a frame is damaged.
        Err(error @ Error::Sealed { .. }) if error.object().starts_with(FRAME) => {
            files.damage.push(Damage::new(error.object(), reason(&error)));
            files.is_journal_whole = false;
        }
        Err(error @ (Error::Distrusted { .. } | Error::Integrity { .. })) => {
            files.refusal = Some(error.to_string());
        }
        // Without an identity, a sealed stack is read as far as its frames are authentic by their chain.
        _ => {}
    }
    Ok(files)
}

/// Why an undamaged stack can't be read as clients read it; none if it can.
pub(super) async fn obstacle(client: &Client, files: &StackFiles) -> Result<Option<String>> {
    match &files.refusal {
        Some(refusal) => Ok(Some(refusal.clone())),
        None => key_obstacle(client, files).await,
    }
}

/// Why a data key that this client opened before doesn't open any more; none if it does, or if this client never opened it.
/// Without an identity, a damaged key file looks like any other.
async fn key_obstacle(client: &Client, files: &StackFiles) -> Result<Option<String>> {
    let key = files.head.as_ref().and_then(|head| head.key_id);
    let (Some(key), Some(known)) = (key, &client.known_stacks) else {
        return Ok(None);
    };
    let pin = known.seen(files.lineage).await?;
    if pin.and_then(|pin| pin.key) != Some(key) {
        return Ok(None);
    }
    let template = head_template::of(client, files, &SuppliedFacts::default()).await;
    Ok(template.err().map(|error| error.to_string()))
}

/// Whether a folder is the rest of a removed stack, or of a stack that was never created.
pub(super) fn is_no_stack(files: &StackFiles, pointers: &[PointerFile]) -> bool {
    let lineage = files.lineage;
    if files.head.as_ref().is_some_and(|head| head.removed) {
        return true;
    }
    if files.index.frames().next().is_some() {
        return false;
    }
    let intact = pointers.iter().filter_map(|file| file.pointer.as_ref().ok());
    let mut targets = intact.map(|pointer| &pointer.target);
    match &files.head {
        // A crash in the creation of a stack leaves an empty one that no name leads to.
        Some(head) => {
            let is_unfinished = head.epoch == Epoch::ZERO && head.base == Base::empty(lineage);
            let may_be_named = pointers.iter().any(|file| file.pointer.is_err());
            is_unfinished && !may_be_named && !targets.any(|target| *target == NameTarget::Lineage(lineage))
        }
        None => targets.any(|target| *target == NameTarget::Removed(lineage)),
    }
}

/// Whether nothing of a stack is left in its folder, and no name leads to it: only its name was known, if anything.
pub(super) fn is_empty(files: &StackFiles, pointers: &[PointerFile]) -> bool {
    let has_snapshot = files
        .objects
        .names()
        .any(|name| name.kind() == ObjectKind::Snapshot);
    let has_frame = files.index.frames().next().is_some();
    let is_damaged = pointers.iter().any(|file| file.pointer.is_err());
    files.head.is_none()
        && !has_frame
        && !has_snapshot
        && !is_damaged
        && !is_bound(files.lineage, None, pointers)
}

/// The last known name of a stack: that in its head, in a name pointer, or in the memory of this client.
pub(super) async fn name_of(
    client: &Client,
    files: &StackFiles,
    pointers: &[PointerFile],
) -> Result<Option<StackName>> {
    if let Some(head) = &files.head {
        return Ok(Some(head.name.clone()));
    }
    let intact = pointers.iter().filter_map(|file| file.pointer.as_ref().ok());
    let mut leading = intact.filter(|pointer| pointer.lineage() == Some(files.lineage));
    if let Some(pointer) = leading.next() {
        return Ok(Some(pointer.name.clone()));
    }
    let Some(known) = &client.known_stacks else {
        return Ok(None);
    };
    let pin = known.seen(files.lineage).await?;
    Ok(pin.and_then(|pin| pin.sealing).and_then(|sealing| sealing.name))
}

/// Whether the name of a stack leads to it.
pub(super) fn is_bound(lineage: Lineage, name: Option<&StackName>, pointers: &[PointerFile]) -> bool {
    let intact = pointers.iter().filter_map(|file| file.pointer.as_ref().ok());
    let mut leading = intact.filter(|pointer| pointer.lineage() == Some(lineage));
    leading.any(|pointer| name.is_none_or(|name| name.folded() == pointer.name.folded()))
}

/// The revisions that can be read and those that can't.
pub(super) struct Survivors {
    pub(super) surviving: Vec<RevisionId>,
    pub(super) lost: Vec<RevisionId>,
    /// The stack up to its newest intact frame.
    pub(super) current: Result<RebuiltStack>,
}

impl Survivors {
    /// The revision whose state a salvage restores: the current one of the stack up to its newest intact frame, else the newest
    /// that can be read.
    fn restorable(&self, files: &StackFiles) -> Option<RevisionId> {
        match &self.current {
            Ok(rebuilt) => rebuilt.view.state.current().cloned(),
            Err(_) => newest_end(files, &self.surviving).map(|(document, _)| document.revision.clone()),
        }
    }
}

/// The newest of these revisions that an update made, and the chain after its frame.
pub(super) fn newest_end<'f>(
    files: &'f StackFiles,
    surviving: &[RevisionId],
) -> Option<(&'f RevisionDocument, Digest)> {
    let documents = surviving.iter().filter_map(|id| files.revisions.get(id));
    let ends = documents.filter_map(|document| Some((document, rebuild::end_of(files, document)?)));
    ends.max_by_key(|(document, _)| document.slot)
}

/// Reads each revision of a stack. First the newest state that is intact, with its history; then, each for itself, the
/// revisions that this history doesn't contain.
pub(super) async fn survivors(client: &Client, files: &StackFiles, template: &HeadTemplate) -> Survivors {
    let current = match files.end() {
        Some(end) => {
            Box::pin(rebuild::rebuild(
                client,
                files,
                template,
                &end,
                Beginning::Earliest,
            ))
            .await
        }
        // Nothing was written yet to a stack that is intact.
        None if template.is_stored && files.damage.is_empty() => {
            Box::pin(rebuild::complete(client, files, template)).await
        }
        None => {
            let object = format!("journal of stack {}", files.lineage);
            Err(Error::corrupt(object, 0, "it has no intact frame"))
        }
    };
    let mut read = BTreeMap::new();
    if let Ok(rebuilt) = &current {
        for revision in rebuilt.view.history().await.unwrap_or_default() {
            let is_readable = rebuilt.view.get(&revision.id).await.is_ok();
            read.insert(revision.id, is_readable);
        }
    }
    for (id, document) in &files.revisions {
        if read.get(id) == Some(&true) || files.is_collected(id) || is_forgotten(&current, id) {
            continue;
        }
        let is_readable = Box::pin(at_revision(client, files, template, document))
            .await
            .is_ok();
        read.insert(id.clone(), is_readable);
    }
    let ids = |wanted: bool| {
        let matching = read.iter().filter(|(_, is_readable)| **is_readable == wanted);
        matching.map(|(id, _)| id.clone()).collect()
    };
    Survivors {
        surviving: ids(true),
        lost: ids(false),
        current,
    }
}

fn is_forgotten(current: &Result<RebuiltStack>, revision: &RevisionId) -> bool {
    let current = current.as_ref();
    current.is_ok_and(|rebuilt| rebuilt.view.state.is_forgotten(revision))
}

/// The stack as it was at a revision, with the content of the revision.
///
/// # Errors
/// `Corrupt` if frames or snapshots that lead to the revision are damaged.
pub(super) async fn at_revision(
    client: &Client,
    files: &StackFiles,
    template: &HeadTemplate,
    document: &RevisionDocument,
) -> Result<(RebuiltStack, Snapshot)> {
    let object = || format!("revision {} of stack {}", document.revision, files.lineage);
    let Some(end) = rebuild::end_of(files, document) else {
        return Err(Error::corrupt(
            object(),
            0,
            "the frame that made it is damaged or missing",
        ));
    };
    let rebuilt = rebuild::rebuild(client, files, template, &end, Beginning::Latest).await?;
    let snapshot = rebuilt.view.get(&document.revision).await?;
    Ok((rebuilt, snapshot))
}
