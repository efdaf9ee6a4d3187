//! The bytes that the program wrote in a run, and the data keys that they are signed with.

use super::scenario::{Run, Scenario, key_files};
use bytes::Bytes;
use state_core::journal::decode_records;
use state_core::sealing::{KeyProvider, StackKey};
use state_core::testkit::hostile::StoreImage;
use state_core::testkit::hostile::forgeries::MARKER;
use state_core::{Digest, Enveloped, Frame, Head, KeyId, Record, RevisionId, UpdateKind};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Offset of the kind in the bytes of a frame, see `docs/format.md`.
const KIND_AT: usize = 5;

/// The kind of a fence: a frame that starts an epoch and changes no state.
const FENCE: u8 = 2;

/// Everything that the program wrote in a run, without the edits of the attacker.
pub(super) struct Written {
    pub(super) objects: Vec<(String, Bytes)>,
    /// The data keys that no attacker holds: those of the scenario, and those that the program made in this run.
    pub(super) keys: BTreeMap<KeyId, Arc<dyn StackKey>>,
    /// The revisions in the written frames.
    pub(super) revisions: BTreeSet<RevisionId>,
    /// The chain digests of the written frames.
    pub(super) chains: BTreeSet<Digest>,
    /// The chain digests of all fences that the program read. A fence has no tag, so a forged one can end the journal,
    /// as a cut can: `docs/format.md`.
    pub(super) fences: BTreeSet<Digest>,
    /// The chain digests of the written frames that only start a key rotation. If the attacker shows a client without
    /// memory an earlier stage, the program tags such a frame with the key of that stage, which the attacker holds too.
    pub(super) starts: BTreeSet<Digest>,
}

impl Written {
    pub(super) fn of(scenario: &Scenario, run: &Run) -> Self {
        let attacker = &run.bucket.attacker;
        let mut written = Self {
            objects: Vec::new(),
            keys: scenario.honest.clone(),
            revisions: BTreeSet::new(),
            chains: BTreeSet::new(),
            fences: BTreeSet::new(),
            starts: BTreeSet::new(),
        };
        for (object, bytes) in run.bucket.served() {
            if object.contains("/journal/") && bytes.get(KIND_AT) == Some(&FENCE) {
                written.fences.extend(Frame::unverified_chain(&bytes));
            }
        }
        for object in attacker.objects() {
            // The first version of an object from before the run was recorded when the store was opened.
            let before = usize::from(run.before.get(&object).is_some());
            let versions = attacker.versions(&object).into_iter().skip(before).flatten();
            written
                .objects
                .extend(versions.map(|bytes| (object.clone(), bytes)));
        }
        written.read_frames();
        written.read_keys(scenario);
        written
    }

    fn read_frames(&mut self) {
        let journal = self
            .objects
            .iter()
            .filter(|(object, _)| object.contains("/journal/"));
        for (_, bytes) in journal {
            let (Some(payload), Some(chain)) =
                (Frame::unverified_payload(bytes), Frame::unverified_chain(bytes))
            else {
                continue;
            };
            self.chains.insert(chain);
            self.revisions.extend(revision(payload, &chain));
            if starts_rotation(payload) {
                self.starts.insert(chain);
            }
        }
    }

    /// Opens the data keys that the program made: it wrote their key files and the heads that name them.
    fn read_keys(&mut self, scenario: &Scenario) {
        let image = StoreImage::new(self.objects.iter().cloned());
        for head in self.heads(&scenario.head()) {
            let Some(id) = head.key_id else { continue };
            let files = key_files(&image, scenario.lineage, id);
            if !files.is_empty()
                && let Ok(key) = scenario.keys.unwrap(scenario.lineage, id, &files)
            {
                self.keys.insert(id, key);
            }
        }
    }

    /// The written heads of a stack, in no particular order.
    pub(super) fn heads(&self, path: &str) -> Vec<Head> {
        let heads = self.objects.iter().filter(|(object, _)| object == path);
        heads
            .filter_map(|(_, bytes)| Head::decode(path, bytes).ok())
            .collect()
    }
}

/// Whether a frame with this payload only starts the update of a key rotation, without forged content.
fn starts_rotation(payload: &[u8]) -> bool {
    let records = decode_records("frame", payload).unwrap_or_default();
    let [Record::UpdateStart(start)] = &records[..] else {
        return false;
    };
    start.kind == UpdateKind::Rekey && !contains(payload, MARKER)
}

/// The revision that a frame with this payload and this chain digest makes; none if it makes none.
pub(super) fn revision(payload: &[u8], chain: &Digest) -> Option<RevisionId> {
    match decode_records("frame", payload).ok()?.last()? {
        Record::UpdateEnd(end) => Some(RevisionId::new(end.serial, chain)),
        Record::DetachedRevision(made) => Some(RevisionId::new(made.serial, chain)),
        _ => None,
    }
}

/// Whether bytes contain a text.
pub(super) fn contains(bytes: &[u8], text: &str) -> bool {
    String::from_utf8_lossy(bytes).contains(text)
}

/// The heads that the store returned from this path, in order.
pub(super) fn served_heads(contents: &[(String, Bytes)], path: &str) -> Vec<Head> {
    let served = contents.iter().filter(|(object, _)| object == path);
    served
        .filter_map(|(_, bytes)| Head::decode(path, bytes).ok())
        .collect()
}

/// Whether the store returned a plain head from this path before the wrapped key that opens the stack. A client without
/// memory then takes the stack for one that was never sealed. A client that could authenticate the stack must refuse a plain
/// head later.
pub(super) fn shows_plain_first(scenario: &Scenario, contents: &[(String, Bytes)], path: &str) -> bool {
    let keys = path.replace("head.json", "keys/");
    let is_plain = |(object, bytes): &(String, Bytes)| {
        object == path && Head::decode(path, bytes).is_ok_and(|head| head.key_id.is_none())
    };
    let opens = |(object, bytes): &(String, Bytes)| {
        object.starts_with(&keys) && scenario.last().get(object) == Some(bytes)
    };
    let first = contents.iter().position(is_plain);
    first.is_some_and(|first| !contents[..first].iter().any(opens))
}
