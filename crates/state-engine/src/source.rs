//! Where registrations come from.
//!
//! A source is asked for what is ready, and asked again whenever something was committed. It never says that something
//! is ready: it asks the [`Ledger`], and gets a [`Registration`] or hears what is missing.

mod list;

pub use list::{Declared, ListSource};

use crate::call::CallError;
use crate::error::Result;
use crate::ledger::{Ledger, Registration};
use crate::provider::Found;
use async_trait::async_trait;
use state_core::mutation::StackOutputs;
use state_core::{Address, SharedEntry};
use std::collections::BTreeSet;

/// What a source has to say.
#[derive(Debug)]
#[non_exhaustive]
pub enum Next {
    /// This is ready to execute.
    Ready(Box<Registration>),
    /// The world as it is, for an entry: recorded, never executed.
    Refreshed(Box<Refreshed>),
    /// This is wanted, but what it needs failed, is skipped or isn't there. It is not deleted.
    Blocked {
        /// The resource.
        address: Address,
        /// Why.
        reason: String,
    },
    /// Nothing before something more is committed.
    Wait,
    /// Nothing more.
    End,
}

/// What was found of an entry's object.
#[derive(Debug)]
pub struct Refreshed {
    entry: SharedEntry,
    found: Result<Found, CallError>,
}

impl Refreshed {
    pub(crate) const fn new(entry: SharedEntry, found: Result<Found, CallError>) -> Self {
        Self { entry, found }
    }

    /// The entry, as it was recorded before.
    pub const fn entry(&self) -> &SharedEntry {
        &self.entry
    }

    pub(crate) fn into_parts(self) -> (SharedEntry, Result<Found, CallError>) {
        (self.entry, self.found)
    }
}

/// The stack's own outputs, as a source has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SourceOutputs {
    /// All of them.
    pub outputs: StackOutputs,
    /// Those whose values nobody knows, because what they are made of isn't done: they stand there as they were.
    pub unknown: BTreeSet<String>,
}

/// All are known.
impl From<StackOutputs> for SourceOutputs {
    fn from(outputs: StackOutputs) -> Self {
        let unknown = BTreeSet::new();
        Self { outputs, unknown }
    }
}

/// Yields registrations that are ready to execute.
///
/// The engine asks twice: once for the plan, and after [`Source::restart`] once more for the run. Then the ledger is
/// another one, in which outputs are known that weren't before.
#[async_trait]
pub trait Source: Send {
    /// What is ready. Called again after `Ready`, `Refreshed` and `Blocked`, and after `Wait` when something was
    /// committed or failed; not after `End`.
    ///
    /// # Errors
    /// What is wrong with the program. No new step begins then, and nothing is deleted.
    async fn next(&mut self, ledger: &Ledger) -> Result<Next>;

    /// The stack's own outputs, asked for when every resource is committed; none: they stay as they are.
    ///
    /// # Errors
    /// What is wrong with the program.
    async fn outputs(&mut self, _ledger: &Ledger) -> Result<Option<SourceOutputs>> {
        Ok(None)
    }

    /// Begins again: the next call of [`Source::next`] is the first one with a new ledger.
    fn restart(&mut self);
}
