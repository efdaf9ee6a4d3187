//! The revision that last changed each property of a resource.
//!
//! ```
//! use state_core::mask::Mask;
//! use state_manager::{Result, Stack};
//!
//! async fn print(stack: &Stack) -> Result<()> {
//!     let blame = stack.blame(&"aws_instance.web".parse()?, None).await?;
//!     print!("{}", blame.masked(Mask::hide("(sensitive)")));
//!     Ok(())
//! }
//! ```

use crate::context::StackContext;
use crate::objects::document::{Revision, RevisionKind};
use crate::read::revision_state;
use crate::read::tip::Tip;
use crate::read::trail::{ResourceChange, Trail};
use serde::Serialize;
use state_core::diff::{self, Property};
use state_core::mask::Mask;
use state_core::{
    Address, Entry, EntryKey, Error, Json, Result, RevisionId, SharedEntry, Timestamp, UpdateKind,
};
use std::fmt;

/// The properties of a resource, each with the revision that last changed it.
#[derive(Clone, Debug)]
pub struct Blame {
    /// The resource whose properties are listed.
    pub entry: SharedEntry,
    /// The resource's address first (the pointer `/address`), then its other properties.
    pub lines: Vec<BlameLine>,
}

/// One property and the revision that last changed it.
#[derive(Clone, Debug)]
pub struct BlameLine {
    /// The property and its value.
    pub property: Property,
    /// The revision that last changed the property; none if only the open update changed it.
    pub revision: Option<Revision>,
}

/// A [`Blame`] with sensitive values masked, for a table or for JSON.
#[derive(Clone, Debug, Serialize)]
pub struct MaskedBlame {
    /// Key of the resource.
    #[serde(flatten)]
    pub key: EntryKey,
    /// The properties of the resource.
    pub properties: Vec<MaskedBlameLine>,
}

/// A [`BlameLine`] with its value masked.
#[derive(Clone, Debug, Serialize)]
pub struct MaskedBlameLine {
    /// JSON pointer of the property.
    pub pointer: String,
    /// Value of the property.
    pub value: Json,
    /// Whether the value contains a secret.
    pub sensitive: bool,
    /// The revision that last changed the property; none if only the open update changed it.
    pub revision: Option<RevisionId>,
    /// Kind of the update that made the revision. This field and those below are none for a detached revision.
    pub kind: Option<UpdateKind>,
    /// The person or service that ran the update.
    pub who: Option<String>,
    /// The host on which the update ran.
    pub host: Option<String>,
    /// The time at which the update ended.
    pub when: Option<Timestamp>,
    /// The message of the update.
    pub message: Option<String>,
}

impl Blame {
    /// The blame with sensitive values masked.
    pub fn masked(&self, mask: Mask) -> MaskedBlame {
        MaskedBlame {
            key: self.entry.key(),
            properties: self.lines.iter().map(|line| line.masked(mask)).collect(),
        }
    }
}

impl BlameLine {
    fn masked(&self, mask: Mask) -> MaskedBlameLine {
        let property = self.property.masked(mask);
        let revision = self.revision.as_ref();
        let update = revision.and_then(|revision| match &revision.kind {
            RevisionKind::Update(update) => Some(update),
            RevisionKind::Detached => None,
        });
        MaskedBlameLine {
            pointer: property.pointer,
            value: property.new.unwrap_or_else(Json::null),
            sensitive: property.sensitive,
            revision: revision.map(|revision| revision.id.clone()),
            kind: update.map(|update| update.kind),
            who: update.map(|update| update.who.clone()),
            host: update.map(|update| update.host.clone()),
            when: update.map(|update| update.end.as_ref().unwrap_or(&update.start).clone()),
            message: update.map(|update| update.message.clone()),
        }
    }
}

impl MaskedBlameLine {
    /// The cells of a table row: revision, `who@host`, time, property and value. `time` formats the time.
    pub fn cells(&self, time: impl FnOnce(&Timestamp) -> String) -> [String; 5] {
        let revision = self.revision.as_ref();
        let who = self.who.as_deref().zip(self.host.as_deref());
        [
            revision.map_or("none yet".to_owned(), ToString::to_string),
            who.map(|(who, host)| format!("{who}@{host}")).unwrap_or_default(),
            self.when.as_ref().map(time).unwrap_or_default(),
            self.pointer.strip_prefix('/').unwrap_or(&self.pointer).to_owned(),
            diff::short_text(&self.value),
        ]
    }
}

impl fmt::Display for MaskedBlame {
    /// Prints one line for each property, its cells separated by tabs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.properties
            .iter()
            .try_for_each(|line| writeln!(f, "{}", line.cells(ToString::to_string).join("\t")))
    }
}

/// Returns the blame of a resource in the revision `at`, or in the tip without `at`. Walks from the newest revision to
/// the oldest, and stops when all properties are attributed.
///
/// Skips detached revisions, which never were current. Attributes a change in a deleted revision to the next remaining
/// revision.
pub(super) async fn blame(
    stack: &StackContext,
    tip: &Tip,
    address: &Address,
    at: Option<&RevisionId>,
) -> Result<Blame> {
    let missing = || Error::not_found(format!("resource {address} in {}", stack.object()));
    let entry = match at {
        Some(revision) => find(
            revision_state::snapshot(stack, tip, revision)
                .await?
                .entries
                .iter(),
            address,
        )
        .cloned(),
        None => find(tip.replayed.state.generations(address), address).cloned(),
    };
    let entry = entry.ok_or_else(missing)?;
    let mut walk = BlameWalk::new(&entry);
    let mut trail = Trail::of_entry(stack, tip, &entry);
    match at {
        Some(at) => {
            if let Some((revision, change)) = trail.skip_to(at, &entry).await? {
                walk.back_over(&change, Some(&revision));
            }
        }
        None => walk.back_over(&trail.since_newest().await?, None),
    }
    while walk.is_open()
        && let Some((revision, change)) = trail.next_change().await?
    {
        walk.back_over(&change, Some(&revision));
    }
    if walk.is_open() {
        // Nothing is older: the rest of the properties is as the oldest revision set them.
        walk.back_over(&ResourceChange::Created, trail.oldest().await?.as_ref());
    }
    Ok(Blame {
        entry,
        lines: walk.lines,
    })
}

/// The live entry of an address. Without one, a deposed entry: one that was replaced and isn't deleted yet.
fn find<'a>(entries: impl Iterator<Item = &'a SharedEntry>, address: &Address) -> Option<&'a SharedEntry> {
    entries
        .filter(|entry| entry.address == *address)
        .min_by_key(|entry| entry.key())
}

struct BlameWalk {
    lines: Vec<BlameLine>,
    /// Whether each line was attributed to a revision, in the order of `lines`.
    is_settled: Vec<bool>,
    /// Whether the walk has reached the revision that created the resource.
    ended: bool,
}

impl BlameWalk {
    fn new(entry: &Entry) -> Self {
        let lines: Vec<BlameLine> = std::iter::once(diff::address_property(entry))
            .chain(diff::properties(entry))
            .map(|property| BlameLine {
                property,
                revision: None,
            })
            .collect();
        Self {
            is_settled: vec![false; lines.len()],
            lines,
            ended: false,
        }
    }

    fn is_open(&self) -> bool {
        !self.ended && self.is_settled.contains(&false)
    }

    /// Attributes the properties that a revision changed to it; none is the open update.
    fn back_over(&mut self, change: &ResourceChange, revision: Option<&Revision>) {
        if self.ended {
            return;
        }
        match change {
            ResourceChange::Unchanged => {}
            ResourceChange::Created | ResourceChange::Removed => {
                self.settle(revision, |_| true);
                self.ended = true;
            }
            ResourceChange::Updated { moved, properties } => self.settle(revision, |pointer| {
                (*moved && pointer == "/address")
                    || properties
                        .iter()
                        .any(|changed| leads_into(changed, pointer) || leads_into(pointer, changed))
            }),
        }
    }

    fn settle(&mut self, revision: Option<&Revision>, is_changed: impl Fn(&str) -> bool) {
        for (line, is_settled) in self.lines.iter_mut().zip(&mut self.is_settled) {
            if !*is_settled && is_changed(&line.property.pointer) {
                line.revision = revision.cloned();
                *is_settled = true;
            }
        }
    }
}

/// Whether the pointer `outer` equals `inner` or is one of its parents.
fn leads_into(outer: &str, inner: &str) -> bool {
    inner
        .strip_prefix(outer)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
