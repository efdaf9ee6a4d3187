//! The contract between the engine and providers, which create, read, update and delete real resources.
//!
//! The engine calls a provider from many tasks at once. Before a call that changes real resources, the engine stores
//! the intent: which resource the call is about to change, and how. After the call it stores the result, before any
//! dependent step begins. So a provider has one obligation: a [`Failure`] must say correctly whether the call changed
//! anything.
//!
//! # Cancellation
//! [`CallContext::interrupted`] resolves at the first interrupt: a call may then end early and report its
//! partial result. At the second interrupt, and when a call exceeds its time limit, the future is dropped. The
//! intent then stays recorded as pending, and the next run asks [`Provider::read`] for the outcome.
//!
//! # Panics
//! A call that panics counts as a call with an unknown outcome.

use crate::approval::{CommandCall, ResourceCommand};
use crate::interrupt::Interrupt;
use crate::kind::{KindDescription, members};
use crate::log::Logger;
use async_trait::async_trait;
use state_core::{Address, Crypter, EntryKey, MutationId, Properties, StackName};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// What a provider knows of the work that an earlier process began for a mutation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EarlierWork {
    /// It ended, so the object doesn't change any more.
    Ended,
    /// It goes on, as this text describes. The engine leaves the operation pending.
    Running(String),
    /// This client can't see whether it goes on, for the reason in this text. The engine leaves the operation pending if
    /// the object is as before: the work may change it later.
    Unseen(String),
}

/// Creates, updates, reads and deletes the objects of some kinds.
#[async_trait]
pub trait Provider: fmt::Debug + Send + Sync {
    /// The inputs and outputs of a kind, if they are known statically. Programs are validated against this
    /// description before a run begins; `check` validates everything that depends on values.
    fn describe(&self, _kind: &str) -> Option<KindDescription> {
        None
    }

    /// The commands that a call for the object `id` with these inputs may start on this machine, and the files that it
    /// may read or delete. A recorded id and recorded inputs are untrusted: the engine makes the call only if the
    /// program declares each command and file or the user approved it (see
    /// [`CommandApprovals`](crate::CommandApprovals)). If the inputs name neither commands nor files, the
    /// provider returns an empty list.
    fn commands(
        &self,
        _kind: &str,
        _id: Option<&str>,
        _inputs: &Properties,
        _call: CommandCall,
    ) -> Vec<ResourceCommand> {
        Vec::new()
    }

    /// Notes on this machine that this client is about to work on a mutation, for [`Self::earlier_work`] after a crash. The
    /// engine calls this method right before it writes the intent of the mutation. By default the provider notes nothing.
    fn note_work(&self, _mutation: MutationId) {}

    /// Whether work that an earlier process began for a mutation, for example a command, may go on. The engine asks before
    /// it settles a pending operation by [`Self::read`]. By default no work outlives its process.
    fn earlier_work(&self, _mutation: MutationId) -> EarlierWork {
        EarlierWork::Ended
    }

    /// Deletes what [`Self::note_work`] noted about a mutation. The engine calls this method after the result of the mutation
    /// is durable.
    fn forget_work(&self, _mutation: MutationId) {}

    /// Configures the provider. The engine calls this method before it first calls any other method except `describe`
    /// and `commands`, once per configuration. Settling (see [`settle`](crate::settle)), plan and run then use the same
    /// configured provider.
    ///
    /// # Errors
    /// Returns a failure with the reason why the provider can't be used.
    async fn configure(&self, _request: ConfigureRequest) -> Result<(), Failure> {
        Ok(())
    }

    /// Validates inputs and fills in defaults, without side effects. The default implementation accepts all
    /// inputs unchanged.
    ///
    /// # Errors
    /// Returns a failure with one reason for each invalid input. Each reason names the input.
    async fn check(&self, request: CheckRequest) -> Result<CheckedInputs, Failure> {
        Ok(CheckedInputs::new(request.inputs))
    }

    /// Compares the recorded object with the desired inputs, without side effects.
    ///
    /// # Errors
    /// Returns a failure with the reason why the comparison is impossible.
    async fn diff(&self, request: DiffRequest) -> Result<Diff, Failure>;

    /// Creates an object.
    ///
    /// # Errors
    /// Returns [`Failure::NotDone`] if no object was created, [`Failure::Partial`] with the object if it was created
    /// but doesn't match the inputs, and [`Failure::Unknown`] if the provider can't determine whether an object exists.
    async fn create(&self, request: CreateRequest) -> Result<Object, Failure>;

    /// Reads an object. A request without an id asks whether an earlier create with these inputs, whose outcome is
    /// unknown, created an object.
    ///
    /// # Errors
    /// Returns a failure with the reason why the object can't be read.
    async fn read(&self, request: ReadRequest) -> Result<ReadResult, Failure>;

    /// Updates an object in place.
    ///
    /// # Errors
    /// Returns [`Failure::NotDone`] if the object didn't change, [`Failure::Partial`] with the current object if the
    /// update was incomplete, and [`Failure::Unknown`] if the provider can't determine whether the object changed.
    async fn update(&self, request: UpdateRequest) -> Result<Object, Failure>;

    /// Deletes an object. A missing object counts as deleted.
    ///
    /// # Errors
    /// Returns [`Failure::NotDone`] if the object didn't change, [`Failure::Partial`] with the current object if it
    /// changed but still exists, and [`Failure::Unknown`] if the provider can't determine whether the object exists.
    async fn delete(&self, request: DeleteRequest) -> Result<(), Failure>;
}

/// Context of every provider call.
#[derive(Clone, Debug)]
pub struct CallContext {
    pub(crate) interrupt: Interrupt,
    /// Logger whose lines are stored with the update.
    pub log: Logger,
    /// Whether the call is made for a plan, which calls only `configure`, `check`, `diff` and `read`. In a call of
    /// `configure`, it is true only if no lock is held: under a lock, the run that follows the plan uses the same
    /// configured provider.
    pub preview: bool,
}

impl CallContext {
    /// Resolves when the run is asked to stop.
    ///
    /// # Cancellation
    /// This method is cancel safe.
    pub async fn interrupted(&self) {
        self.interrupt.stopping().await;
    }
}

/// Arguments of a call of [`Provider::configure`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ConfigureRequest {
    /// Name of the stack.
    pub stack: StackName,
    /// Configuration that was registered with the provider.
    pub configuration: Properties,
    /// Decrypts secrets in the configuration. `None` if the configuration is empty or the stack has no key.
    pub crypter: Option<Arc<dyn Crypter>>,
    /// Interrupt, logger and mode of the call.
    pub context: CallContext,
}

/// Arguments of a call of [`Provider::check`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CheckRequest {
    /// Address of the resource.
    pub address: Address,
    /// Kind of the resource.
    pub kind: String,
    /// The desired inputs, before validation.
    pub inputs: Properties,
    /// Top-level inputs that are missing because their values aren't known yet.
    pub unknown: BTreeSet<String>,
    /// The recorded inputs of the object. `None` if the stack manages no object of this resource.
    pub old_inputs: Option<Properties>,
    /// Interrupt, logger and mode of the call.
    pub context: CallContext,
}

/// The result of validating inputs: the inputs with defaults, and the object's future id.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckedInputs {
    /// The inputs with defaults filled in.
    pub inputs: Properties,
    /// The id that an object with these inputs will have, if the provider can derive it. With this id, the engine
    /// reports two resources that declare the same object before it creates the second of them, in previews too.
    pub id: Option<String>,
}

impl CheckedInputs {
    /// Accepts inputs without a derived id.
    pub const fn new(inputs: Properties) -> Self {
        Self { inputs, id: None }
    }

    /// Sets the id that the object will have.
    #[must_use]
    pub fn with_id(self, id: Option<String>) -> Self {
        Self { id, ..self }
    }
}

/// Arguments of a call of [`Provider::diff`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DiffRequest {
    /// Address of the resource.
    pub address: Address,
    /// Kind of the resource.
    pub kind: String,
    /// Id of the object. `None` if no id is recorded.
    pub id: Option<String>,
    /// The recorded inputs: those of the last create or update, or those that a later read found.
    pub old_inputs: Properties,
    /// The recorded outputs of the object.
    pub old_outputs: Properties,
    /// The desired inputs, after `check`.
    pub inputs: Properties,
    /// Top-level inputs that are missing because their values aren't known yet. Their final values may differ from the
    /// recorded values.
    pub unknown: BTreeSet<String>,
    /// Interrupt, logger and mode of the call.
    pub context: CallContext,
}

/// The difference between the recorded object and the desired inputs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Diff {
    /// Top-level inputs or outputs that have to change. Empty if the object matches the inputs.
    pub changed: BTreeSet<String>,
    /// The names in `changed` that can't be updated in place and force a replacement.
    pub replace: BTreeSet<String>,
    /// Whether a replacement must delete the old object first, because both can't exist at once.
    pub delete_before_replace: bool,
    /// Outputs that an update in place will change, for previews. If `None`, a preview uses the names in `changed`
    /// instead.
    pub changed_outputs: Option<BTreeSet<String>>,
}

impl Diff {
    /// A diff without changes.
    pub fn none() -> Self {
        Self::default()
    }

    /// A diff with changes that an update in place can make.
    pub fn changed<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Self {
        Self {
            changed: names.into_iter().map(Into::into).collect(),
            ..Self::default()
        }
    }

    /// The top-level names whose values differ between two sets of inputs. Most providers need no other comparison.
    pub fn of_inputs(old: &Properties, new: &Properties) -> BTreeSet<String> {
        let (old, new) = (members(old), members(new));
        let names = old.keys().chain(new.keys());
        let changed = names.filter(|name| old.get(*name) != new.get(*name));
        changed.cloned().collect()
    }
}

/// Arguments of a call of [`Provider::create`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CreateRequest {
    /// Address of the resource.
    pub address: Address,
    /// Kind of the resource.
    pub kind: String,
    /// The desired inputs, after `check`.
    pub inputs: Properties,
    /// Id of this create. A provider should tag the object with this id if possible: when the outcome of the call
    /// is unknown, [`Provider::read`] gets the same id.
    pub mutation: MutationId,
    /// Interrupt, logger and mode of the call.
    pub context: CallContext,
}

/// Arguments of a call of [`Provider::read`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReadRequest {
    /// Key of the entry.
    pub key: EntryKey,
    /// Kind of the resource.
    pub kind: String,
    /// Id of the object. `None` if the request asks whether an earlier create made an object from these inputs.
    pub id: Option<String>,
    /// The recorded inputs of the object. If no object is recorded yet, they are the inputs of the pending create that
    /// is being settled, or else the desired inputs.
    pub inputs: Properties,
    /// The recorded outputs of the object; empty before an object is recorded.
    pub outputs: Properties,
    /// Ids of the objects that other entries already manage. Set only while a pending create is settled. The read must
    /// not return an object with one of these ids, or two entries would manage the same object.
    pub others: BTreeSet<String>,
    /// The pending create that is being settled, if any.
    pub mutation: Option<MutationId>,
    /// Interrupt, logger and mode of the call.
    pub context: CallContext,
}

/// Arguments of a call of [`Provider::update`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct UpdateRequest {
    /// Address of the resource.
    pub address: Address,
    /// Kind of the resource.
    pub kind: String,
    /// Id of the object. `None` if no id is recorded.
    pub id: Option<String>,
    /// The recorded inputs: those of the last create or update, or those that a later read found.
    pub old_inputs: Properties,
    /// The recorded outputs of the object.
    pub old_outputs: Properties,
    /// The desired inputs, after `check`.
    pub inputs: Properties,
    /// Id of this mutation.
    pub mutation: MutationId,
    /// Interrupt, logger and mode of the call.
    pub context: CallContext,
}

/// Arguments of a call of [`Provider::delete`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DeleteRequest {
    /// Key of the entry.
    pub key: EntryKey,
    /// Kind of the resource.
    pub kind: String,
    /// Id of the object. `None` if no id is recorded.
    pub id: Option<String>,
    /// The recorded inputs of the object.
    pub inputs: Properties,
    /// The recorded outputs of the object.
    pub outputs: Properties,
    /// Id of this mutation.
    pub mutation: MutationId,
    /// Interrupt, logger and mode of the call.
    pub context: CallContext,
}

/// A real resource, as its provider describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Object {
    /// Id that the provider gave to the object; never empty.
    pub id: String,
    /// Outputs of the object.
    pub outputs: Properties,
    /// The secret outputs: names, or JSON pointers.
    pub sensitive_outputs: Vec<String>,
    /// In the result of a read: the inputs that would create the object in its current condition, so that the next plan
    /// shows drift. `None` leaves the recorded inputs unchanged. In the results of creates and updates, the engine
    /// ignores this field.
    pub inputs: Option<Properties>,
}

impl Object {
    /// Creates an object without secret outputs.
    pub fn new(id: impl Into<String>, outputs: Properties) -> Self {
        Self {
            id: id.into(),
            outputs,
            sensitive_outputs: Vec::new(),
            inputs: None,
        }
    }
}

/// Result of a call of [`Provider::read`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadResult {
    /// The object exists and has these properties.
    Object(Object),
    /// The object doesn't exist.
    Missing,
    /// The provider can't determine whether the object exists, for example because the request has no id. A pending
    /// operation then stays pending until the user decides.
    Indeterminate,
}

/// The failure of a provider call: its reasons, and the effect of the call. Reasons are stored and shown, so they must
/// not contain secrets. The engine hides a reason that contains a value which is marked as secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The call changed nothing, with certainty.
    #[error("{}", .0.join("; "))]
    NotDone(Vec<String>),
    /// The object exists but doesn't match the request.
    #[error("{}", .reasons.join("; "))]
    Partial {
        /// The object as it is after the failed call.
        object: Box<Object>,
        /// The reasons, as text for the user.
        reasons: Vec<String>,
    },
    /// The effect of the call is unknown. The intent stays recorded as pending, and the next run asks
    /// [`Provider::read`] for the outcome.
    #[error("{} (outcome unknown)", .0.join("; "))]
    Unknown(Vec<String>),
}

impl Failure {
    /// Creates a failure of a call that changed nothing.
    pub fn not_done(reason: impl Into<String>) -> Self {
        Self::NotDone(vec![reason.into()])
    }

    /// Creates a failure that left an object which doesn't match the request.
    pub fn partial(object: Object, reason: impl Into<String>) -> Self {
        Self::Partial {
            object: Box::new(object),
            reasons: vec![reason.into()],
        }
    }

    /// Creates a failure with an unknown effect.
    pub fn unknown(reason: impl Into<String>) -> Self {
        Self::Unknown(vec![reason.into()])
    }

    /// The reasons, as text for the user.
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
