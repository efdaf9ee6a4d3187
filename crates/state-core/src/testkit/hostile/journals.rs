//! Forged journals: a forgery changes frames, and recomputes the chain, the fences and the head. It can't compute the
//! tags of frames and head, which need the data key.

use super::frames::{fence, folder, frames, is_compaction};
use super::image::head_of;
use super::loot::{Loot, MARKER};
use super::{Edit, StoreImage};
use crate::digest::KeyId;
use crate::head::{Compaction, SealingPolicy};
use crate::journal::{Frame, FrameKind, Previous, decode_records, encode_records};
use crate::sealing::{MacKey, Tag, TagDomain};
use crate::{
    Base, Digest, Enveloped, Epoch, Head, Invalidation, Lineage, Nonce, Record, Slot, Timestamp, UpdateId,
};
use bytes::Bytes;
use serde_json::json;
use std::collections::BTreeMap;

/// The tag that forged frames carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ForgedTag {
    /// The tag of the original frame, which belongs to another chain.
    Copied,
    /// No tag and no key.
    Stripped,
    /// A tag under a key that the attacker once held.
    Former,
}

impl ForgedTag {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Copied => "copied tag",
            Self::Stripped => "no tag",
            Self::Former => "tag under a former key",
        }
    }
}

/// The head that the attacker stores beside a forged journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ForgedHead {
    /// The stored head, which refers to the original chain.
    Kept,
    /// A head that refers to the new chain.
    Adapted,
    /// A head that refers to the new chain and names no key, as if the stack had never been sealed.
    Plain,
}

impl ForgedHead {
    pub(super) const ALL: [Self; 3] = [Self::Kept, Self::Adapted, Self::Plain];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Kept => "head kept",
            Self::Adapted => "head adapted",
            Self::Plain => "plain head",
        }
    }

    /// Whether the attacker would combine this head with frames that have such a tag: the frames of a plain stack have
    /// none.
    pub(super) fn suits(self, tag: ForgedTag) -> bool {
        self != Self::Plain || tag == ForgedTag::Stripped
    }
}

/// A frame before its bytes are computed.
#[derive(Clone, Debug)]
pub(super) struct DraftFrame {
    pub(super) kind: FrameKind,
    pub(super) payload: Vec<u8>,
    epoch: Epoch,
    nonce: Nonce,
    key: Option<KeyId>,
    tag: [u8; Tag::SHORT],
    /// The chain after the stored frame. The head refers to frames by this digest.
    chain: Digest,
    /// The segment, or the slot, that holds the frame.
    object: String,
}

impl DraftFrame {
    fn of(frame: &Frame, object: &str) -> Self {
        let tag = match frame.key_id() {
            Some(_) => frame.bytes().last_chunk().copied().unwrap_or_default(),
            None => [0; Tag::SHORT],
        };
        Self {
            kind: frame.kind(),
            payload: frame.payload().to_vec(),
            epoch: frame.epoch(),
            nonce: frame.nonce(),
            key: frame.key_id(),
            tag,
            chain: *frame.chain(),
            object: object.to_owned(),
        }
    }
}

/// A replacement of the data key: it returns a copied tag for all bytes, because the attacker doesn't know the key.
#[derive(Debug)]
struct CopiedTag {
    id: KeyId,
    tag: [u8; Tag::SHORT],
}

impl MacKey for CopiedTag {
    fn id(&self) -> KeyId {
        self.id
    }

    fn tag(&self, _: TagDomain, _: &[u8]) -> Tag {
        let mut whole = [0; 32];
        whole[..Tag::SHORT].copy_from_slice(&self.tag);
        Tag::from_bytes(whole)
    }
}

/// The journal of a stack in a store: whole segments, or one object per slot.
pub(super) struct StoredJournal {
    lineage: Lineage,
    /// The author of the updates: see [`Loot::author`].
    author: String,
    /// The slot of the first frame, and the chain before it.
    start: (Slot, Digest),
    pub(super) frames: Vec<DraftFrame>,
}

impl StoredJournal {
    /// Reads the journal: see [`frames`]. Returns `None` if the store contains no frame of it.
    pub(super) fn read(store: &StoreImage, loot: &Loot) -> Option<Self> {
        let stored = frames(store, loot.lineage);
        let (_, before, first) = stored.first()?;
        Some(Self {
            lineage: loot.lineage,
            author: loot.author.clone(),
            start: (first.slot(), *before),
            frames: stored
                .iter()
                .map(|(object, _, frame)| DraftFrame::of(frame, object))
                .collect(),
        })
    }

    /// The positions of the data frames, oldest first.
    pub(super) fn data(&self) -> Vec<usize> {
        let is_data = |at: &usize| self.frames[*at].kind == FrameKind::Data;
        (0..self.frames.len()).filter(is_data).collect()
    }

    /// Returns a copy of the frame at a position with another nonce, in which the last entry has the marker as its
    /// address: see [`replaced`].
    pub(super) fn planted(&self, at: usize) -> DraftFrame {
        let mut forged = self.frames[at].clone();
        forged.nonce = Nonce::from_bytes([0x66; 16]);
        // The marker is a valid address and a valid user name, so readers can decode the record.
        forged.payload = replaced(&forged.payload, &self.author);
        forged
    }

    /// Returns the edits that turn the stored journal into this one. A forged head refers in a file system also to a
    /// compaction of the forged frames.
    pub(super) fn edits(
        &self,
        store: &StoreImage,
        loot: &Loot,
        tag: ForgedTag,
        head: ForgedHead,
    ) -> Vec<Edit> {
        let mut encoded = self.encode(loot, tag);
        let is_plain = head == ForgedHead::Plain;
        let mut head = store.head(self.lineage).filter(|_| head != ForgedHead::Kept);
        if let Some(head) = &mut head {
            adapt(head, &encoded.ends);
            if is_plain {
                (head.key_id, head.keys, head.tag) = (None, None, None);
                head.policy = SealingPolicy::Plaintext;
            }
            let compaction = self.compact(store, head, &encoded.frames);
            encoded.written.extend(compaction);
        }
        let is_of_journal = |object: &str| object.len() > folder(self.lineage).len();
        let mut edits: Vec<Edit> = store
            .below(&folder(self.lineage))
            .filter(|(object, _)| is_of_journal(object) && !encoded.written.contains_key(*object))
            .map(|(object, _)| Edit::delete(object))
            .collect();
        edits.extend(
            encoded
                .written
                .into_iter()
                .map(|(object, bytes)| Edit::put(object, bytes)),
        );
        edits.extend(head.map(|head| Edit::put(head_of(self.lineage), head.encode())));
        edits
    }

    /// Returns the edits that put this journal only into the compaction of a file system, and adapt the head. The segments
    /// stay as they are.
    pub(super) fn edits_of_compaction(&self, store: &StoreImage, loot: &Loot, tag: ForgedTag) -> Vec<Edit> {
        let encoded = self.encode(loot, tag);
        let Some(mut head) = store.head(self.lineage) else {
            return Vec::new();
        };
        adapt(&mut head, &encoded.ends);
        let Some((object, bytes)) = self.compact(store, &mut head, &encoded.frames) else {
            return Vec::new();
        };
        vec![
            Edit::put(object, bytes),
            Edit::put(head_of(self.lineage), head.encode()),
        ]
    }

    /// Names a compaction of all frames from the base on in a head, and returns its path and content. Returns `None` if the
    /// store has no such file.
    fn compact(&self, store: &StoreImage, head: &mut Head, frames: &[Frame]) -> Option<(String, Bytes)> {
        let folder = folder(self.lineage);
        store.below(&folder).find(|(object, _)| is_compaction(object))?;
        let start = head.base.start;
        let frames: Vec<&Frame> = frames.iter().filter(|frame| frame.slot() >= start).collect();
        let end = frames.last()?.slot().next();
        let bytes: Vec<u8> = frames.iter().flat_map(|frame| frame.bytes().to_vec()).collect();
        head.compactions = vec![Compaction {
            start,
            end,
            digest: Digest::of(&bytes),
            length: bytes.len() as u64,
        }];
        Some((format!("{folder}{:020}.frames", start.get()), bytes.into()))
    }

    /// Encodes the frames and fences as the store holds them.
    fn encode(&self, loot: &Loot, tag: ForgedTag) -> EncodedJournal {
        let (mut slot, mut chain) = self.start;
        let mut frames = Vec::new();
        let (mut written, mut ends) = (BTreeMap::<String, Vec<u8>>::new(), BTreeMap::new());
        let mut last: Option<(String, String)> = None;
        for draft in &self.frames {
            let is_segment = draft.object.to_ascii_lowercase().ends_with(".log");
            let object = match &last {
                Some((stored, object)) if is_segment && *stored == draft.object => object.clone(),
                _ if is_segment => format!("{}{:020}-{}.log", folder(self.lineage), slot.get(), draft.epoch),
                _ => format!("{}{:020}", folder(self.lineage), slot.get()),
            };
            let mut payload = draft.payload.clone();
            if let Some(mut fence) = fence(&payload).filter(|_| draft.kind == FrameKind::Fence) {
                fence.chain = chain;
                if let (Some(previous), Some((_, segment))) = (&mut fence.previous, &last) {
                    *previous = Previous {
                        segment: segment.rsplit('/').next().unwrap_or_default().to_owned(),
                        length: written.get(segment).map_or(0, |bytes| bytes.len() as u64),
                        last_slot: Slot(slot.get().saturating_sub(1)),
                    };
                }
                payload = fence.encode();
            }
            let copied = draft.key.map(|id| CopiedTag { id, tag: draft.tag });
            let key: Option<&dyn MacKey> = match (draft.kind, tag) {
                (FrameKind::Fence, _) | (_, ForgedTag::Stripped) => None,
                (_, ForgedTag::Copied) => copied.as_ref().map(|key| key as &dyn MacKey),
                (_, ForgedTag::Former) => loot.former.as_ref().map(|key| &**key as &dyn MacKey),
            };
            let Ok(frame) = Frame::tagged(key, draft.kind, draft.epoch, slot, draft.nonce, &payload, &chain)
            else {
                break;
            };
            chain = *frame.chain();
            ends.insert(draft.chain, (slot, chain));
            written
                .entry(object.clone())
                .or_default()
                .extend_from_slice(frame.bytes());
            last = Some((draft.object.clone(), object));
            slot = slot.next();
            frames.push(frame);
        }
        let written = written.into_iter().map(|(object, bytes)| (object, bytes.into()));
        EncodedJournal {
            written: written.collect(),
            ends,
            frames,
        }
    }
}

/// A forged journal as the attacker stores it.
struct EncodedJournal {
    /// The segments or the slots, by their path.
    written: BTreeMap<String, Bytes>,
    /// From the chain after each stored frame to the slot and the chain of the frame in this journal.
    ends: BTreeMap<Digest, (Slot, Digest)>,
    frames: Vec<Frame>,
}

/// Returns a frame that can follow the end of any update: it repeats the last start of an update, and marks the stack
/// as invalidated.
pub(super) fn invented(journal: &StoredJournal) -> Option<DraftFrame> {
    let last = journal.data().pop()?;
    let records = |at: &usize| decode_records("frame", &journal.frames[*at].payload).unwrap_or_default();
    let records: Vec<Record> = journal.data().iter().flat_map(records).collect();
    let start = records
        .iter()
        .rfind(|record| matches!(record, Record::UpdateStart(_)))?;
    let mark = Record::Invalidate(Invalidation {
        update: UpdateId::from_bits([0x66; 16]),
        since: Timestamp::new(MARKER),
    });
    Some(DraftFrame {
        nonce: Nonce::from_bytes([0x67; 16]),
        payload: encode_records([start, &mark]),
        ..journal.frames[last].clone()
    })
}

/// Returns the payload with the last address replaced by the marker.
fn replaced(payload: &[u8], author: &str) -> Vec<u8> {
    let text = String::from_utf8_lossy(payload);
    let member = "\"address\":\"";
    let Some(at) = text.rfind(member).map(|at| at + member.len()) else {
        // The frame contains no entry. The marker replaces the author in the metadata of the update instead.
        let (author, marker) = (json!(author).to_string(), json!(MARKER).to_string());
        return text.replace(&author, &marker).into_bytes();
    };
    let end = text[at..].find('"').map_or(text.len(), |length| at + length);
    format!("{}{MARKER}{}", &text[..at], &text[end..]).into_bytes()
}

/// Makes all bases and the watermark of a head refer to the forged journal. `ends` is the map that
/// [`EncodedJournal`] has. A watermark at a deleted frame is removed.
fn adapt(head: &mut Head, ends: &BTreeMap<Digest, (Slot, Digest)>) {
    let adapt_base = |base: &mut Base| {
        if let Some((slot, chain)) = ends.get(&base.chain) {
            (base.start, base.chain) = (slot.next(), *chain);
        }
    };
    adapt_base(&mut head.base);
    head.rev_base.iter_mut().for_each(adapt_base);
    if let Some(collection) = &mut head.collection {
        adapt_base(&mut collection.base);
    }
    if let Some(watermark) = &mut head.watermark {
        match ends.get(&watermark.chain) {
            Some((slot, chain)) => (watermark.slot, watermark.chain) = (*slot, *chain),
            None => head.watermark = None,
        }
    }
}
