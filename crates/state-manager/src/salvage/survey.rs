//! Surveys a damaged store: all damage, the revisions that survive, and the stacks that no name leads to.

use crate::keys::{authenticate, wrapped};
use crate::read::{history_floor, view};
use crate::salvage::damage::{Damage, reason};
use crate::salvage::damaged_store::{PointerFile, SharedStore};
use crate::salvage::head_template::{self, Client, SuppliedFacts};
use crate::salvage::stack_files::StackFiles;
use crate::salvage::survivors;
use serde::{Deserialize, Serialize};
use state_core::backend::{NameTarget, ObjectKind, ObjectName};
use state_core::{Base, Enveloped, Epoch, Error, KeyId, Lineage, Result, RevisionId, Serial, StackName};

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
    /// The replaced data keys of which no intact file is left: values of earlier revisions can't be decrypted. This is no
    /// damage that a salvage repairs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lost_keys: Vec<KeyId>,
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
            lost_keys: Vec::new(),
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
            // Other stacks may be readable.
            Err(error @ (Error::Corrupt { .. } | Error::Denied { .. })) => {
                stacks.push(unreadable(lineage, &pointers, &error));
            }
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
    damage.extend(store.misplaced_folders().await?);
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
    // Before the files: a writer may change the stack meanwhile, and this client remember what it wrote.
    let seen = remembered_serial(client, lineage).await?;
    let files = read_stack(client, store, lineage).await?;
    if is_no_stack(client, &files, pointers).await? {
        return Ok(None);
    }
    let name = name_of(client, &files, pointers).await?;
    let orphaned = !is_bound(lineage, name.as_ref(), pointers);
    let mut survey = StackSurvey {
        damage: files.damage.clone(),
        lost_keys: lost_keys(&files),
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
            let survivors = survivors::of(client, &files, &template).await;
            survey.current_readable = survivors.current.is_ok() && files.is_journal_whole;
            match template.require_key("salvaged") {
                Ok(()) => {
                    survey.restorable = survivors.restorable(&files);
                    survey.remembered = later_than(seen, survey.restorable.as_ref());
                }
                Err(error) => survey.obstacle = Some(error.to_string()),
            }
            if let (Err(error), None, None) = (&survivors.current, &survey.restorable, &survey.obstacle) {
                survey.obstacle = Some(error.to_string());
            }
            survey.surviving = survivors.surviving;
            survey.lost = survivors.lost;
            let current = survivors.current.as_ref().ok();
            let current = current.and_then(|rebuilt| rebuilt.view.state.current().cloned());
            let unlisted = current.filter(|current| !survey.surviving.contains(current));
            survey
                .surviving
                .extend(unlisted.filter(|_| survey.current_readable));
        }
        Err(error) => survey.obstacle = Some(error.to_string()),
    }
    Ok(Some(survey))
}

/// The replaced data keys of which no intact file is left.
fn lost_keys(files: &StackFiles) -> Vec<KeyId> {
    let Some(head) = &files.head else {
        return Vec::new();
    };
    let mut replaced = wrapped::keys_of(head);
    replaced.retain(|id| head.key_id != Some(*id));
    let is_here = |wanted: KeyId| {
        let mut names = files.objects.names();
        names.any(|name| matches!(name, ObjectName::Key { id, .. } if *id == wanted))
    };
    replaced.retain(|id| !is_here(*id));
    replaced
}

/// The highest serial that this client remembers of a stack; none if it doesn't know the stack.
pub(super) async fn remembered_serial(client: &Client, lineage: Lineage) -> Result<Option<Serial>> {
    match &client.known_stacks {
        Some(known) => Ok(known.seen(lineage).await?.map(|pin| pin.serial)),
        None => Ok(None),
    }
}

/// A remembered serial, if it is higher than that of the restored revision.
pub(super) fn later_than(seen: Option<Serial>, restored: Option<&RevisionId>) -> Option<Serial> {
    let restored = restored.map_or(Serial::ZERO, RevisionId::serial);
    seen.filter(|serial| *serial > restored)
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

/// Whether a folder is the rest of a removed stack, or of a stack that was never created, or is being created.
pub(super) async fn is_no_stack(
    client: &Client,
    files: &StackFiles,
    pointers: &[PointerFile],
) -> Result<bool> {
    if is_removed_or_unfinished(files, pointers) {
        return Ok(true);
    }
    // Creation writes the head last. A client that saw a revision remembers its serial.
    let seen = remembered_serial(client, files.lineage).await?;
    Ok(is_empty(files, pointers) && seen.is_none_or(|serial| serial == Serial::ZERO))
}

fn is_removed_or_unfinished(files: &StackFiles, pointers: &[PointerFile]) -> bool {
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
