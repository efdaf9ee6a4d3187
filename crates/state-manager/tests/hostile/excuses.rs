//! The oracle compares a run under attack with honest runs. This file lists the differences that it accepts: revisions
//! that the client made itself in the run, and the documented limits of a client (`docs/threat-model.md`).

use crate::client::Answer;
use crate::disk::Kind;
use crate::scenario::{Run, Scenario};
use state_core::RevisionId;
use state_core::testkit::hostile::Verb;
use std::collections::BTreeSet;

/// The line that a client shows in place of a log that was deleted.
const MISSING_LOG: &str = "warning [] the log of this update is missing: it was deleted, or the writer crashed before it \
                           was stored";

/// The content that a run may show although no honest run shows it.
pub(crate) struct Excuses {
    /// The revisions of all frames that the client wrote.
    pub(crate) made: BTreeSet<RevisionId>,
    /// The revisions that the attacker forged with a former key of the stack, if the attacker showed the client an
    /// earlier store of the time when that key was in use.
    pub(crate) former: BTreeSet<RevisionId>,
    /// Whether the attacker could cut the frames of the crashed writer before this client read them.
    pub(crate) is_tail_unseen: bool,
    /// Whether the attacker changed anything in the run, which may have been a log or a key.
    pub(crate) is_log_attacked: bool,
    /// Whether a client without memory took the other stack for one that was never sealed, and gave it a key.
    pub(crate) is_other_sealed_anew: bool,
}

impl Excuses {
    /// The excuses for a reader that reads the store after the run.
    pub(crate) fn of_next_reader(made: BTreeSet<RevisionId>) -> Self {
        Self {
            made,
            former: BTreeSet::new(),
            is_tail_unseen: false,
            is_log_attacked: false,
            is_other_sealed_anew: false,
        }
    }
}

/// Whether a line of the answer of `Logs` reports that a log or its message can't be read. An attacker can delete a log,
/// or the files of the key under which its messages are sealed: a delay or denial, which is no forgery. The line must
/// be about a log that an honest store has, and a sealed message must have the level and the address of an honest line.
pub(crate) fn is_unread_log(question: &str, fact: &str, honest: &BTreeSet<(String, String)>) -> bool {
    let mut lines = honest.iter().filter(|(honest, _)| honest == question);
    if fact == MISSING_LOG {
        return lines.next().is_some();
    }
    let sealed = fact
        .strip_suffix("(sealed)")
        .filter(|_| question.starts_with("log of "));
    sealed.is_some_and(|fields| lines.any(|(_, line)| line.starts_with(fields)))
}

/// Whether the attacker showed a client without memory an earlier store, of the time when the stack had a key that the
/// attacker holds.
pub(crate) fn is_of_former_key(scenario: &Scenario, remembers: bool, answer: &Answer) -> bool {
    let key = answer.shown.as_ref().and_then(|shown| shown.key);
    !remembers && key.is_some_and(|key| scenario.keys.honest(key).is_none())
}

/// Whether the first forgery of the run came before the client had accepted the last frame of the crashed writer. The
/// attacker can cut off this frame unnoticed: neither the client's memory nor the head's watermark covers it.
pub(crate) async fn is_tail_unseen(scenario: &Scenario, run: &Run) -> bool {
    let Some(first) = run.first_edit else {
        return false;
    };
    let image = scenario.crashed.image().await.unwrap_or_default();
    let folder = format!("stacks/{}/journal/", scenario.lineage);
    let Some((tail, _)) = image.below(&folder).last() else {
        return false;
    };
    let before = run.requests.iter().take(first);
    let reads: Vec<&str> = before
        .filter(|request| request.verb == Verb::Read)
        .map(|request| request.object.as_str())
        .collect();
    match scenario.kind {
        Kind::Objects => !reads.contains(&tail),
        // A reader of files reads the head again after the journal, and starts over if the head has another epoch: a
        // takeover decides which frames count. It opens a file before it reads it, and both count as requests.
        Kind::Files => {
            let head = scenario.head();
            let from_tail = reads.iter().skip_while(|object| **object != tail);
            from_tail.filter(|object| **object == head).count() <= 1
        }
    }
}
