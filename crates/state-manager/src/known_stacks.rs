//! A client's memory of each stack, with which it detects a store that was exchanged, forged or rolled back.
//!
//! age, the format of the key files, doesn't authenticate who wrapped a data key. A store that was restored to an
//! earlier state is consistent in itself, so only a client that saw a later state detects the rollback. Therefore a
//! client pins each stack to the first key that it saw, follows a new key only if the previous one endorses it, and
//! remembers the end of the journal.
//!
//! ```text
//!           first contact            later
//!  key      is trusted               the same, or endorsed by the previous key, link by link; the first key of
//!                                    a known stack is one that this client made
//!  journal  its end is remembered    that end lies on the chain that leads to the new end
//!  head     its watermark is too     the same, or a later one
//!  policy   is remembered            a change is authentic, and is reported once, as one of key and name is
//!  name     its stack is remembered  the same stack, until that stack was removed or renamed
//! ```
//! The watermark is the last frame of the journal when a session closed it. Recipients are remembered as the policy is.
//! Nothing is remembered of a sealed stack whose key can't be opened.

#[cfg(feature = "fs")]
mod file;
#[cfg(feature = "fs")]
mod store_identity;

#[cfg(feature = "fs")]
pub use file::FileKnownStacks;
#[cfg(feature = "fs")]
pub use store_identity::StoreIdentity;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use state_core::head::SealingPolicy;
use state_core::{Digest, Epoch, Head, KeyId, Lineage, Result, RevisionId, Serial, Slot, StackName};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The state of a stack when this client last read or wrote it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct StackPin {
    /// The data key with which head and journal were authenticated; none for a stack without a key, or whose key this
    /// client could never open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<KeyId>,
    /// Whether the user accepted the stack although this client couldn't open the key. The client then reads the stack
    /// without authenticating it, and refuses a key that `key` doesn't endorse.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unopened: bool,
    /// The epoch of the head.
    #[serde(default)]
    pub epoch: Epoch,
    /// The highest serial in the state.
    #[serde(default)]
    pub serial: Serial,
    /// The revision that was current when this client last saw the stack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<RevisionId>,
    /// The slot of the watermark in the head, which the head's tag covers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed: Option<Slot>,
    /// Digest of the head that was last authenticated with the data key. A head with the same bytes is known without
    /// the key, for as long as the rest of this pin describes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<Digest>,
    /// The slot after the last frame of the journal.
    #[serde(default)]
    pub next: Slot,
    /// The chain digest of the journal before that slot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain: Option<Digest>,
    /// Policy and recipients in the head that was last authenticated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealing: Option<SealingPin>,
    /// Set while a change of policy or recipients couldn't be reported yet: the serial at which this client last saw
    /// the stack before the change. `sealing` then keeps the policy and the recipients from before the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreported_since: Option<Serial>,
    /// The published outputs that were last read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outputs: Option<OutputsPin>,
    /// Keys that this client made for the stack while the stack had none. After a crash of this client, the stack may
    /// use one of them although `key` is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub announced: Vec<KeyId>,
    /// Whether this client created the stack, and nothing was written to it since.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub empty: bool,
    /// The name that this client is giving to the stack. After a crash of this client, the stack may have this name
    /// although `sealing` has the former one: then the new name is no change to report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renaming_to: Option<StackName>,
    /// The journal of a salvage that this client is putting in the place of a damaged one. After a crash of this client, the
    /// stack may have this journal although the rest of the pin remembers the former one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub salvaging_to: Option<SalvageEnd>,
    /// Why the stored pin couldn't be read; none if it was read. Such a pin remembers nothing else. The stack can be read, with a
    /// warning, and written only after the user accepted it.
    #[serde(skip)]
    pub unreadable: Option<String>,
}

/// The end of the journal of a salvage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct SalvageEnd {
    /// The slot after its last frame.
    pub next: Slot,
    /// Its chain digest before that slot.
    pub chain: Digest,
}

impl StackPin {
    /// The pin of a stack whose stored pin can't be read.
    #[cfg(feature = "fs")]
    pub(crate) fn unreadable(reason: String) -> Self {
        Self {
            unreadable: Some(reason),
            ..Self::default()
        }
    }

    /// Why a stack with this pin can't be written; none if its pin was read.
    pub(crate) fn refusal(&self) -> Option<String> {
        let reason = self.unreadable.as_ref()?;
        Some(format!("what this client remembers of it is lost: {reason}"))
    }

    /// The pin after a salvage by this client: of the former journal, nothing counts any more.
    pub(crate) fn salvaged(&self) -> Option<Self> {
        let end = self.salvaging_to?;
        Some(Self {
            salvaging_to: None,
            epoch: Epoch::default(),
            serial: Serial::default(),
            revision: None,
            closed: None,
            head: None,
            next: end.next,
            chain: Some(end.chain),
            ..self.clone()
        })
    }

    /// Policy, recipients and name that this client expects in a head that says `is`: with the name that this client
    /// is giving to the stack itself.
    pub(crate) fn expected_sealing(&self, is: &SealingPin) -> Option<SealingPin> {
        let mut was = self.sealing.clone()?;
        if self.renaming_to.is_some() && self.renaming_to == is.name {
            was.name.clone_from(&is.name);
        }
        Some(was)
    }

    /// Whether this client has seen that the stack is sealed: it opened the data key or published outputs. Also true if the pin
    /// can't be read, which may be that of a sealed stack.
    pub(crate) const fn is_sealed(&self) -> bool {
        self.key.is_some() || self.outputs.is_some() || self.unreadable.is_some()
    }

    /// Whether the stack never gets a data key, because its policy is `plaintext`.
    pub(crate) fn is_plain_by_choice(&self) -> bool {
        let policy = self.sealing.as_ref().map(|sealing| sealing.policy);
        !self.is_sealed() && policy == Some(SealingPolicy::Plaintext)
    }
}

/// Policy, recipients, data key, name and origin of a stack, as its head names them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct SealingPin {
    /// Which values are encrypted.
    pub policy: SealingPolicy,
    /// Recipients of the data key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recipients: Vec<String>,
    /// Recipients of the published outputs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<String>,
    /// The data key; none for a stack without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<KeyId>,
    /// The name of the stack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<StackName>,
    /// URL of the store from which the stack was copied; none if the stack was made in this store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copied_from: Option<String>,
}

impl SealingPin {
    /// Policy, recipients, data key, name and origin in a head.
    pub(crate) fn of(head: &Head) -> Self {
        let keys = head.keys.as_ref();
        Self {
            policy: head.policy,
            recipients: keys.map(|keys| keys.recipients.clone()).unwrap_or_default(),
            outputs: keys.map(|keys| keys.outputs.clone()).unwrap_or_default(),
            key: head.key_id,
            name: Some(head.name.clone()),
            copied_from: head.copied_from.clone(),
        }
    }
}

/// The difference between two [`SealingPin`]s of a stack. A holder of the data key signed the later one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SealingChange {
    /// The policy before and after the change; none if it is the same.
    pub policy: Option<(SealingPolicy, SealingPolicy)>,
    /// Added and removed recipients of the data key.
    pub recipients: ListChange,
    /// Added and removed recipients of the published outputs.
    pub outputs: ListChange,
    /// The data key before and after the change; none if it is the same, or if the stack had no key before.
    pub key: Option<(KeyId, KeyId)>,
    /// The name of the stack before and after the change; none if it is the same.
    pub name: Option<(StackName, StackName)>,
    /// The store from which the stack was copied, before and after the change; none if it is the same. A change means
    /// that another copy of the stack took its place.
    pub copied_from: Option<(Option<String>, Option<String>)>,
    /// The revisions that record the change, oldest first; empty if the history doesn't contain them.
    pub origins: Vec<ChangeOrigin>,
    /// Names that the head gives to the added recipients, by recipient.
    pub names: BTreeMap<String, String>,
}

/// A revision that records a change of recipients or policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeOrigin {
    /// The user who made the change, as the revision names them.
    pub who: String,
    /// Serial of the revision.
    pub serial: Serial,
}

/// The difference between two lists of recipients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListChange {
    /// Recipients that are only in the later list.
    pub added: Vec<String>,
    /// Recipients that are only in the earlier list.
    pub removed: Vec<String>,
}

impl SealingChange {
    /// The difference; none if both are equal up to the order of their recipients.
    pub(crate) fn between(was: &SealingPin, is: &SealingPin) -> Option<Self> {
        let change = Self {
            policy: (was.policy != is.policy).then_some((was.policy, is.policy)),
            recipients: ListChange::between(&was.recipients, &is.recipients),
            outputs: ListChange::between(&was.outputs, &is.outputs),
            key: was.key.zip(is.key).filter(|(was, is)| was != is),
            name: was
                .name
                .clone()
                .zip(is.name.clone())
                .filter(|(was, is)| was != is),
            copied_from: (was.copied_from != is.copied_from)
                .then(|| (was.copied_from.clone(), is.copied_from.clone())),
            origins: Vec::new(),
            names: BTreeMap::new(),
        };
        let is_none = !change.is_recorded() && change.name.is_none() && change.copied_from.is_none();
        (!is_none).then_some(change)
    }

    /// Whether revisions record the change. The history doesn't record new names and copies.
    pub(crate) const fn is_recorded(&self) -> bool {
        self.policy.is_some() || self.key.is_some() || !self.recipients.is_empty() || !self.outputs.is_empty()
    }

    /// Whether a text contains one of the recipients that were added or removed.
    pub(crate) fn is_mentioned_in(&self, text: &str) -> bool {
        let lists = [&self.recipients, &self.outputs];
        let mut recipients = lists
            .into_iter()
            .flat_map(|list| list.added.iter().chain(&list.removed));
        recipients.any(|recipient| text.contains(recipient.as_str()))
    }

    /// For example ` by anna in revision 12`; empty if the origin is unknown.
    fn origin(&self) -> String {
        let mut by_user: Vec<(&str, Vec<String>)> = Vec::new();
        for origin in &self.origins {
            let serial = origin.serial.to_string();
            match by_user.iter_mut().find(|(who, _)| *who == origin.who) {
                Some((_, serials)) => serials.push(serial),
                None => by_user.push((&origin.who, vec![serial])),
            }
        }
        let described = by_user.iter().map(|(who, serials)| {
            let revisions = if serials.len() == 1 {
                "revision"
            } else {
                "revisions"
            };
            format!(" by {who} in {revisions} {}", serials.join(", "))
        });
        described.collect::<Vec<_>>().join(" and")
    }

    fn named(&self, recipient: &str) -> String {
        match self.names.get(recipient) {
            Some(name) => format!("{name} ({recipient})"),
            None => recipient.to_owned(),
        }
    }
}

impl ListChange {
    fn between(was: &[String], is: &[String]) -> Self {
        let only_in = |one: &[String], other: &[String]| {
            let only = one.iter().filter(|item| !other.contains(item));
            only.cloned().collect()
        };
        Self {
            added: only_in(is, was),
            removed: only_in(was, is),
        }
    }

    /// Whether both lists have the same recipients.
    pub const fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty()
    }
}

/// For example `recipients changed by anna in revision 12: +bob (age1…), -age1…; policy changed from sensitive to all`.
impl fmt::Display for SealingChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts: Vec<String> = Vec::new();
        // The origin is printed once, in the first part: its revisions belong to the change as a whole.
        let mut origin = self.origin();
        for (name, change) in [
            ("recipients", &self.recipients),
            ("recipients of the outputs", &self.outputs),
        ] {
            let added = change.added.iter().map(|added| format!("+{}", self.named(added)));
            let removed = change
                .removed
                .iter()
                .map(|removed| format!("-{}", self.named(removed)));
            let signed: Vec<_> = added.chain(removed).collect();
            if !signed.is_empty() {
                let origin = std::mem::take(&mut origin);
                parts.push(format!("{name} changed{origin}: {}", signed.join(", ")));
            }
        }
        if let Some((was, is)) = self.policy {
            let origin = std::mem::take(&mut origin);
            parts.push(format!("policy changed{origin} from {was} to {is}"));
        }
        if let Some((was, is)) = self.key {
            parts.push(format!("data key changed{origin} from {was} to {is}"));
        }
        if let Some((was, is)) = &self.name {
            parts.push(format!("renamed from {} to {}", was.short(), is.short()));
        }
        if let Some((was, is)) = &self.copied_from {
            let made = |source: &Option<String>| match source {
                Some(source) => format!("copied from {}", source.escape_debug()),
                None => "made in this store".to_owned(),
            };
            parts.push(format!(
                "another copy of the stack took its place: the former one was {}, this one was {}",
                made(was),
                made(is)
            ));
        }
        f.write_str(&parts.join("; "))
    }
}

/// The outputs document of a stack that this client last read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct OutputsPin {
    /// The key with which the outputs are sealed.
    pub key: KeyId,
    /// The serial of the revision to which the outputs belong.
    pub serial: Serial,
    /// Whether the user accepted that there are no outputs that this client can open.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gone: bool,
}

impl OutputsPin {
    pub(crate) const fn new(key: KeyId, serial: Serial) -> Self {
        Self {
            key,
            serial,
            gone: false,
        }
    }
}

impl StackPin {
    /// A pin of a new stack, which has a policy and no key yet. With the policy `plaintext` the stack never gets a key.
    /// Content of unknown origin is normal there, so the pin isn't marked as empty.
    pub(crate) fn created(name: &StackName, policy: SealingPolicy) -> Self {
        Self {
            empty: policy != SealingPolicy::Plaintext,
            sealing: Some(SealingPin {
                policy,
                recipients: Vec::new(),
                outputs: Vec::new(),
                key: None,
                name: Some(name.clone()),
                copied_from: None,
            }),
            ..Self::default()
        }
    }

    /// Whether the position of this pin lies before that of `other`: in one respect at least, and behind it in none.
    pub(crate) fn precedes(&self, other: &Self) -> bool {
        let position = |pin: &Self| (pin.serial, pin.epoch, pin.closed, pin.next);
        let (this, other) = (position(self), position(other));
        this != other && this.0 <= other.0 && this.1 <= other.1 && this.2 <= other.2 && this.3 <= other.3
    }

    /// A pin of a stack that the user accepted although this client can't open its key.
    pub(crate) fn unopened(key: KeyId) -> Self {
        Self {
            unopened: true,
            ..Self::pinned(key)
        }
    }

    /// A pin with nothing but a key, which the user received through another channel.
    pub fn pinned(key: KeyId) -> Self {
        Self {
            key: Some(key),
            ..Self::default()
        }
    }
}

/// The memory of one client for the stacks of one store. Use a separate memory for each store.
///
/// Implementations should keep pins across processes. A failed write is not returned, because it matters only at a
/// later read: the implementation reports it, for instance as a warning.
#[async_trait]
pub trait KnownStacks: fmt::Debug + Send + Sync {
    /// The pin of a stack; none if the stack isn't known.
    ///
    /// # Errors
    /// `Invalid` when the memory can't be read: it must not be treated as empty, because an empty memory trusts any
    /// store.
    async fn seen(&self, lineage: Lineage) -> Result<Option<StackPin>>;

    /// Replaces the pin of a stack by `now`, or removes it if `now` is none. Does nothing and returns false if the
    /// stored pin isn't `before`: another process of this client changed it after the caller read it, and `now` may be
    /// older than that change.
    async fn replace(&self, lineage: Lineage, before: Option<&StackPin>, now: Option<&StackPin>) -> bool;

    /// Removes the pin of a stack, because the user decided to trust what the store contains now.
    ///
    /// # Errors
    /// As [`KnownStacks::seen`].
    async fn forget(&self, lineage: Lineage) -> Result<()> {
        while let Some(pin) = self.seen(lineage).await? {
            if self.replace(lineage, Some(&pin), None).await {
                break;
            }
        }
        Ok(())
    }

    /// The stack to which a name pointed when the name was last read.
    ///
    /// # Errors
    /// As [`KnownStacks::seen`].
    async fn named(&self, name: &StackName) -> Result<Option<Lineage>>;

    /// All names under which a stack is remembered: a list of the store's stacks must explain each of them.
    ///
    /// # Errors
    /// As [`KnownStacks::seen`].
    async fn names(&self) -> Result<Vec<StackName>>;

    /// Replaces the stack that has a name by `now`, or removes the name if `now` is none. Does nothing and returns false
    /// if the remembered stack isn't `before`: another process of this client changed it after the caller compared it
    /// with the store.
    async fn replace_name(&self, name: &StackName, before: Option<Lineage>, now: Option<Lineage>) -> bool;

    /// Reports to the user that a holder of the data key changed the policy or the recipients of a stack since this
    /// client last saw it. Returns whether the change was shown: then it is remembered and not reported again. The
    /// default shows nothing and returns true.
    fn report(&self, _stack: &StackName, _change: &SealingChange) -> bool {
        true
    }
}

/// A [`KnownStacks`] in memory: for a program that opens a stack more than once.
#[derive(Debug, Default)]
pub struct MemoryKnownStacks(Mutex<PinTable>);

#[derive(Debug, Default)]
struct PinTable {
    stacks: BTreeMap<Lineage, StackPin>,
    names: BTreeMap<(String, String), Lineage>,
    reported: Vec<String>,
}

impl MemoryKnownStacks {
    /// The changes of policies and recipients that were reported, oldest first.
    pub fn reported(&self) -> Vec<String> {
        self.pin_table().reported.clone()
    }

    fn pin_table(&self) -> MutexGuard<'_, PinTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl KnownStacks for MemoryKnownStacks {
    async fn seen(&self, lineage: Lineage) -> Result<Option<StackPin>> {
        Ok(self.pin_table().stacks.get(&lineage).cloned())
    }

    async fn replace(&self, lineage: Lineage, before: Option<&StackPin>, now: Option<&StackPin>) -> bool {
        let mut pin_table = self.pin_table();
        if pin_table.stacks.get(&lineage) != before {
            return false;
        }
        match now {
            Some(now) => pin_table.stacks.insert(lineage, now.clone()),
            None => pin_table.stacks.remove(&lineage),
        };
        true
    }

    async fn named(&self, name: &StackName) -> Result<Option<Lineage>> {
        Ok(self.pin_table().names.get(&name.folded()).copied())
    }

    async fn names(&self) -> Result<Vec<StackName>> {
        let pin_table = self.pin_table();
        let names = pin_table.names.keys();
        // The keys were made from stack names, so each of them is a valid name.
        Ok(names
            .filter_map(|(project, stack)| StackName::new(project, stack).ok())
            .collect())
    }

    async fn replace_name(&self, name: &StackName, before: Option<Lineage>, now: Option<Lineage>) -> bool {
        let mut pin_table = self.pin_table();
        if pin_table.names.get(&name.folded()).copied() != before {
            return false;
        }
        match now {
            Some(now) => pin_table.names.insert(name.folded(), now),
            None => pin_table.names.remove(&name.folded()),
        };
        true
    }

    fn report(&self, stack: &StackName, change: &SealingChange) -> bool {
        let change = format!("{}: {change}", stack.short());
        self.pin_table().reported.push(change);
        true
    }
}
