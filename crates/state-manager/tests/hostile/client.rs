//! What a client is shown, in a form in which two runs can be compared: without times and random ids.

use crate::scenario::{MALLORY, name};
use state_core::testkit::hostile::forgeries::MARKER;
use state_core::{Error, KeyId, Result, RevisionId, Snapshot, StackName, sealed};
use state_manager::{Authenticity, Stack, Stacks, View};
use std::collections::BTreeMap;

/// The answer to a command.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answer {
    /// The tip, policy and recipients; none if there is no such stack.
    pub(crate) shown: Option<Shown>,
    /// Other facts: a key that identifies the question, and the answer.
    pub(crate) facts: Vec<(String, String)>,
}

/// The state of a stack as a client is shown it.
#[derive(Clone, Debug)]
pub(crate) struct Shown {
    pub(crate) authenticity: Authenticity,
    /// Whether the client said that the store went back in time.
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
    /// Whether the history, which is read again, contains the attacker's marker.
    pub(crate) is_history_foreign: bool,
}

/// Resources with their values, pending operations, and outputs.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Resources {
    pub(crate) entries: BTreeMap<String, String>,
    pub(crate) pending: Vec<String>,
    pub(crate) outputs: String,
}

pub(crate) async fn look(stacks: &Stacks) -> Result<Answer> {
    look_as(stacks, &name()).await
}

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

/// A snapshot with its values opened. The stack may be shown as plain when the head is read again: then the values stay
/// sealed, which is as good as a refusal.
pub(crate) async fn opened(stack: &Stack, snapshot: Snapshot) -> Result<Snapshot> {
    let opened = stack.reveal(snapshot).await?;
    let text = state_core::encode_snapshot(&opened);
    match text.contains(sealed::MEMBER) {
        true => Err(Error::sealed("the snapshot", "its values were not opened")),
        false => Ok(opened),
    }
}

/// What a snapshot says of its resources.
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
                (
                    entry.address.to_string(),
                    format!("{:?} {:?}", entry.id, entry.outputs),
                )
            })
            .collect(),
        pending,
        outputs: format!("{:?}", snapshot.outputs),
    }
}
