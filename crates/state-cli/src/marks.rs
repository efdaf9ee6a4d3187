//! The status of a stack with its warnings, and helpers that count and list names in sentences.

use serde::Serialize;
use state_core::{FactoryInfo, Invalidation, RevisionId, Serial, Snapshot, StackName, Timestamp};
use state_manager::{PublishedOutputs, View};
use std::fmt::Display;

/// The stack that a command read, and whether its state is reliable: known to match the real resources.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct StackStatus {
    /// Full name of the stack, with its project.
    pub(crate) stack: String,
    /// The current revision, or the one named by `--at`; none before the first.
    pub(crate) revision: Option<RevisionId>,
    /// Whether an update is open. If so, the state is the one after the update's last stored step.
    pub(crate) update_open: bool,
    /// The number of pending operations.
    pub(crate) pending: usize,
    /// Whether no operation is pending, and no update is changing resources without having recorded the result.
    pub(crate) reliable: bool,
    /// The serial of the revision whose published outputs were read, if nothing else could be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) published: Option<Serial>,
    /// Since when the whole state is unreliable, independent of pending operations.
    pub(crate) invalidated: Option<Invalidation>,
    /// The revision named by `--at`. If set, `revision` has the same value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) at: Option<RevisionId>,
}

impl StackStatus {
    /// The status of the latest state of a stack.
    pub(crate) fn of(view: &View) -> Self {
        Self {
            stack: view.name.to_string(),
            revision: view.state.current().cloned(),
            update_open: view.update_open(),
            pending: view.state.pending().count() + view.state.incoming().count(),
            reliable: view.is_reliable(),
            invalidated: view.state.invalidated().cloned(),
            ..Self::default()
        }
    }

    /// The status of a stack at a revision.
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

    /// The status of a stack of which only the published outputs could be read, and a snapshot with these outputs.
    pub(crate) fn published(name: &StackName, published: PublishedOutputs) -> (Self, Snapshot) {
        let status = Self {
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
        (status, snapshot)
    }

    /// A warning if the whole state is unreliable.
    pub(crate) fn invalidation_warning(&self) -> Option<String> {
        let since = self.invalidated.as_ref()?.since.as_str();
        let change = format!("a change of real resources that began at {since}");
        Some(match (&self.at, self.update_open) {
            (Some(_), _) => format!("this revision is unreliable: {change} had not ended"),
            (None, true) => {
                format!("the state is unreliable: {change} has not ended, and its update is still open")
            }
            (None, false) => format!(
                "the state is unreliable: {change} has an unknown outcome; run `statectl refresh`, or compare the real \
                 resources and run `statectl pending trust`"
            ),
        })
    }

    /// Warnings for users of this state; empty if the state is current and reliable. Whether it is authentic and newest is
    /// reported by [`Standings`](crate::standings::Standings).
    pub(crate) fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if let Some(serial) = self.published {
            warnings.push(format!(
                "showing the outputs published at serial {serial}: your identity can't decrypt the rest of the stack"
            ));
        }
        if self.update_open {
            warnings.push("an update is open: showing the state after its last stored step".to_owned());
        }
        let begun = count(self.pending, "pending operation", "pending operations");
        match (&self.at, self.update_open) {
            _ if self.pending == 0 => {}
            (Some(_), _) => warnings.push(format!("this revision is unreliable: it has {begun}")),
            // The operations may belong to a run that is still active. The user must check the lock before resolving
            // them.
            (None, true) => warnings.push(format!(
                "the state is unreliable: {begun}; see `statectl pending list`, and `statectl lock status` for the lock holder"
            )),
            (None, false) => warnings.push(format!(
                "the state is unreliable: {begun}; see `statectl pending list`"
            )),
        }
        warnings.extend(self.invalidation_warning());
        warnings
    }
}

/// The marks of a stack in the stack list.
pub(crate) fn stack_marks(update_open: bool, pending: usize, unreliable: bool) -> String {
    let marks = [
        update_open.then(|| "update open".to_owned()),
        (pending > 0).then(|| format!("{pending} pending")),
        unreliable.then(|| "unreliable".to_owned()),
    ];
    marks.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// A number with its noun, for example `1 resource` or `2 resources`.
pub(crate) fn count<N: Copy + Display + PartialEq + From<u8>>(number: N, one: &str, many: &str) -> String {
    format!("{number} {}", if number == N::from(1) { one } else { many })
}

/// The line about resources that hold a sensitive value where it can't be encrypted; none without such a resource. It names
/// at most `most` of them.
pub(crate) fn readable_in_names(most: usize, resources: &[String]) -> Option<String> {
    let what = count(resources.len(), "resource has", "resources have");
    (!resources.is_empty()).then(|| {
        format!(
            "{what} a sensitive value in the address, id, names of fields or error messages, where it stays readable: {}",
            first(most, resources, ", ")
        )
    })
}

/// The first `most` items, joined by a separator, and the number of the remaining ones.
pub(crate) fn first(most: usize, items: &[impl ToString], separator: &str) -> String {
    let named: Vec<String> = items.iter().take(most).map(ToString::to_string).collect();
    let mut text = named.join(separator);
    if items.len() > most {
        text.push_str(&format!(" and {} more", items.len() - most));
    }
    text
}
