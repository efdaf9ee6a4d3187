//! What a run may show beyond the answers of honest runs: its own work, and the documented limits of a client.

use crate::client::Answer;
use crate::disk::Kind;
use crate::scenario::{Run, Scenario};
use state_core::RevisionId;
use state_core::testkit::hostile::Verb;
use std::collections::BTreeSet;

/// What else a run may show, because of what the run wrote, or because of a documented limit.
pub(crate) struct Excuses {
    /// The revisions of all frames that the client wrote.
    pub(crate) made: BTreeSet<RevisionId>,
    /// The revisions that the attacker forged with a former key, if the client was led back to the time of that key.
    pub(crate) former: BTreeSet<RevisionId>,
    /// Whether the attacker could cut the frames of the crashed writer before this client read them.
    pub(crate) is_tail_unseen: bool,
}

impl Excuses {
    /// The excuses for what a reader is shown after the run.
    pub(crate) fn of_next_reader(made: BTreeSet<RevisionId>) -> Self {
        Self {
            made,
            former: BTreeSet::new(),
            is_tail_unseen: false,
        }
    }
}

/// Whether a client without memory was led back to the time at which the attacker held the key of the stack.
pub(crate) fn is_of_former_key(scenario: &Scenario, remembers: bool, answer: &Answer) -> bool {
    let key = answer.shown.as_ref().and_then(|shown| shown.key);
    !remembers && key.is_some_and(|key| scenario.keys.honest(key).is_none())
}

/// Whether the first forgery of the run came before the client read the last frame of the crashed writer. No memory and no
/// head vouches for that frame.
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
    let reads = before.filter(|request| request.verb == Verb::Read && request.object == tail);
    // A file is opened before it is read, and each of them is a request.
    let most = match scenario.kind {
        Kind::Files => 1,
        Kind::Objects => 0,
    };
    reads.count() <= most
}
