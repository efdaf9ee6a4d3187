//! Forgeries of all stored objects except heads and journals: names, metadata, leases, pages of the history, snapshots.
//! A function that returns edits makes one forgery; the edits are empty if the store has no suitable object.

use super::image::head_of;
use super::loot::{Loot, MARKER};
use super::{Edit, StoreImage};
use crate::backend::{NamePointer, NameTarget, ObjectKind, ObjectName};
use crate::digest::Digest;
use crate::history::HistoryPageRef;
use crate::{Address, Entry, Enveloped, FactoryInfo, Serial, Slot, Snapshot, SnapshotRef, Timestamp, codec};
use serde_json::{Value, json};
use std::sync::Arc;

/// Changes a name pointer, and recomputes its digest.
pub(super) fn pointer(store: &StoreImage, object: &str, change: impl FnOnce(&mut NamePointer)) -> Vec<Edit> {
    let stored = store
        .get(object)
        .and_then(|bytes| NamePointer::decode(object, bytes).ok());
    let Some(mut pointer) = stored else {
        return Vec::new();
    };
    change(&mut pointer);
    vec![Edit::put(object, pointer.encode())]
}

/// Copies the name pointer of the attacked stack to an unused name, and turns the original into a tombstone.
pub(super) fn moved_name(store: &StoreImage, object: &str) -> Vec<Edit> {
    let Some(folder) = object.rsplit_once('/').map(|(folder, _)| folder) else {
        return Vec::new();
    };
    let Some(bytes) = store.get(object) else {
        return Vec::new();
    };
    let moved = Edit::put(format!("{folder}/{MARKER}.json"), bytes.clone());
    let tombstone = pointer(store, object, |pointer| {
        pointer.target = NameTarget::Removed(pointer.subject());
    });
    std::iter::once(moved).chain(tombstone).collect()
}

/// Changes the body of any document with an envelope (digest, format, kind, body), and recomputes its digest.
pub(super) fn body(store: &StoreImage, object: &str, change: impl FnOnce(&mut Value)) -> Vec<Edit> {
    let Some(bytes) = store.get(object) else {
        return Vec::new();
    };
    rewritten(bytes, change)
        .map(|bytes| vec![Edit::put(object, bytes)])
        .unwrap_or_default()
}

/// Returns a document with a changed body and a recomputed digest; `None` if the bytes aren't a document.
pub(super) fn rewritten(bytes: &[u8], change: impl FnOnce(&mut Value)) -> Option<Vec<u8>> {
    let mut document: Value = serde_json::from_slice(bytes).ok()?;
    change(document.get_mut("body")?);
    let (kind, format) = (
        document.get("kind")?.as_str()?.to_owned(),
        document.get("format")?,
    );
    let body = document.get("body")?.to_string();
    let digest = Digest::of_parts(&[kind.as_bytes(), b"\n", body.as_bytes()]);
    let line =
        format!("{{\"digest\":\"{digest}\",\"format\":{format},\"kind\":\"{kind}\",\"body\":{body}}}\n");
    Some(line.into_bytes())
}

/// Sets a member of a document's body, if the member exists.
pub(super) fn set(body: &mut Value, member: &str, value: Value) {
    if let Some(old) = body.get_mut(member) {
        *old = value;
    }
}

/// Returns a history page whose last revision names the marker as its author; `None` if this changes nothing.
fn forged_page(bytes: &[u8], loot: &Loot) -> Option<Vec<u8>> {
    let page = rewritten(bytes, |body| {
        let Some(revisions) = body.get_mut("revisions").and_then(Value::as_array_mut) else {
            return;
        };
        let text = revisions.last().map(Value::to_string).unwrap_or_default();
        let forged = text.replace(&json!(loot.author).to_string(), &json!(MARKER).to_string());
        if let (Some(last), Ok(forged)) = (revisions.last_mut(), serde_json::from_str(&forged)) {
            *last = forged;
        }
    })?;
    (page != bytes).then_some(page)
}

/// Replaces a page of the history by a forged one.
pub(super) fn page(store: &StoreImage, object: &str, loot: &Loot) -> Vec<Edit> {
    let forged = store.get(object).and_then(|bytes| forged_page(bytes, loot));
    forged
        .map(|page| vec![Edit::put(object, page)])
        .unwrap_or_default()
}

/// Stores a forged page of the history under the name that its digest requires, and makes the head refer to it.
pub(super) fn named_page(store: &StoreImage, object: &str, loot: &Loot) -> Vec<Edit> {
    let forged = store.get(object).and_then(|bytes| forged_page(bytes, loot));
    let pages = store.head(loot.lineage).map(|head| head.history.pages.len());
    match (forged, pages.and_then(|count| count.checked_sub(1))) {
        (Some(page), Some(last)) => referred_page(store, last, page, loot),
        _ => Vec::new(),
    }
}

/// Stores a page under the name that its digest requires, and makes the head refer to it in place of the page at this
/// position.
pub(super) fn referred_page(store: &StoreImage, at: usize, page: Vec<u8>, loot: &Loot) -> Vec<Edit> {
    let Some(mut head) = store.head(loot.lineage) else {
        return Vec::new();
    };
    let Some(reference) = head.history.pages.get_mut(at) else {
        return Vec::new();
    };
    *reference = HistoryPageRef {
        digest: Digest::of(&page),
        length: page.len() as u64,
        ..*reference
    };
    let object = path_of(reference, loot);
    vec![
        Edit::put(object, page),
        Edit::put(head_of(loot.lineage), head.encode()),
    ]
}

/// The path of a page of the history.
pub(super) fn path_of(page: &HistoryPageRef, loot: &Loot) -> String {
    let name = page.object();
    format!("{}/{}", name.kind().path(loot.lineage), name.file_name())
}

/// Stores a forged page with a higher serial than all others, to which no head refers.
pub(super) fn planted_page(store: &StoreImage, object: &str, loot: &Loot) -> Vec<Edit> {
    let forged = store.get(object).and_then(|bytes| forged_page(bytes, loot));
    let Some(page) = forged else {
        return Vec::new();
    };
    let reference = HistoryPageRef {
        first: Serial(1 << 20),
        revisions: 1,
        digest: Digest::of(&page),
        length: page.len() as u64,
    };
    vec![Edit::put(path_of(&reference, loot), page)]
}

/// Returns the reference to and the bytes of a snapshot with one resource that no client created.
fn forged_snapshot(slot: Slot) -> Option<(SnapshotRef, Vec<u8>)> {
    let mut snapshot = Snapshot::new(
        FactoryInfo::default(),
        MARKER,
        Timestamp::new("2026-01-01T00:00:00Z"),
    );
    let address: Address = MARKER.parse().ok()?;
    snapshot.entries.push(Arc::new(Entry::leaf(address, "thing")));
    let text = codec::encode_stored(&snapshot);
    let reference = SnapshotRef {
        slot,
        digest: Digest::of(&text),
        length: text.len() as u64,
    };
    Some((reference, uncompressed(&text)?))
}

/// Returns a zstd frame with the text as one uncompressed block, so that this crate needs no compressor. Every decoder
/// accepts such a frame.
pub(super) fn uncompressed(text: &[u8]) -> Option<Vec<u8>> {
    const MAGIC: u32 = 0xFD2F_B528;
    const LENGTH_IN_FOUR_BYTES_AND_ONE_SEGMENT: u8 = 0xA0;
    let length = u32::try_from(text.len())
        .ok()
        .filter(|length| *length < 1 << 17)?;
    let mut bytes = MAGIC.to_le_bytes().to_vec();
    bytes.push(LENGTH_IN_FOUR_BYTES_AND_ONE_SEGMENT);
    bytes.extend_from_slice(&length.to_le_bytes());
    // The last block, not compressed.
    bytes.extend_from_slice(&((length << 3) | 1).to_le_bytes()[..3]);
    bytes.extend_from_slice(text);
    Some(bytes)
}

/// Replaces a stored snapshot by a forged one.
pub(super) fn snapshot(store: &StoreImage, object: &str) -> Vec<Edit> {
    let is_stored = store.get(object).is_some();
    let forged = forged_snapshot(Slot::ZERO).filter(|_| is_stored);
    forged
        .map(|(_, bytes)| vec![Edit::put(object, bytes)])
        .unwrap_or_default()
}

/// Stores a forged snapshot, and makes it the base in the head.
pub(super) fn named_snapshot(store: &StoreImage, loot: &Loot) -> Vec<Edit> {
    let Some(mut head) = store.head(loot.lineage) else {
        return Vec::new();
    };
    let Some((reference, bytes)) = forged_snapshot(head.base.start) else {
        return Vec::new();
    };
    let object = format!(
        "{}/{}",
        ObjectKind::Snapshot.path(loot.lineage),
        reference.object().file_name()
    );
    head.base.snapshot = Some(reference);
    vec![
        Edit::put(object, bytes),
        Edit::put(head_of(loot.lineage), head.encode()),
    ]
}

/// Replaces an object by the content of another one in the same folder: an authentic object under a wrong name.
pub(super) fn neighbour(store: &StoreImage, object: &str) -> Vec<Edit> {
    let folder = object.rsplit_once('/').map_or("", |(folder, _)| folder);
    let folder = format!("{folder}/");
    let other = store.below(&folder).find(|(other, _)| *other != object);
    other
        .map(|(_, bytes)| vec![Edit::put(object, bytes.clone())])
        .unwrap_or_default()
}

/// Replaces an object by one of the same kind that belongs to another stack.
pub(super) fn of_other_stack(store: &StoreImage, object: &str, loot: &Loot) -> Vec<Edit> {
    let Some(other) = loot.other else {
        return Vec::new();
    };
    let folder = object.rsplit_once('/').map_or("", |(folder, _)| folder);
    let folder = folder.replace(&loot.lineage.to_string(), &other.to_string());
    if !folder.contains(&other.to_string()) {
        return Vec::new();
    }
    let folder = format!("{folder}/");
    let found = store.below(&folder).last();
    found
        .map(|(_, bytes)| vec![Edit::put(object, bytes.clone())])
        .unwrap_or_default()
}

/// Copies the object with the highest number in a folder to the next number.
pub(super) fn later_number(store: &StoreImage, object: &str) -> Vec<Edit> {
    let Some((folder, _)) = object.rsplit_once('/') else {
        return Vec::new();
    };
    let folder = format!("{folder}/");
    let Some((last, bytes)) = store.below(&folder).last() else {
        return Vec::new();
    };
    let name = &last[folder.len()..];
    let Some(number) = name.get(..20).and_then(|number| number.parse::<u64>().ok()) else {
        return Vec::new();
    };
    let planted = format!("{folder}{:020}{}", number.saturating_add(1), &name[20..]);
    vec![Edit::put(planted, bytes.clone())]
}

/// Replaces the latest published outputs by outputs of the attacker with the same serial.
pub(super) fn outputs(store: &StoreImage, loot: &Loot) -> Vec<Edit> {
    let forged = loot
        .outputs
        .iter()
        .map(|(serial, bytes)| (path_of_outputs(*serial, loot), bytes));
    let stored = forged.filter(|(path, _)| store.get(path).is_some()).last();
    stored
        .map(|(path, bytes)| vec![Edit::put(path, bytes.clone())])
        .unwrap_or_default()
}

/// Stores outputs of the attacker with a later serial than all others.
pub(super) fn later_outputs(loot: &Loot) -> Vec<Edit> {
    let last = loot.outputs.last();
    last.map(|(serial, bytes)| vec![Edit::put(path_of_outputs(*serial, loot), bytes.clone())])
        .unwrap_or_default()
}

/// The path of the outputs that a stack published with this serial.
fn path_of_outputs(serial: Serial, loot: &Loot) -> String {
    let name = ObjectName::Outputs(serial);
    format!("{}/{}", name.kind().path(loot.lineage), name.file_name())
}

/// Flips one bit of an object, and recomputes no digest.
pub(super) fn flipped(store: &StoreImage, object: &str) -> Vec<Edit> {
    let Some(bytes) = store.get(object) else {
        return Vec::new();
    };
    let mut bytes = bytes.to_vec();
    let middle = bytes.len() / 2;
    if let Some(byte) = bytes.get_mut(middle) {
        *byte ^= 1;
    }
    vec![Edit::put(object, bytes)]
}
