//! Finds the frames that a client wrote in a run: the revisions that they make are excused by the oracle.

use crate::scenario::{Run, Scenario};
use state_core::testkit::hostile::StoreImage;
use state_core::testkit::hostile::forgeries::MARKER;
use state_core::{Digest, Enveloped, Frame, Head, Lineage, RevisionId, UpdateKind, UpdateResult};
use std::collections::BTreeSet;

/// Whether bytes contain a text.
pub(crate) fn contains(bytes: &[u8], text: &str) -> bool {
    String::from_utf8_lossy(bytes).contains(text)
}

/// Whether an object of a journal is a compaction in files, which repeats the frames of the segments.
fn is_compaction(object: &str) -> bool {
    object.to_ascii_lowercase().ends_with(".frames")
}

/// The revisions of all frames that the client wrote in this run.
pub(crate) fn made(scenario: &Scenario, run: &Run) -> BTreeSet<RevisionId> {
    let mut revisions = BTreeSet::new();
    // A damaged segment may end, for a reader, before the frames that the client appended to it. The client repeats them
    // in the compaction.
    for (_, frame) in compactions(scenario.lineage, run).into_iter().flatten() {
        let key = frame.key_id().and_then(|id| scenario.keys.honest(id));
        let is_signed = key.is_some_and(|key| frame.is_authentic(&*key));
        if is_signed && was_appended(scenario.lineage, run, &frame) {
            revisions.extend(revision(frame.payload(), frame.chain()));
        }
    }
    for object in run.attacker.objects() {
        let is_segment = object.to_ascii_lowercase().ends_with(".log");
        for bytes in run.attacker.versions(&object).into_iter().flatten() {
            if !object.contains("/journal/") || is_compaction(&object) {
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

/// The frames of each compaction in files that a head of the client names, with the chain before each. The client wrote such
/// a file: its digest is computed from the frames that the client read and appended, so a file that the attacker changed
/// meanwhile has another one. A head without a key vouches for nothing: a client without memory believes that a stack was
/// never sealed.
pub(crate) fn compactions(lineage: Lineage, run: &Run) -> Vec<Vec<(Digest, Frame)>> {
    let path = format!("stacks/{lineage}/head.json");
    let heads = run.attacker.versions(&path).into_iter().flatten().skip(1);
    let mut found: Vec<(Digest, Vec<(Digest, Frame)>)> = Vec::new();
    for bytes in heads {
        let head = Head::decode(&path, &bytes).ok();
        let Some(head) = head.filter(|head| head.key_id.is_some()) else {
            continue;
        };
        for named in &head.compactions {
            let object = format!("stacks/{lineage}/journal/{:020}.frames", named.start.get());
            let versions = run.attacker.versions(&object).into_iter().flatten();
            let mut written = versions.filter_map(|content| {
                let length = usize::try_from(named.length).ok()?;
                (length <= content.len()).then(|| content.slice(..length))
            });
            let is_known = found.iter().any(|(digest, _)| *digest == named.digest);
            let written = written.find(|content| Digest::of(content) == named.digest);
            if let Some(content) = written.filter(|_| !is_known) {
                let image = StoreImage::new([(path.clone(), bytes.clone()), (object, content)]);
                found.push((named.digest, image.compacted_frames(lineage)));
            }
        }
    }
    found.into_iter().map(|(_, frames)| frames).collect()
}

/// Why a frame of a compaction breaks the rules; none if the client appended it.
pub(crate) fn not_appended(
    scenario: &Scenario,
    lineage: Lineage,
    run: &Run,
    frame: &Frame,
) -> Option<String> {
    // The attacker signs with a lost key, and a client without memory can't know that the key was lost.
    let lost = frame.key_id().filter(|id| scenario.keys.honest(*id).is_none());
    let lost = lost.and_then(|id| scenario.keys.any(id));
    let is_signed_with_it = lost.is_some_and(|key| frame.is_authentic(&*key));
    (!is_signed_with_it && !was_appended(lineage, run, frame)).then(|| {
        format!(
            "the compaction has frame {}, which the client didn't append",
            frame.slot()
        )
    })
}

/// Whether the client wrote exactly the bytes of this frame to a segment in this run.
fn was_appended(lineage: Lineage, run: &Run, frame: &Frame) -> bool {
    let folder = format!("stacks/{lineage}/journal/");
    let objects = run.attacker.objects().into_iter();
    let mut segments = objects.filter(|object| object.starts_with(&folder) && !is_compaction(object));
    segments.any(|object| {
        let mut versions = run.attacker.versions(&object).into_iter().flatten();
        let bytes = frame.bytes();
        versions.any(|content| content.windows(bytes.len()).any(|window| window == bytes))
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
        if !object.starts_with(&folder) || is_compaction(&object) {
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
