//! Rebuilds a stack from intact frames and objects. Each possible beginning of the history is tried, from the one that
//! keeps the most revisions on: a stack counts as rebuilt only if the ordinary readers accept it and replay its state.

use crate::objects::document::{RevisionDocument, RevisionRecord};
use crate::read::view::View;
use crate::salvage::beginnings::{Candidate, candidates};
use crate::salvage::earlier_keys;
use crate::salvage::frame_index::FrameChain;
use crate::salvage::frame_tags;
use crate::salvage::head_template::{Client, HeadTemplate};
use crate::salvage::intact_objects::IntactObjects;
use crate::salvage::rebuilt_backend::RebuiltBackend;
use crate::salvage::stack_files::{StackFiles, watermark};
use crate::stack::Stack;
use state_core::backend::{Backend, ChainAnchors, ObjectKind, ObjectName, Tail};
use state_core::head::Collection;
use state_core::history::History;
use state_core::{Base, Digest, Error, Frame, Head, Result, Serial, Slot};
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A stack that was rebuilt in memory.
#[derive(Clone, Debug)]
pub(super) struct RebuiltStack {
    pub(super) head: Head,
    pub(super) before: Tail,
    pub(super) frames: Vec<Frame>,
    pub(super) objects: IntactObjects,
    /// The stack in memory, as readers see it.
    pub(super) view: View,
}

impl RebuiltStack {
    /// Returns the whole journal.
    pub(super) fn journal(&self) -> FrameChain {
        FrameChain {
            before: self.before,
            frames: self.frames.clone(),
        }
    }

    /// The end of the journal.
    pub(super) fn end(&self) -> Tail {
        self.frames.last().map_or(self.before, |last| Tail {
            next: last.slot().next(),
            chain: *last.chain(),
        })
    }
}

/// In which order beginnings of the history are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beginning {
    /// The one that keeps the most revisions first.
    Earliest,
    /// The one that needs the fewest frames and snapshots first: for the state at one revision.
    Latest,
}

/// Rebuilds the stack that ends with the frame that has this chain.
///
/// # Errors
/// The error of the first beginning that was tried, if the state can't be replayed from any. `Sealed` if no identity
/// opens the data key, which must sign the head of the rebuilt stack.
pub(super) async fn rebuild(
    client: &Client,
    files: &StackFiles,
    template: &HeadTemplate,
    end: &Digest,
    beginning: Beginning,
) -> Result<RebuiltStack> {
    let object = || format!("journal of stack {}", files.lineage);
    let Some(mut chain) = files.index.back_from(end) else {
        return Err(Error::corrupt(object(), 0, "it has no intact frame"));
    };
    frame_tags::mend(template, &mut chain)?;
    let mut failed = None;
    // Without a snapshot or a page that the stored head needs for earlier revisions, its history begins later.
    if files.end() == Some(*end)
        && !files.misses_history()
        && let Some(frames) = unchanged(template, &chain)
    {
        match adopt_stored(client, files, template, frames).await {
            Ok(rebuilt) => return Ok(rebuilt),
            Err(error) => failed = Some(error),
        }
    }
    let mut candidates = candidates(files, template, &chain)?;
    if beginning == Beginning::Latest {
        // A stored snapshot of the state comes before one that was made.
        candidates.sort_by_key(|candidate| (candidate.made.is_some(), Reverse(candidate.base.start)));
    }
    for candidate in candidates {
        match from_candidate(client, files, template, &chain, candidate).await {
            Ok(rebuilt) => return Ok(rebuilt),
            Err(error) => drop(failed.get_or_insert(error)),
        }
    }
    Err(failed
        .unwrap_or_else(|| Error::corrupt(object(), 0, "no intact snapshot precedes its intact frames")))
}

/// The stack as its stored head describes it, in files of which none is damaged.
///
/// # Errors
/// `Corrupt` if frames that the head describes are missing; any error of reading the stack.
pub(super) async fn complete(
    client: &Client,
    files: &StackFiles,
    template: &HeadTemplate,
) -> Result<RebuiltStack> {
    let frames = match files.chain() {
        Some(mut chain) => {
            frame_tags::mend(template, &mut chain)?;
            unchanged(template, &chain).ok_or_else(|| {
                let object = format!("journal of stack {}", files.lineage);
                Error::corrupt(object, 0, "frames that the head describes are missing")
            })?
        }
        None => Vec::new(),
    };
    adopt_stored(client, files, template, frames).await
}

async fn adopt_stored(
    client: &Client,
    files: &StackFiles,
    template: &HeadTemplate,
    frames: Vec<Frame>,
) -> Result<RebuiltStack> {
    let head = with_unsigned_fields(client, files, template.head.clone());
    let beginning = match &head.collection {
        Some(collection) => collection.base.clone(),
        None => Base::empty(files.lineage),
    };
    let before = Tail {
        next: beginning.start,
        chain: beginning.chain,
    };
    adopt(client, head, before, frames, files.objects.clone()).await
}

/// The frames with which the stored head is complete as it is; none if it isn't.
fn unchanged(template: &HeadTemplate, chain: &FrameChain) -> Option<Vec<Frame>> {
    let head = Some(&template.head).filter(|_| template.is_stored && !template.is_renamed)?;
    let anchors = ChainAnchors::of(head);
    let beginning = head
        .collection
        .as_ref()
        .map_or(Slot::ZERO, |collection| collection.base.start);
    let tail = chain.frames.last().map_or(chain.before, Tail::after);
    let is_whole = chain.before.next <= beginning && anchors.finish(tail).is_ok();
    let passes = chain
        .frames
        .iter()
        .all(|frame| anchors.pass(Tail::after(frame)).is_ok());
    let frames = chain.frames.iter().filter(|frame| frame.slot() >= beginning);
    (is_whole && passes).then(|| frames.cloned().collect())
}

/// Sets the fields that no tag covers: the rebuilt journal has one segment and no compaction.
fn with_unsigned_fields(client: &Client, files: &StackFiles, mut head: Head) -> Head {
    head.compactions = Vec::new();
    head.closed = false;
    head.generation = head.generation.max(files.generation);
    // A frame of a later epoch than the head's would fence the next writer.
    let frames = files.index.frames().map(Frame::epoch).max();
    head.epoch = head.epoch.max(files.epoch).max(frames.unwrap_or_default());
    head.nonce = client.nonce();
    head
}

async fn from_candidate(
    client: &Client,
    files: &StackFiles,
    template: &HeadTemplate,
    chain: &FrameChain,
    candidate: Candidate,
) -> Result<RebuiltStack> {
    let Candidate { base, made } = candidate;
    let live = chain.frames.iter().filter(|frame| frame.slot() >= base.start);
    let frames: Vec<Frame> = live.cloned().collect();
    let before = Tail {
        next: base.start,
        chain: base.chain,
    };
    let mut objects = files.objects.clone();
    // The new head names no stored page: the frames contain the same documents.
    objects.retain(|name| name.kind() != ObjectKind::Update);
    if let Some((name, bytes)) = made {
        objects.add_made(name, bytes);
    }
    let mut head = with_unsigned_fields(client, files, template.head.clone());
    let stored = template.head.collection.as_ref().filter(|_| template.is_stored);
    head.collection = match stored {
        Some(collection) if collection.base == base => Some(collection.clone()),
        _ if base == Base::empty(files.lineage) => None,
        _ => Some(Collection {
            serial: first_serial(files, &frames, base.start),
            since: client.environment.clock.now(),
            forgotten: BTreeSet::new(),
            base: base.clone(),
        }),
    };
    head.floor = base.start;
    head.base = base;
    head.rev_base = None;
    head.history = History::default();
    head.closed_state = None;
    head.watermark = watermark(chain);
    let later = earlier_keys::with_later_base(client, template, &head, &frames);
    earlier_keys::accept(&mut head, earlier_keys::proven_before(files, template, chain));
    sign(template, &mut head)?;
    let rebuilt = adopt(client, head, before, frames, objects.clone()).await?;
    let Some((mut head, pages)) = later else {
        return Ok(rebuilt);
    };
    for (page, bytes) in pages {
        objects.add_made(page.object(), bytes);
    }
    sign(template, &mut head)?;
    adopt(client, head, before, rebuilt.frames.clone(), objects)
        .await
        .or(Ok(rebuilt))
}

/// Signs the head of a stack that has a data key.
fn sign(template: &HeadTemplate, head: &mut Head) -> Result<()> {
    if head.key_id.is_none() {
        return Ok(());
    }
    let Some(key) = &template.key else {
        let object = format!("head of stack {}", head.lineage);
        let reason = "none of your identities opens the data key, which must sign a new head";
        return Err(Error::sealed(object, reason));
    };
    head.sign(&**key);
    Ok(())
}

/// The serial of the first revision from a slot on.
fn first_serial(files: &StackFiles, frames: &[Frame], start: Slot) -> Serial {
    let chains: BTreeSet<&Digest> = frames.iter().map(Frame::chain).collect();
    let made = files
        .revisions
        .values()
        .filter(|document| chains.contains(&document.chain));
    let serials = made.map(|document| document.revision.serial());
    let earlier = files.revisions.values().filter(|document| document.slot < start);
    let before = earlier.map(|document| document.revision.serial().next()).max();
    serials.min().or(before).unwrap_or(Serial::ZERO)
}

/// Stores a rebuilt stack in memory, and reads it as any reader does.
async fn adopt(
    client: &Client,
    head: Head,
    before: Tail,
    frames: Vec<Frame>,
    mut objects: IntactObjects,
) -> Result<RebuiltStack> {
    let backend = RebuiltBackend::new(&head, before, &frames, objects.clone()).await?;
    let stack = Stack::of(
        client
            .store(Arc::new(backend))
            .stack(head.name.clone(), head.lineage),
    );
    let view = stack.tip().await?.rebuilt();
    objects.retain(|name| !is_later(name, view.state.serial()));
    Ok(RebuiltStack {
        head,
        before,
        frames,
        objects,
        view,
    })
}

/// Whether an object belongs to a revision after this serial. Such a revision is lost, and a new one gets its serial: its log and
/// its outputs couldn't be stored beside these, and readers would take these outputs for the latest.
fn is_later(name: &ObjectName, current: Serial) -> bool {
    match name {
        ObjectName::Log(serial) | ObjectName::Outputs(serial) => *serial > current,
        _ => false,
    }
}

/// Stores the parts of a stack in a store that doesn't have the stack.
pub(super) async fn store_in(
    backend: &dyn Backend,
    head: &Head,
    before: Tail,
    frames: &[Frame],
    objects: &IntactObjects,
) -> Result<()> {
    let target = backend.copy_target()?;
    for name in objects.names() {
        let bytes = objects.read(name).await?;
        target.adopt_object(head.lineage, name, bytes).await?;
    }
    target.adopt_stack(head, before, frames).await
}

/// The chain after the frame that made a revision, and whether the revision was an update. None if no frame is left.
pub(super) fn end_of(files: &StackFiles, document: &RevisionDocument) -> Option<Digest> {
    let is_update = matches!(document.made, RevisionRecord::UpdateEnd(_));
    let is_left = files.index.back_from(&document.chain).is_some();
    (is_update && is_left).then_some(document.chain)
}
