//! Checks what the client signed in a run: the frames of the journal, its compactions, and the heads.

use crate::oracle::Oracle;
use crate::scenario::{COLLEAGUE, MALLORY, Run, Scenario};
use crate::written::{compactions, contains, not_appended, was_signed};
use state_core::head::SealingPolicy;
use state_core::journal::FrameKind;
use state_core::testkit::hostile::StoreImage;
use state_core::testkit::hostile::forgeries::MARKER;
use state_core::{Digest, Enveloped, Frame, Head, Lineage};
use std::collections::BTreeSet;

impl Oracle {
    /// Checks that the client signed no frame that repeats forged content or follows a forged frame. `own` are the chains
    /// of the frames with which the client itself began or ended a key rotation in this run.
    pub(crate) fn check_journal(
        &self,
        scenario: &Scenario,
        lineage: Lineage,
        (run, store): (&Run, &StoreImage),
        own: &BTreeSet<Digest>,
        broken: &mut Vec<String>,
    ) {
        let was_signed = |frame: &Frame| was_signed(scenario, lineage, run, frame);
        self.check_frames(scenario, &store.frames(lineage), own, &was_signed, broken);
        // A compaction repeats frames from the client's memory. There is no excuse for a damaged one among them.
        for frames in compactions(lineage, run) {
            self.check_frames(scenario, &frames, own, &|_| false, broken);
            let new = frames
                .iter()
                .map(|(_, frame)| frame)
                .filter(|frame| frame.kind() == FrameKind::Data && !self.chains.contains(frame.chain()));
            broken.extend(new.filter_map(|frame| not_appended(scenario, lineage, run, frame)));
        }
    }

    /// Checks one list of frames: see [`Self::check_journal`]. `is_excused` says whether a frame that looks forged is none.
    fn check_frames(
        &self,
        scenario: &Scenario,
        frames: &[(Digest, Frame)],
        own: &BTreeSet<Digest>,
        is_excused: &dyn Fn(&Frame) -> bool,
        broken: &mut Vec<String>,
    ) {
        let mut forged: Option<&Frame> = None;
        let mut end = None;
        for (before, frame) in frames {
            // Where the chain breaks, earlier frames lie before the base: the client trusts the base by the digest in
            // the head and doesn't read them, so a forged frame there doesn't count.
            if end.replace(*frame.chain()) != Some(*before) {
                forged = None;
            }
            let key = frame.key_id().and_then(|id| scenario.keys.honest(id));
            let is_signed = key.is_some_and(|key| frame.is_authentic(&*key));
            let is_old = self.chains.contains(frame.chain());
            if is_signed && !is_old {
                if contains(frame.payload(), MARKER) {
                    broken.push(format!("forged content is signed in frame {}", frame.slot()));
                }
                if let Some(forged) = forged.filter(|forged| !is_excused(forged)) {
                    broken.push(format!(
                        "frame {} signs the forged frame {}",
                        frame.slot(),
                        forged.slot()
                    ));
                }
            }
            let is_own = own.contains(frame.chain());
            if !is_signed && !is_old && !is_own && frame.kind() == FrameKind::Data {
                forged.get_or_insert(frame);
            }
        }
    }

    /// Checks that the client signed no head that has a forged part.
    pub(crate) fn check_heads(
        &self,
        scenario: &Scenario,
        lineage: Lineage,
        remembers: bool,
        run: &Run,
        broken: &mut Vec<String>,
    ) {
        let path = format!("stacks/{lineage}/head.json");
        let known = self.heads.iter().filter(|head| head.lineage == lineage);
        let known: Vec<&Head> = match remembers {
            true => known.rev().take(2).collect(),
            false => known.collect(),
        };
        let objects = run.attacker.objects();
        let exists = |short: &str| objects.iter().any(|object| object.contains(short));
        for bytes in run.attacker.versions(&path).into_iter().flatten().skip(1) {
            let Ok(head) = Head::decode(&path, &bytes) else {
                continue;
            };
            let key = head.key_id.and_then(|id| scenario.keys.honest(id));
            if key.is_none_or(|key| head.authenticate(&path, &*key).is_err()) {
                continue;
            }
            let mut require = |holds: bool, part: &str| {
                if !holds {
                    broken.push(format!("a head with a forged part is signed: {part}"));
                }
            };
            let text = String::from_utf8_lossy(&bytes);
            require(
                !text.contains(MARKER) && !text.contains(MALLORY),
                "foreign content",
            );
            require(head.policy == SealingPolicy::All, "policy");
            require(head.lineage == lineage, "lineage");
            // A takeover in files raises the epoch before it reads the journal, which then refuses the jump.
            require(run.answer.is_err() || head.epoch.get() < 1 << 33, "epoch");
            let keys = |head: &Head| head.keys.clone();
            let is_recipient = |one: &String| {
                let mut known = known.iter().filter_map(|head| keys(head));
                one == COLLEAGUE
                    || known.any(|keys| keys.recipients.contains(one) || keys.outputs.contains(one))
            };
            if let Some(keys) = keys(&head) {
                let all = keys.recipients.iter().chain(&keys.outputs);
                require({ all }.all(is_recipient), "recipients");
                let known = known.iter().filter_map(|head| head.keys.as_ref());
                let links: Vec<_> = known.clone().flat_map(|keys| &keys.succession).collect();
                let is_honest = |link| links.contains(&link) || scenario.keys.honest(link.new).is_some();
                require(keys.succession.iter().all(is_honest), "succession of keys");
                let mut known = known;
                require(known.any(|known| known.since == keys.since), "begin of sealing");
            }
            let mut snapshots = head.bases().flat_map(|(_, base)| base.snapshots());
            require(snapshots.all(|snapshot| exists(&snapshot.digest.short())), "base");
            let mut pages = head.history.pages.iter();
            require(pages.all(|page| exists(&page.digest.short())), "history");
        }
    }
}
