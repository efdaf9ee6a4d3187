//! What of a run is durable: the only way from a step that was committed to one that may begin.
//!
//! ```text
//!  Goal ──Ledger::register──► Registration ──engine──► intent durable ──► world ──► result durable
//!            ▲                                                                            │
//!            └───────────────────────── Committed ◄──────────────────────────────────────┘
//! ```
//!
//! A [`Registration`] is made by [`Ledger::register`] alone, which wants every dependency of the goal to be in the
//! ledger. What is in the ledger is [`Committed`], and that is made by the recorder alone, out of the acknowledgement
//! of a durable result. So neither a source that sends resources before what they depend on is committed (Pulumi's
//! 1725) nor an engine that reports a step before its result is durable (1726) can be written down:
//!
//! ```compile_fail
//! use state_engine::{Committed, Goal};
//! // A source can't claim that something is committed: the fields are private, and there is no constructor.
//! let claimed = Committed { entry: todo!(), unknown: todo!(), replaced: todo!() };
//! ```
//! ```compile_fail
//! use state_engine::{Goal, Registration};
//! // Nor that a goal is ready.
//! let ready = Registration { goal: Goal::new("a".parse().unwrap(), "file") };
//! ```
//! ```compile_fail
//! use state_engine::Ledger;
//! // Nor can it make a ledger of its own, in which anything stands.
//! let ledger = Ledger::default();
//! ```

use crate::error::{EngineError, Result};
use crate::goal::Goal;
use state_core::mutation::StackOutputs;
use state_core::{Address, EntryKey, Properties, SharedEntry};
use std::collections::{BTreeMap, BTreeSet};

/// An entry whose result is durable. In a preview: whose step was planned.
#[derive(Clone, Debug)]
pub struct Committed {
    entry: SharedEntry,
    unknown: Unknown,
    replaced: bool,
}

/// Which outputs nobody knows yet: only in previews.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unknown {
    /// All are known.
    #[default]
    Nothing,
    /// These aren't.
    Outputs(BTreeSet<String>),
    /// The object isn't there yet.
    Everything,
}

impl Committed {
    /// Only for the recorder, which has the acknowledgement in its hands.
    pub(crate) const fn new(entry: SharedEntry) -> Self {
        Self {
            entry,
            unknown: Unknown::Nothing,
            replaced: false,
        }
    }

    /// The same with outputs that nobody knows yet.
    pub(crate) fn without(self, unknown: Unknown) -> Self {
        Self { unknown, ..self }
    }

    /// The same, of an object that took another one's place.
    pub(crate) fn in_place_of_another(self) -> Self {
        Self {
            replaced: true,
            ..self
        }
    }

    /// The entry as it is recorded.
    pub const fn entry(&self) -> &SharedEntry {
        &self.entry
    }

    /// The provider's name for the object; none if there is none, or nobody knows it yet.
    pub fn id(&self) -> Option<&str> {
        self.entry.id.as_deref()
    }

    /// Its outputs, as far as they are known.
    pub fn outputs(&self) -> Properties {
        self.entry.outputs.clone().unwrap_or_default()
    }

    /// Whether the value of an output is what it will be. Always, but in previews.
    pub fn knows(&self, output: &str) -> bool {
        match &self.unknown {
            Unknown::Nothing => true,
            Unknown::Outputs(names) => !names.contains(output),
            Unknown::Everything => false,
        }
    }

    /// Whether this run replaced the object.
    pub(crate) const fn was_replaced(&self) -> bool {
        self.replaced
    }
}

/// How a resource of a run stands.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ResourceStatus {
    /// Its result is durable.
    Committed(Committed),
    /// It was registered, and isn't done.
    UnderWay,
    /// It failed.
    Failed,
    /// It couldn't be tried, because something that it needs isn't there.
    Skipped,
    /// It isn't a target, and isn't there.
    NotTargeted,
}

/// How the resources of a run stand. Sources read it; only the engine writes to it.
#[derive(Debug)]
pub struct Ledger {
    standings: BTreeMap<Address, ResourceStatus>,
    landed: Vec<Address>,
    refreshed: BTreeSet<EntryKey>,
    outputs: StackOutputs,
}

impl Ledger {
    /// An empty ledger over a stack with these outputs.
    pub(crate) fn new(outputs: StackOutputs) -> Self {
        Self {
            standings: BTreeMap::new(),
            landed: Vec::new(),
            refreshed: BTreeSet::new(),
            outputs,
        }
    }

    /// The stack's own outputs as the run found them, open: those of which nobody knows yet what they will be stay so.
    pub const fn outputs(&self) -> &StackOutputs {
        &self.outputs
    }

    /// How a resource stands; none if it wasn't registered yet.
    pub fn standing(&self, address: &Address) -> Option<&ResourceStatus> {
        self.standings.get(address)
    }

    /// The resources that aren't under way any more, in the order in which they ended, but for the first so many: a source
    /// that counts what it heard of is told only what is new.
    pub fn landed(&self, heard: usize) -> &[Address] {
        self.landed.get(heard..).unwrap_or_default()
    }

    /// A resource that is committed.
    pub fn committed(&self, address: &Address) -> Option<&Committed> {
        match self.standings.get(address) {
            Some(ResourceStatus::Committed(committed)) => Some(committed),
            _ => None,
        }
    }

    /// The first thing that a goal needs and that isn't committed, and how that stands (none: not registered).
    pub fn missing<'g>(&self, goal: &'g Goal) -> Option<(&'g Address, Option<&ResourceStatus>)> {
        let mut needs = goal.needs().into_iter();
        let missing = needs.find(|address| self.committed(address).is_none())?;
        Some((missing, self.standing(missing)))
    }

    /// The goal as a registration, if all that it needs is committed.
    ///
    /// # Errors
    /// `NotReady` if not; `Twice` when its address was registered before.
    pub fn register(&self, goal: Goal) -> Result<Registration> {
        if self.standings.contains_key(&goal.address) {
            return Err(EngineError::Twice {
                address: goal.address,
            });
        }
        if let Some((needs, standing)) = self.missing(&goal) {
            let why = match standing {
                None => "was not registered before it",
                Some(ResourceStatus::UnderWay) => "is not committed yet",
                Some(ResourceStatus::NotTargeted) => "is not a target, and is not there",
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

    pub(crate) fn set(&mut self, address: Address, standing: ResourceStatus) {
        if !matches!(standing, ResourceStatus::UnderWay) {
            self.landed.push(address.clone());
        }
        self.standings.insert(address, standing);
    }

    /// The addresses that were registered or named by the source.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = &Address> {
        self.standings.keys()
    }

    /// Whether what the world says of an entry is on record, or could not be had.
    pub fn is_refreshed(&self, key: &EntryKey) -> bool {
        self.refreshed.contains(key)
    }

    pub(crate) fn set_refreshed(&mut self, key: EntryKey) {
        self.refreshed.insert(key);
    }
}

/// A goal that is ready to execute: all that it needs is durable.
#[derive(Debug)]
pub struct Registration {
    goal: Goal,
}

impl Registration {
    /// What is wanted.
    pub const fn goal(&self) -> &Goal {
        &self.goal
    }

    pub(crate) fn into_goal(self) -> Goal {
        self.goal
    }
}
