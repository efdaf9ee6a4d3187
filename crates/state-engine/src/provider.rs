//! The contract between the engine and what touches the world.
//!
//! A provider is called from many tasks at once. Before each call that changes the world the intent is on record; what
//! the call says is recorded before anyone who depends on it goes on. So a provider has to be honest about one thing
//! only: whether the world changed ([`Failure`]).
//!
//! # Cancellation
//! [`CallContext::interrupted`] resolves at the first interrupt: a call may end early then, with what is there as a
//! partial failure. At the second interrupt, and when a call takes longer than it may, its future is dropped; then its
//! intent stays on record as pending, and the next run asks [`Provider::read`] what became of it.
//!
//! # Panics
//! A call that panics counts as one of which nobody knows what it did.

use crate::interrupt::Interrupt;
use crate::kind::{KindDescription, members};
use crate::log::Logger;
use async_trait::async_trait;
use state_core::{Address, Crypter, EntryKey, MutationId, Properties, StackName};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// Makes, changes, reads and deletes objects of some kinds.
#[async_trait]
pub trait Provider: fmt::Debug + Send + Sync {
    /// What a kind takes and gives, if that is known before anything is asked for. Programs are judged by it before a run
    /// begins; `check` judges what is known only then.
    fn describe(&self, _kind: &str) -> Option<KindDescription> {
        None
    }

    /// Called once a run, before anything else is.
    ///
    /// # Errors
    /// Why it can't work.
    async fn configure(&self, _request: ConfigureRequest) -> Result<(), Failure> {
        Ok(())
    }

    /// Judges inputs and fills in defaults. Touches nothing. The default takes them as they are.
    ///
    /// # Errors
    /// Every input that is wrong, each with its name.
    async fn check(&self, request: CheckRequest) -> Result<Checked, Failure> {
        Ok(Checked::new(request.inputs))
    }

    /// Compares what is recorded with what is wanted. Touches nothing.
    ///
    /// # Errors
    /// Why it can't tell.
    async fn diff(&self, request: DiffRequest) -> Result<Diff, Failure>;

    /// Makes an object.
    ///
    /// # Errors
    /// Why not, and what is there nevertheless.
    async fn create(&self, request: CreateRequest) -> Result<Object, Failure>;

    /// Looks at an object. Without an id it is asked whether an object that these inputs make is there: after a create
    /// of which nobody knows how it ended.
    ///
    /// # Errors
    /// Why it can't be read.
    async fn read(&self, request: ReadRequest) -> Result<Found, Failure>;

    /// Changes an object in its place.
    ///
    /// # Errors
    /// Why not, and what is there now.
    async fn update(&self, request: UpdateRequest) -> Result<Object, Failure>;

    /// Deletes an object. One that isn't there any more is fine.
    ///
    /// # Errors
    /// Why not.
    async fn delete(&self, request: DeleteRequest) -> Result<(), Failure>;
}

/// What goes with every call.
#[derive(Clone, Debug)]
pub struct CallContext {
    pub(crate) interrupt: Interrupt,
    /// Where to say something that is kept with the update.
    pub log: Logger,
    /// The world is not to be changed: only `configure`, `check`, `diff` and `read` are called then.
    pub preview: bool,
}

impl CallContext {
    /// Resolves when somebody asked the run to stop.
    ///
    /// # Cancellation
    /// Nothing is lost when it is dropped.
    pub async fn interrupted(&self) {
        self.interrupt.stopping().await;
    }
}

/// Prepares a provider.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ConfigureRequest {
    /// The stack.
    pub stack: StackName,
    /// What the registry was given for this provider.
    pub configuration: Properties,
    /// Opens what is secret in it.
    pub crypter: Option<Arc<dyn Crypter>>,
    /// See there.
    pub context: CallContext,
}

/// Asks for a judgement of inputs.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CheckRequest {
    /// The resource.
    pub address: Address,
    /// Its type.
    pub kind: String,
    /// What is asked for.
    pub inputs: Properties,
    /// Top-level inputs that are missing because their values aren't known yet.
    pub unknown: BTreeSet<String>,
    /// What was asked for last time.
    pub old_inputs: Option<Properties>,
    /// See there.
    pub context: CallContext,
}

/// Inputs that are right.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Checked {
    /// With defaults filled in.
    pub inputs: Properties,
    /// The id that an object made of them will have, where they tell it: two resources that want the same object are told
    /// of then before either is made, in previews too.
    pub id: Option<String>,
}

impl Checked {
    /// These inputs are right.
    pub const fn new(inputs: Properties) -> Self {
        Self { inputs, id: None }
    }

    /// The same where they tell the object's id.
    #[must_use]
    pub fn with_id(self, id: Option<String>) -> Self {
        Self { id, ..self }
    }
}

/// Asks for a comparison.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DiffRequest {
    /// The resource.
    pub address: Address,
    /// Its type.
    pub kind: String,
    /// The object's id.
    pub id: Option<String>,
    /// What was asked for last time.
    pub old_inputs: Properties,
    /// What is there, as far as it is known.
    pub old_outputs: Properties,
    /// What is asked for.
    pub inputs: Properties,
    /// Top-level inputs that are missing because their values aren't known yet: they may change.
    pub unknown: BTreeSet<String>,
    /// See there.
    pub context: CallContext,
}

/// What differs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Diff {
    /// Top-level inputs or outputs that have to change. Empty: the object is as it is meant to be.
    pub changed: BTreeSet<String>,
    /// Those of them that can't change in place: the object is replaced.
    pub replace: BTreeSet<String>,
    /// A replacement has to delete the old object first, because both can't be there at once.
    pub delete_before_replace: bool,
    /// Outputs that an update in place will change, for previews; none: those with the names of changed inputs.
    pub changed_outputs: Option<BTreeSet<String>>,
}

impl Diff {
    /// Nothing differs.
    pub fn none() -> Self {
        Self::default()
    }

    /// These change in place.
    pub fn changed<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Self {
        Self {
            changed: names.into_iter().map(Into::into).collect(),
            ..Self::default()
        }
    }

    /// The top-level names at which two objects differ: what most providers need.
    pub fn of_inputs(old: &Properties, new: &Properties) -> BTreeSet<String> {
        let (old, new) = (members(old), members(new));
        let names = old.keys().chain(new.keys());
        let changed = names.filter(|name| old.get(*name) != new.get(*name));
        changed.cloned().collect()
    }
}

/// Asks for a new object.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CreateRequest {
    /// The resource.
    pub address: Address,
    /// Its type.
    pub kind: String,
    /// What is asked for, checked.
    pub inputs: Properties,
    /// Names this call. A provider that can puts it on the object: if nobody sees the call end, [`Provider::read`] is
    /// asked for it.
    pub mutation: MutationId,
    /// See there.
    pub context: CallContext,
}

/// Asks for a look at an object.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReadRequest {
    /// The entry.
    pub key: EntryKey,
    /// Its type.
    pub kind: String,
    /// The object's id; none: is there one that these inputs make?
    pub id: Option<String>,
    /// What was asked for.
    pub inputs: Properties,
    /// What was there last.
    pub outputs: Properties,
    /// Without an id: the ids of objects that others have. It is none of these.
    pub others: BTreeSet<String>,
    /// Without an id: the create of which nobody saw the end.
    pub mutation: Option<MutationId>,
    /// See there.
    pub context: CallContext,
}

/// Asks for a change in place.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct UpdateRequest {
    /// The resource.
    pub address: Address,
    /// Its type.
    pub kind: String,
    /// The object's id.
    pub id: Option<String>,
    /// What was asked for last time.
    pub old_inputs: Properties,
    /// What is there, as far as it is known.
    pub old_outputs: Properties,
    /// What is asked for, checked.
    pub inputs: Properties,
    /// See there.
    pub context: CallContext,
}

/// Asks for a deletion.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DeleteRequest {
    /// The entry.
    pub key: EntryKey,
    /// Its type.
    pub kind: String,
    /// The object's id.
    pub id: Option<String>,
    /// What was asked for.
    pub inputs: Properties,
    /// What is there, as far as it is known.
    pub outputs: Properties,
    /// See there.
    pub context: CallContext,
}

/// An object of the world.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Object {
    /// The provider's name for it; never empty.
    pub id: String,
    /// What is there.
    pub outputs: Properties,
    /// Which outputs are secret: names, or JSON pointers.
    pub sensitive_outputs: Vec<String>,
    /// The inputs that would make it as it is; none: as they were asked for. A read that tells them makes drift show in
    /// the next preview.
    pub inputs: Option<Properties>,
}

impl Object {
    /// An object.
    pub fn new(id: impl Into<String>, outputs: Properties) -> Self {
        Self {
            id: id.into(),
            outputs,
            sensitive_outputs: Vec::new(),
            inputs: None,
        }
    }
}

/// What a look at the world found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Found {
    /// It is there.
    Object(Object),
    /// It isn't.
    Gone,
    /// Without an id nobody can tell: a person has to look.
    CannotTell,
}

/// Why a call failed, and what it left behind. Reasons are stored and shown: no secret belongs there. One in which
/// something stands that is marked as secret isn't shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The world is as it was before the call: certainly.
    #[error("{}", .0.join("; "))]
    NotDone(Vec<String>),
    /// The object is there, but not as it was meant to be.
    #[error("{}", .reasons.join("; "))]
    Partial {
        /// What is there.
        object: Box<Object>,
        /// What is wrong with it.
        reasons: Vec<String>,
    },
    /// Nobody knows what is there now. The intent stays on record; the next run asks.
    #[error("{} (it isn't known whether the world changed)", .0.join("; "))]
    Unknown(Vec<String>),
}

impl Failure {
    /// The world is as it was before the call.
    pub fn not_done(reason: impl Into<String>) -> Self {
        Self::NotDone(vec![reason.into()])
    }

    /// The object is there, but not as it was meant to be.
    pub fn partial(object: Object, reason: impl Into<String>) -> Self {
        Self::Partial {
            object: Box::new(object),
            reasons: vec![reason.into()],
        }
    }

    /// Nobody knows what is there now.
    pub fn unknown(reason: impl Into<String>) -> Self {
        Self::Unknown(vec![reason.into()])
    }

    /// Why.
    pub fn reasons(&self) -> &[String] {
        match self {
            Self::NotDone(reasons) | Self::Unknown(reasons) | Self::Partial { reasons, .. } => reasons,
        }
    }

    pub(crate) const fn reasons_mut(&mut self) -> &mut Vec<String> {
        match self {
            Self::NotDone(reasons) | Self::Unknown(reasons) | Self::Partial { reasons, .. } => reasons,
        }
    }
}
