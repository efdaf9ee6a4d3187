//! Finds the frames that a client wrote in a run: the revisions that they make are excused by the oracle.

use crate::scenario::{Run, Scenario};
use state_core::testkit::hostile::StoreImage;
use state_core::testkit::hostile::forgeries::MARKER;
use state_core::{Digest, Frame, Lineage, RevisionId, UpdateKind, UpdateResult};
use std::collections::BTreeSet;

/// Whether bytes contain a text.
pub(crate) fn contains(bytes: &[u8], text: &str) -> bool {
    String::from_utf8_lossy(bytes).contains(text)
}

/// The revisions of all frames that the client wrote in this run.
pub(crate) fn made(scenario: &Scenario, run: &Run) -> BTreeSet<RevisionId> {
    let mut revisions = BTreeSet::new();
    for object in run.attacker.objects() {
        let is_segment = object.to_ascii_lowercase().ends_with(".log");
        for bytes in run.attacker.versions(&object).into_iter().flatten() {
            if !object.contains("/journal/") {
                continue;
            }
            if is_segment {
                let segment = StoreImage::new([(object.clone(), bytes)]);
                let frames = segment
                    .frames(scenario.lineage)
                    .into_iter()
                    .map(|(_, frame)| frame);
                let key = |frame: &Frame| frame.key_id().and_then(|id| scenario.keys.any(id));
                let signed = frames.filter(|frame| key(frame).is_some_and(|key| frame.is_authentic(&*key)));
                revisions.extend(signed.filter_map(|frame| revision(frame.payload(), frame.chain())));
            } else if let (Some(payload), Some(chain)) =
                (Frame::unverified_payload(&bytes), Frame::unverified_chain(&bytes))
            {
                revisions.extend(revision(payload, &chain));
            }
        }
    }
    revisions
}

/// Whether a version of a segment of this run has the frame with a valid tag of the client. The chain doesn't cover the tag:
/// if the attacker damages only the tag of a frame that a running session wrote, the content of the frame is still the
/// client's, and the session continues it without another read.
pub(crate) fn was_signed(scenario: &Scenario, lineage: Lineage, run: &Run, frame: &Frame) -> bool {
    let folder = format!("stacks/{lineage}/journal/");
    let objects = run.attacker.objects().into_iter();
    let segments = objects.filter(|object| object.starts_with(&folder));
    let mut versions = segments.flat_map(|object| {
        let versions = run.attacker.versions(&object).into_iter().flatten();
        versions.map(move |bytes| StoreImage::new([(object.clone(), bytes)]))
    });
    versions.any(|segment| {
        let mut frames = segment.frames(lineage).into_iter();
        frames.any(|(_, other)| {
            let key = other.key_id().and_then(|id| scenario.keys.honest(id));
            other.chain() == frame.chain() && key.is_some_and(|key| other.is_authentic(&*key))
        })
    })
}

/// The chain digests of the frames with which the client began a key rotation in this run, or ended one that an earlier
/// writer left open. If the attacker shows a client without memory an earlier stage, the client tags such a frame with
/// the key of that stage, which the attacker may hold too. The oracle must not take this frame for a forgery of the
/// attacker.
pub(crate) fn frames_of_rotations(scenario: &Scenario, run: &Run) -> BTreeSet<Digest> {
    let folder = format!("stacks/{}/journal/", scenario.lineage);
    let mut written = BTreeSet::new();
    for object in run.attacker.objects() {
        if !object.starts_with(&folder) {
            continue;
        }
        for bytes in run.attacker.versions(&object).into_iter().flatten() {
            if !object.to_ascii_lowercase().ends_with(".log") {
                let payload = Frame::unverified_payload(&bytes).filter(|payload| is_of_rotation(payload));
                written.extend(payload.and(Frame::unverified_chain(&bytes)));
                continue;
            }
            // Only the last frame of a segment can be the client's, because the client appends. The attacker may have
            // changed the frames before it.
            let segment = StoreImage::new([(object.clone(), bytes)]);
            let last = segment.frames(scenario.lineage).pop();
            let last = last.filter(|(_, frame)| {
                let key = frame.key_id().and_then(|id| scenario.keys.any(id));
                key.is_some_and(|key| frame.is_authentic(&*key)) && is_of_rotation(frame.payload())
            });
            written.extend(last.map(|(_, frame)| *frame.chain()));
        }
    }
    written
}

/// Whether a frame with this payload only starts the update of a key rotation, or only ends one as interrupted, without
/// forged content.
fn is_of_rotation(payload: &[u8]) -> bool {
    let records = state_core::journal::decode_records("frame", payload).unwrap_or_default();
    let is_of_rotation = match &records[..] {
        [state_core::Record::UpdateStart(start)] => start.kind == UpdateKind::Rekey,
        // A cut journal can end within a rotation. The next writer ends this rotation before it begins its own.
        [state_core::Record::UpdateEnd(end)] => {
            end.update.kind == UpdateKind::Rekey && end.update.result == Some(UpdateResult::Interrupted)
        }
        _ => false,
    };
    is_of_rotation && !contains(payload, MARKER)
}

/// The revision that a frame with this payload and this chain digest makes; none if it makes none.
pub(crate) fn revision(payload: &[u8], chain: &Digest) -> Option<RevisionId> {
    let records = state_core::journal::decode_records("frame", payload).ok()?;
    match records.last()? {
        state_core::Record::UpdateEnd(end) => Some(RevisionId::new(end.serial, chain)),
        state_core::Record::DetachedRevision(made) => Some(RevisionId::new(made.serial, chain)),
        _ => None,
    }
}
