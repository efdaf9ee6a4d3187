//! Sources of registrations: programs and refreshes.
//!
//! The engine asks a source for the next ready resource. If none is ready, the engine asks again when a resource was
//! committed or failed. A source can't declare a resource ready by itself: it asks the [`Ledger`], which returns a
//! [`Registration`] or the missing dependency.

mod list;

pub use list::{DeclaredResource, ListSource};

use crate::call::CallError;
use crate::error::Result;
use crate::goal::Goal;
use crate::ledger::{Ledger, Registration};
use crate::provider::ReadResult;
use async_trait::async_trait;
use state_core::mutation::StackOutputs;
use state_core::{Address, SharedEntry};
use std::collections::BTreeSet;

/// The next item of a source.
#[derive(Debug)]
#[non_exhaustive]
pub enum Next {
    /// A resource that is ready to execute.
    Ready(Box<Registration>),
    /// The result of reading an entry's object. The engine records the result and executes no step.
    Refreshed(Box<RefreshedResource>),
    /// A resource that can't be executed, because a dependency failed, was skipped or doesn't exist. Its recorded
    /// object isn't deleted.
    Blocked {
        /// Address of the resource.
        address: Address,
        /// The reason, as text for the user.
        reason: String,
    },
    /// No resource is ready until another one is committed or fails.
    Wait,
    /// The source has no more resources.
    End,
}

/// An entry and the result of reading its object.
#[derive(Debug)]
pub struct RefreshedResource {
    entry: SharedEntry,
    found: Result<ReadResult, CallError>,
}

impl RefreshedResource {
    pub(crate) const fn new(entry: SharedEntry, found: Result<ReadResult, CallError>) -> Self {
        Self { entry, found }
    }

    /// Returns the entry as it was recorded before the read.
    pub const fn entry(&self) -> &SharedEntry {
        &self.entry
    }

    pub(crate) fn into_parts(self) -> (SharedEntry, Result<ReadResult, CallError>) {
        (self.entry, self.found)
    }
}

/// The stack outputs that a source computed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SourceOutputs {
    /// All outputs of the stack.
    pub outputs: StackOutputs,
    /// Names of the outputs whose new values aren't known: they are only planned, or a resource that they use failed.
    /// `outputs` contains the values that these outputs had before the run.
    pub unknown: BTreeSet<String>,
}

/// Outputs whose values are all known.
impl From<StackOutputs> for SourceOutputs {
    fn from(outputs: StackOutputs) -> Self {
        let unknown = BTreeSet::new();
        Self { outputs, unknown }
    }
}

/// Yields registrations that are ready to execute.
///
/// The engine reads a source to its end twice: for the plan, and after [`Source::restart`] for the run. The run uses a
/// new ledger, in which more outputs are known.
#[async_trait]
pub trait Source: Send {
    /// Returns the next item. After `Ready`, `Refreshed` and `Blocked`, the engine calls this method again. After
    /// `Wait`, it does so when a resource was committed or failed. After `End`, it makes no further call.
    ///
    /// # Errors
    /// Returns an error of the program. No new step begins then, and nothing is deleted.
    async fn next(&mut self, ledger: &Ledger) -> Result<Next>;

    /// Returns the stack outputs, or `None` to keep the recorded outputs. The engine calls this method once for the
    /// plan and once for the run, each time after all steps.
    ///
    /// # Errors
    /// Returns an error of the program.
    async fn outputs(&mut self, _ledger: &Ledger) -> Result<Option<SourceOutputs>> {
        Ok(None)
    }

    /// The resources whose inputs are known before the run, at least in part: [`Goal::unknown`] names the others. The
    /// program declares the commands that these inputs determine, so the engine allows them before it reads recorded
    /// objects (see [`CommandApprovals`](crate::CommandApprovals)).
    fn known_goals(&self) -> Vec<&Goal> {
        Vec::new()
    }

    /// Restarts the source. The next call of [`Source::next`] must return the first item again, and gets a new ledger.
    fn restart(&mut self);
}
