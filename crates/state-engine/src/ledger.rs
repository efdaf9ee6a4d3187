//! The ledger of a run: records which results are durable, and releases a goal only when the results of its
//! dependencies are durable.
//!
//! ```text
//!  Goal ──Ledger::register──► Registration ──engine──► intent durable ──► provider ──► result durable
//!            ▲                                                                               │
//!            └───────────────────────── Committed ◄─────────────────────────────────────────┘
//! ```
//!
//! Only [`Ledger::register`] creates a [`Registration`], after it has found every dependency of the goal among the
//! [`CommittedResource`]s of the ledger. Only the engine creates a [`CommittedResource`], after its result was
//! acknowledged as durable. So two mistakes don't compile: a source that yields a resource before its dependencies are
//! committed, and an engine that reports a step before its result is durable:
//!
//! ```compile_fail
//! use state_engine::CommittedResource;
//! // A source can't claim that something is committed: the fields are private, and there is no constructor.
//! fn claim(real: CommittedResource) -> CommittedResource {
//!     CommittedResource { replaced: true, ..real }
//! }
//! ```
//! ```compile_fail
//! use state_engine::{Goal, Registration};
//! // A source can't claim that a goal is ready.
//! let ready = Registration { goal: Goal::new("a".parse().unwrap(), "file") };
//! ```
//! ```compile_fail
//! use state_engine::Ledger;
//! // A source can't create a ledger that claims something to be committed.
//! let ledger = Ledger::default();
//! ```

use crate::error::{EngineError, Result};
use crate::goal::Goal;
use state_core::mutation::StackOutputs;
use state_core::{Address, EntryKey, Properties, SharedEntry};
use std::collections::{BTreeMap, BTreeSet};

/// A resource whose result is durable. In a plan: a resource whose step is planned.
#[derive(Clone, Debug)]
pub struct CommittedResource {
    entry: SharedEntry,
    unknown: UnknownOutputs,
    replaced: bool,
}

/// The outputs of a resource that aren't known yet. Outside of plans, all outputs are known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnknownOutputs {
    /// All outputs are known.
    #[default]
    Nothing,
    /// The named outputs aren't known.
    Outputs(BTreeSet<String>),
    /// No output is known because the object doesn't exist yet.
    Everything,
}

impl CommittedResource {
    /// Creates a committed resource. Must be called only after the entry was acknowledged as durable.
    pub(crate) const fn new(entry: SharedEntry) -> Self {
        Self {
            entry,
            unknown: UnknownOutputs::Nothing,
            replaced: false,
        }
    }

    /// Marks the outputs in `unknown` as not known yet.
    pub(crate) fn with_unknown(self, unknown: UnknownOutputs) -> Self {
        Self { unknown, ..self }
    }

    /// Records that this run created the object as the replacement of another object.
    pub(crate) fn in_place_of_another(self) -> Self {
        Self {
            replaced: true,
            ..self
        }
    }

    /// Returns the entry as it is recorded.
    pub const fn entry(&self) -> &SharedEntry {
        &self.entry
    }

    /// The provider's id of the object. `None` if the object doesn't exist, or if its id isn't known yet.
    pub fn id(&self) -> Option<&str> {
        self.entry.id.as_deref()
    }

    /// The outputs as they are recorded. In a plan, an output that isn't known ([`CommittedResource::is_known`]) is
    /// missing or has its previous value.
    pub fn outputs(&self) -> Properties {
        self.entry.outputs.clone().unwrap_or_default()
    }

    /// Whether the value of an output is final. Always true outside of plans.
    pub fn is_known(&self, output: &str) -> bool {
        match &self.unknown {
            UnknownOutputs::Nothing => true,
            UnknownOutputs::Outputs(names) => !names.contains(output),
            UnknownOutputs::Everything => false,
        }
    }

    /// Whether this run created the object as the replacement of another object.
    pub(crate) const fn was_replaced(&self) -> bool {
        self.replaced
    }
}

/// Status of a resource in a run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ResourceStatus {
    /// The result is durable, or in a plan, the step is planned.
    Committed(CommittedResource),
    /// The resource is registered and its step hasn't ended.
    UnderWay,
    /// The resource failed, before or after its step was planned.
    Failed,
    /// The source reported the resource as blocked, because a dependency isn't available.
    Skipped,
    /// The resource isn't a target of the run, and the stack has no object of it.
    NotTargeted,
}

/// Status of all resources of a run. Sources read the ledger; only the engine writes to it.
#[derive(Debug)]
pub struct Ledger {
    statuses: BTreeMap<Address, ResourceStatus>,
    /// In the order in which the resources ended.
    ended: Vec<Address>,
    /// Entries whose refresh has ended.
    refreshed: BTreeSet<EntryKey>,
    /// The outputs of the stack before the run.
    outputs: StackOutputs,
}

impl Ledger {
    /// Creates an empty ledger for a stack with these outputs.
    pub(crate) fn new(outputs: StackOutputs) -> Self {
        Self {
            statuses: BTreeMap::new(),
            ended: Vec::new(),
            refreshed: BTreeSet::new(),
            outputs,
        }
    }

    /// The decrypted outputs of the stack before the run. If the new value of an output isn't known, a source returns
    /// the value from this map.
    pub const fn outputs(&self) -> &StackOutputs {
        &self.outputs
    }

    /// Status of a resource. `None` if the source hasn't registered it or reported it as blocked yet.
    pub fn status(&self, address: &Address) -> Option<&ResourceStatus> {
        self.statuses.get(address)
    }

    /// Returns the resources that ended (committed, failed, skipped or not targeted) in the order in which they ended,
    /// except the first `skip` of them. A source passes the number of resources that it has processed already, and gets
    /// the resources that ended since.
    pub fn ended(&self, skip: usize) -> &[Address] {
        self.ended.get(skip..).unwrap_or_default()
    }

    /// Returns the resource at an address. `None` if it isn't committed.
    pub fn committed(&self, address: &Address) -> Option<&CommittedResource> {
        match self.statuses.get(address) {
            Some(ResourceStatus::Committed(committed)) => Some(committed),
            _ => None,
        }
    }

    /// Returns the first dependency of a goal that isn't committed, with its status (`None` if the dependency isn't
    /// registered). Returns `None` if all dependencies are committed.
    pub fn missing<'g>(&self, goal: &'g Goal) -> Option<(&'g Address, Option<&ResourceStatus>)> {
        let mut needs = goal.needs().into_iter();
        let missing = needs.find(|address| self.committed(address).is_none())?;
        Some((missing, self.status(missing)))
    }

    /// Turns the goal into a registration if all its dependencies are committed.
    ///
    /// # Errors
    /// `NotReady` if a dependency isn't committed; `AlreadyRegistered` when the address was registered before.
    pub fn register(&self, goal: Goal) -> Result<Registration> {
        if self.statuses.contains_key(&goal.address) {
            return Err(EngineError::AlreadyRegistered {
                address: goal.address,
            });
        }
        if let Some((needs, status)) = self.missing(&goal) {
            let why = match status {
                None => "isn't registered",
                Some(ResourceStatus::UnderWay) => "isn't committed yet",
                Some(ResourceStatus::NotTargeted) => "isn't a target and doesn't exist",
                Some(ResourceStatus::Skipped) => "was skipped",
                Some(ResourceStatus::Failed | ResourceStatus::Committed(_)) => "failed",
            };
            let needs = needs.clone();
            return Err(EngineError::NotReady {
                address: goal.address,
                needs,
                why,
            });
        }
        Ok(Registration { goal })
    }

    pub(crate) fn set(&mut self, address: Address, status: ResourceStatus) {
        if !matches!(status, ResourceStatus::UnderWay) {
            self.ended.push(address.clone());
        }
        self.statuses.insert(address, status);
    }

    /// The addresses that the source registered or reported as blocked.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = &Address> {
        self.statuses.keys()
    }

    /// Whether the refresh of an entry has ended: its result is recorded, or its object could not be read.
    pub fn is_refreshed(&self, key: &EntryKey) -> bool {
        self.refreshed.contains(key)
    }

    pub(crate) fn set_refreshed(&mut self, key: EntryKey) {
        self.refreshed.insert(key);
    }
}

/// A goal that is ready to execute: all its dependencies are durable.
#[derive(Debug)]
pub struct Registration {
    goal: Goal,
}

impl Registration {
    /// Returns the desired state of the resource.
    pub const fn goal(&self) -> &Goal {
        &self.goal
    }

    pub(crate) fn into_goal(self) -> Goal {
        self.goal
    }
}
