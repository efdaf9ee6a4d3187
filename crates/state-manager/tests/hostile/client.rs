//! The answers that a client gets from its commands, in a form in which those of two runs can be compared: without
//! times and random ids.

use crate::scenario::{MALLORY, name};
use state_core::testkit::hostile::forgeries::MARKER;
use state_core::{Error, Json, KeyId, Result, RevisionId, Snapshot, StackName, sealed};
use state_manager::{Authenticity, Stack, Stacks, View};
use std::collections::BTreeMap;

/// The answer to a command.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answer {
    /// The state of the stack after the command; none if there is no stack with the name.
    pub(crate) shown: Option<Shown>,
    /// Further results of the command, such as the lines of a blame. Each is a pair of a name and a value, and the
    /// oracle compares the values of the same name.
    pub(crate) facts: Vec<(String, String)>,
}

/// The state of a stack as the client reads it.
#[derive(Clone, Debug)]
pub(crate) struct Shown {
    pub(crate) authenticity: Authenticity,
    /// Whether the client reported that the store was rolled back to an earlier state.
    pub(crate) is_regressed: bool,
    /// The data key that the head names.
    pub(crate) key: Option<KeyId>,
    /// The policy and the recipients that the head names.
    pub(crate) sealing: String,
    /// The message of the client lock.
    pub(crate) lock: Option<String>,
    pub(crate) resources: Resources,
    pub(crate) revisions: Vec<RevisionId>,
    /// Whether the head or the snapshot contains the attacker's marker.
    pub(crate) is_foreign: bool,
    /// Whether the history contains the attacker's marker. The history is judged apart from the head, because it is a
    /// second read, before which the attacker may change the store again.
    pub(crate) is_history_foreign: bool,
}

/// Resources with their values, pending operations, and outputs.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Resources {
    pub(crate) entries: BTreeMap<String, String>,
    pub(crate) pending: Vec<String>,
    pub(crate) outputs: String,
}

/// Reads the tip and the history of the stack under attack.
pub(crate) async fn look(stacks: &Stacks) -> Result<Answer> {
    look_as(stacks, &name()).await
}

/// Reads the tip and the history of the stack `name`.
pub(crate) async fn look_as(stacks: &Stacks, name: &StackName) -> Result<Answer> {
    let Some(stack) = stacks.get(name).await? else {
        return Ok(Answer::default());
    };
    let view = stack.tip().await?;
    Ok(Answer {
        shown: Some(shown(&stack, &view).await?),
        facts: Vec::new(),
    })
}

async fn shown(stack: &Stack, view: &View) -> Result<Shown> {
    let mut snapshot = view.snapshot();
    if view.authenticity == Authenticity::Checked {
        snapshot = opened(stack, snapshot).await?;
    }
    let keys = view.head.keys.as_ref();
    let sorted = |list: Option<&Vec<String>>| {
        let mut list = list.cloned().unwrap_or_default();
        list.sort();
        list
    };
    let sealing = format!(
        "policy {}, recipients {:?}, outputs {:?}",
        view.head.policy,
        sorted(keys.map(|keys| &keys.recipients)),
        sorted(keys.map(|keys| &keys.outputs)),
    );
    let history = stack.history().await?;
    let text = format!("{:?} {}", view.head, state_core::encode_snapshot(&snapshot));
    let is_foreign = |text: &str| text.contains(MARKER) || text.contains(MALLORY);
    Ok(Shown {
        authenticity: view.authenticity,
        is_regressed: view.regression.is_some(),
        key: view.head.key_id,
        sealing,
        lock: view.head.client_lock.as_ref().map(|lock| lock.message.clone()),
        resources: resources(&snapshot),
        is_history_foreign: is_foreign(&format!("{history:?}")),
        revisions: history.into_iter().map(|revision| revision.id).collect(),
        is_foreign: is_foreign(&text),
    })
}

/// Returns a snapshot with its values opened. To open them, the client reads the head again, and the attacker may have
/// replaced it by a head without a key. Then the values stay sealed, which counts as a refusal.
pub(crate) async fn opened(stack: &Stack, snapshot: Snapshot) -> Result<Snapshot> {
    let opened = stack.reveal(snapshot).await?;
    let text = state_core::encode_snapshot(&opened);
    match text.contains(sealed::MEMBER) {
        true => Err(Error::sealed("the snapshot", "its values were not opened")),
        false => Ok(opened),
    }
}

/// The resources, pending operations and outputs of a snapshot.
pub(crate) fn resources(snapshot: &Snapshot) -> Resources {
    let entries = snapshot.entries.iter();
    let mut pending: Vec<String> = snapshot
        .pending_operations
        .iter()
        .map(|pending| pending.target.address.to_string())
        .collect();
    pending.sort();
    Resources {
        entries: entries
            .map(|entry| {
                let outputs = entry.outputs.as_ref().map(|outputs| outputs.json().as_str());
                (entry.address.to_string(), format!("{:?} {outputs:?}", entry.id))
            })
            .collect(),
        pending,
        outputs: format!("{:?}", texts(&snapshot.outputs)),
    }
}

/// Values as JSON text, by their names. Their debug output hides the values.
pub(crate) fn texts(values: &BTreeMap<String, Json>) -> BTreeMap<&str, &str> {
    let texts = values.iter();
    texts
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect()
}
