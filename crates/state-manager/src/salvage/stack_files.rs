//! The files of one stack, with all damage in them. What is intact is kept in memory, for a stack that is rebuilt from it.

use crate::objects::document::RevisionDocument;
use crate::read::history_floor::ATTEMPTS;
use crate::salvage::damage::{Damage, reason};
use crate::salvage::damaged_store::SharedStore;
use crate::salvage::frame_index::{FrameChain, FrameIndex};
use crate::salvage::intact_objects::IntactObjects;
use crate::salvage::journal_files::{self, JournalFiles};
use crate::salvage::object_files;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use state_core::backend::{ChainAnchors, ObjectKind, Tail};
use state_core::head::Watermark;
use state_core::{Digest, Enveloped, Epoch, Frame, Generation, Head, Lineage, Result, RevisionId};
use std::collections::BTreeMap;

/// The content of `meta.json`.
#[derive(Serialize, Deserialize)]
struct Meta {
    lineage: Lineage,
}

impl Enveloped for Meta {
    const KIND: &'static str = "meta";
}

/// The content of the `meta.json` of a stack.
pub(super) fn meta_document(lineage: Lineage) -> Bytes {
    Meta { lineage }.encode().into()
}

/// The files of one stack.
#[derive(Clone, Debug)]
pub(super) struct StackFiles {
    pub(super) lineage: Lineage,
    /// The head, if it is intact. Not authenticated.
    pub(super) head: Option<Head>,
    pub(super) index: FrameIndex,
    /// The objects that are intact, by name.
    pub(super) objects: IntactObjects,
    /// The revisions of which a document is left, by id.
    pub(super) revisions: BTreeMap<RevisionId, RevisionDocument>,
    /// The positions after the frames of the revisions on the pages that the head names.
    pub(super) paged: Vec<Tail>,
    pub(super) damage: Vec<Damage>,
    /// Why clients refuse the stack although no file of it is damaged.
    pub(super) refusal: Option<String>,
    /// Whether the journal is intact up to its end, as far as the head records that end.
    pub(super) is_journal_whole: bool,
    /// The highest epoch in a segment's name.
    pub(super) epoch: Epoch,
    /// The highest generation of a lock file.
    pub(super) generation: Generation,
}

impl StackFiles {
    /// Reads all files of a stack, and again while a writer replaces its head: a collection may have deleted an object
    /// that the earlier head named.
    pub(super) async fn read(store: &SharedStore, lineage: Lineage) -> Result<Self> {
        let path = head_path(lineage);
        for _ in 1..ATTEMPTS {
            let before = store.read(&path).await?;
            let files = Self::read_once(store, lineage).await?;
            if files.damage.is_empty() || store.read(&path).await? == before {
                return Ok(files);
            }
        }
        Self::read_once(store, lineage).await
    }

    async fn read_once(store: &SharedStore, lineage: Lineage) -> Result<Self> {
        let mut files = Self::read_journal(store, lineage).await?;
        for kind in ObjectKind::ALL {
            object_files::read(store, kind, &mut files).await?;
        }
        object_files::add_paged_revisions(&mut files);
        object_files::check_references(&mut files);
        files.damage.sort();
        files.damage.dedup();
        Ok(files)
    }

    /// Reads the head and the journal of a stack, without its objects.
    pub(super) async fn read_journal(store: &SharedStore, lineage: Lineage) -> Result<Self> {
        let folder = format!("stacks/{lineage}");
        let mut damage = Vec::new();
        let meta = format!("{folder}/meta.json");
        match store.read(&meta).await?.map(|bytes| Meta::decode(&meta, &bytes)) {
            None => damage.push(Damage::new(&meta, "it is missing")),
            Some(Err(error)) => damage.push(Damage::new(&meta, reason(&error))),
            Some(Ok(found)) if found.lineage != lineage => {
                damage.push(Damage::new(&meta, "it belongs to another stack"));
            }
            Some(Ok(_)) => {}
        }
        let mut head = read_head(store, lineage, &mut damage).await?;
        damage.extend(store.part_damage(lineage).await?);
        let mut journal = journal_files::read(store, lineage, head.as_ref()).await?;
        if head.as_ref().is_some_and(|head| head.epoch < journal.files.epoch) {
            // A takeover replaces the head before it creates its segment. Without the frames that an older head doesn't
            // count, the stack would look intact.
            let reason = "it was restored to an older version: the journal has segments of a later epoch";
            damage.push(Damage::new(head_path(lineage), reason));
            head = None;
            journal = journal_files::read(store, lineage, None).await?;
        }
        let JournalFiles {
            index,
            is_whole,
            epoch,
        } = journal.files;
        damage.extend(journal.damage);
        let mut files = Self {
            lineage,
            objects: IntactObjects::new(store, lineage),
            revisions: revisions(&index),
            paged: Vec::new(),
            damage,
            refusal: None,
            is_journal_whole: is_whole,
            epoch,
            generation: generation(store, &folder).await?,
            index,
            head,
        };
        files.check_end(&folder);
        Ok(files)
    }

    /// The highest epoch in the head, in a frame, or in the name of a segment.
    pub(super) fn newest_epoch(&self) -> Epoch {
        let frames = self.index.frames().map(Frame::epoch).max();
        let head = self.head.as_ref().map(|head| head.epoch);
        self.epoch
            .max(frames.unwrap_or_default())
            .max(head.unwrap_or_default())
    }

    /// The position after the newest frame.
    pub(super) fn end(&self) -> Option<Digest> {
        self.index.newest(self.head.as_ref().map(|head| head.epoch))
    }

    /// The linked frames up to the newest one.
    pub(super) fn chain(&self) -> Option<FrameChain> {
        self.index.back_from(&self.end()?)
    }

    /// Checks that the journal contains every point that the head records.
    fn check_end(&mut self, folder: &str) {
        let Some(head) = &self.head else {
            self.is_journal_whole = false;
            return;
        };
        let chain = self.chain();
        let tail = match &chain {
            Some(chain) => chain.frames.last().map_or(chain.before, Tail::after),
            None => Tail::genesis(self.lineage),
        };
        let anchors = ChainAnchors::of(head);
        let mut positions = chain.iter().flat_map(|chain| {
            let frames = chain.frames.iter().map(Tail::after);
            std::iter::once(chain.before).chain(frames)
        });
        let passed = positions.try_for_each(|tail| anchors.pass(tail));
        if let Err(reason) = passed.and_then(|()| anchors.finish(tail)) {
            self.is_journal_whole = false;
            self.damage.push(Damage::new(format!("{folder}/journal"), reason));
        } else if head.closed {
            // Nothing follows the end of a closed journal, so damaged segments can't contain more.
            let end = head.watermark.map(|end| (end.slot.next(), end.chain));
            self.is_journal_whole |= end == Some((tail.next, tail.chain));
        }
    }

    /// Whether a snapshot or a page of the history is damaged or missing.
    pub(super) fn misses_history(&self) -> bool {
        let folders = [ObjectKind::Snapshot, ObjectKind::Update].map(|kind| kind.path(self.lineage));
        let mut damaged = self.damage.iter().map(|damage| &damage.object);
        damaged.any(|object| folders.iter().any(|folder| object.starts_with(folder)))
    }

    /// Whether a revision was deleted on purpose, or is older than the history.
    pub(super) fn is_collected(&self, revision: &RevisionId) -> bool {
        let collection = self.head.as_ref().and_then(|head| head.collection.as_ref());
        collection.is_some_and(|collection| {
            revision.serial() < collection.serial || collection.forgotten.contains(revision)
        })
    }
}

/// The last frame of a chain, as a head records the end of a closed journal.
pub(super) fn watermark(chain: &FrameChain) -> Option<Watermark> {
    chain.frames.last().map(|last| Watermark {
        slot: last.slot(),
        chain: *last.chain(),
    })
}

fn head_path(lineage: Lineage) -> String {
    format!("stacks/{lineage}/head.json")
}

/// The heads of several stacks, in the order of their lineages; none for a head that is damaged or missing.
pub(super) async fn read_heads(store: &SharedStore, lineages: &[Lineage]) -> Result<Vec<Option<Head>>> {
    let paths: Vec<_> = lineages.iter().map(|lineage| head_path(*lineage)).collect();
    let stored = store.read_all(&paths).await?;
    let heads = lineages.iter().zip(stored);
    Ok(heads
        .map(|(lineage, bytes)| decode_head(*lineage, bytes).ok())
        .collect())
}

async fn read_head(store: &SharedStore, lineage: Lineage, damage: &mut Vec<Damage>) -> Result<Option<Head>> {
    let stored = store.read(&head_path(lineage)).await?;
    match decode_head(lineage, stored) {
        Ok(head) => Ok(Some(head)),
        Err(found) => {
            damage.push(found);
            Ok(None)
        }
    }
}

fn decode_head(lineage: Lineage, stored: Option<Bytes>) -> Result<Head, Damage> {
    let path = head_path(lineage);
    let Some(bytes) = stored else {
        return Err(Damage::new(path, "it is missing"));
    };
    match Head::decode(&path, &bytes) {
        Ok(head) if head.lineage == lineage => Ok(head),
        Ok(_) => Err(Damage::new(path, "it belongs to another stack")),
        Err(error) => Err(Damage::new(path, reason(&error))),
    }
}

/// The documents of the revisions that intact frames make. A frame that can't be decoded makes none.
fn revisions(index: &FrameIndex) -> BTreeMap<RevisionId, RevisionDocument> {
    let documents = index.frames().filter_map(|frame| {
        let document = RevisionDocument::of_frame("journal frame", frame);
        document.ok().flatten()
    });
    documents
        .map(|document| (document.revision.clone(), document))
        .collect()
}

async fn generation(store: &SharedStore, folder: &str) -> Result<Generation> {
    let files = store.entries(folder).await?;
    let numbers = files
        .iter()
        .filter_map(|file| file.strip_prefix("lock.")?.parse().ok());
    Ok(numbers.map(Generation).max().unwrap_or(Generation::ZERO))
}
