//! What is special about a stack or an entry right now, in a word each.

use serde::Serialize;
use state_core::{FactoryInfo, Invalidation, RevisionId, Serial, Snapshot, StackName, Timestamp};
use state_manager::{Authenticity, PublishedOutputs, View};
use std::fmt::Display;

/// Which stack a command looked at, and whether its state is known to say what the world is (seed 000).
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct ResourceStatus {
    /// The stack's name.
    pub(crate) stack: String,
    /// The current revision; none before the first.
    pub(crate) revision: Option<RevisionId>,
    /// Whether an update is open: what is shown is the state after its last step.
    pub(crate) update_open: bool,
    /// How many operations were begun and not ended.
    pub(crate) pending: usize,
    /// Whether nothing is pending, and nobody is changing the world beyond what is recorded.
    pub(crate) reliable: bool,
    /// Whether it isn't known to be from those who have the stack's key.
    #[serde(skip)]
    pub(crate) unchecked: bool,
    /// How the store went back since it was seen last.
    #[serde(skip)]
    pub(crate) regression: Option<String>,
    /// The serial of the revision whose outputs were published, if nothing else was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) published: Option<Serial>,
    /// Since when the state as a whole isn't reliable, whatever is pending.
    pub(crate) invalidated: Option<Invalidation>,
    /// The revision that was looked at, if one was asked for; `revision` is the same then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) at: Option<RevisionId>,
}

impl ResourceStatus {
    /// How a stack stands.
    pub(crate) fn of(view: &View) -> Self {
        Self {
            stack: view.name.to_string(),
            revision: view.state.current().cloned(),
            update_open: view.update_open(),
            pending: view.state.pending().count() + view.state.incoming().count(),
            reliable: view.is_reliable(),
            unchecked: view.authenticity == Authenticity::Unchecked,
            regression: view.regression.clone(),
            invalidated: view.state.invalidated().cloned(),
            ..Self::default()
        }
    }

    /// How a stack stood at a revision.
    pub(crate) fn at(name: &StackName, revision: RevisionId, snapshot: &Snapshot) -> Self {
        Self {
            stack: name.to_string(),
            revision: Some(revision.clone()),
            pending: snapshot.pending_operations.len(),
            reliable: snapshot.pending_operations.is_empty() && snapshot.invalidated.is_none(),
            invalidated: snapshot.invalidated.clone(),
            at: Some(revision),
            ..Self::default()
        }
    }

    /// What is known of a stack to those who read only the outputs that it published, and these.
    pub(crate) fn published(name: &StackName, published: PublishedOutputs) -> (Self, Snapshot) {
        let standing = Self {
            stack: name.to_string(),
            reliable: true,
            published: Some(published.serial),
            ..Self::default()
        };
        let snapshot = Snapshot {
            outputs: published.outputs.values,
            sensitive_outputs: published.outputs.sensitive,
            ..Snapshot::new(FactoryInfo::default(), name.to_string(), Timestamp::new(""))
        };
        (standing, snapshot)
    }

    /// That the state as a whole isn't reliable, if so.
    pub(crate) fn doubt(&self) -> Option<String> {
        let since = &self.invalidated.as_ref()?.since;
        let (what, next) = match (&self.at, self.update_open) {
            (Some(_), _) => (
                "this revision isn't reliable: a change of the world had begun",
                "not ended by then",
            ),
            (None, true) => (
                "the state isn't reliable: a change of the world began",
                "the update is still open",
            ),
            (None, false) => (
                "the state isn't reliable: a change of the world began",
                "nobody said what it led to; a refresh tells, or look yourself and say `statectl pending trust`",
            ),
        };
        Some(format!("{what} at {}, and {next}", since.as_str()))
    }

    /// What a person must know who looks at this state; empty when all is settled.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.unchecked {
            warnings.push("authenticity unchecked: no identity at hand opens the stack's key".to_owned());
        }
        if let Some(regression) = &self.regression {
            warnings.push(format!(
                "{regression}; if it was restored on purpose, say so: `statectl trust --accept`"
            ));
        }
        if let Some(serial) = self.published {
            warnings.push(format!(
                "these are the outputs that were published at serial {serial}: no identity at hand reads the rest of the stack"
            ));
        }
        if self.update_open {
            warnings.push("an update is open: this is the state after its last acknowledged step".to_owned());
        }
        let begun = format!(
            "{} begun and not ended",
            count(self.pending, "operation was", "operations were")
        );
        let changing = "the state is being changed and not reliable";
        match (&self.at, self.update_open) {
            _ if self.pending == 0 => {}
            (Some(_), _) => warnings.push(format!("this revision isn't reliable: {begun} by then")),
            // Perhaps they are of somebody who is at it: those aren't for anyone else to settle.
            (None, true) => warnings.push(format!(
                "{changing}: {begun}; see `statectl pending list`, and `statectl lock status` for who is at it"
            )),
            (None, false) => warnings.push(format!("{changing}: {begun}; see `statectl pending list`")),
        }
        warnings.extend(self.doubt());
        warnings
    }
}

/// The marks of a stack in a list.
pub(crate) fn stack_marks(update_open: bool, pending: usize, unreliable: bool) -> String {
    let marks = [
        update_open.then(|| "update open".to_owned()),
        (pending > 0).then(|| format!("{pending} pending")),
        unreliable.then(|| "not reliable".to_owned()),
    ];
    marks.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// A number with its noun.
pub(crate) fn count<N: Copy + Display + PartialEq + From<u8>>(number: N, one: &str, many: &str) -> String {
    format!("{number} {}", if number == N::from(1) { one } else { many })
}

/// The first so many of these, separated by a text, and how many more there are.
pub(crate) fn first(most: usize, items: &[impl ToString], separator: &str) -> String {
    let named: Vec<String> = items.iter().take(most).map(ToString::to_string).collect();
    let mut text = named.join(separator);
    if items.len() > most {
        text.push_str(&format!(" and {} more", items.len() - most));
    }
    text
}
