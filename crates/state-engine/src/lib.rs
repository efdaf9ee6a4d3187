//! The deployment engine: plans and runs updates, previews, refreshes and destroys of a stack.
//!
//! ```text
//!  Source ──Registration──► plan (pure) ──Step──► intent durable ──► Provider ──► result durable ──► Committed
//!    ▲                                                                                                   │
//!    └──────────────────────────────── Ledger: the committed dependencies ◄──────────────────────────────┘
//! ```
//!
//! - [`Engine`]: the entry point. It works on stacks through the traits that `state-manager` implements.
//! - [`Basis`], [`Plan`]: the recorded state that a plan starts from, and the decided steps. A plan is made once
//!   and then executed.
//! - [`Source`]: a program that yields resources when they are ready. [`ListSource`] yields a list of [`Goal`]s;
//!   [`RefreshSource`] yields the recorded resources.
//! - [`Ledger`], [`Registration`], [`CommittedResource`]: types that enforce two rules at compile time. A step
//!   begins only after its dependencies are durable, and a result is reported only after it is durable.
//! - [`Provider`] and [`Registry`]: create, read, update and delete real resources, selected by kind.
//! - `builtin` (feature of that name): providers of files, directories, commands and random values.
//! - `program` (feature of that name): a source that reads a YAML or JSON document.
//! - [`Run`]: the parameters of a run; [`Report`]: its result; [`Observer`]: receives its events.
//!
//! # From a program to a revision
//! 1. **Settle** ([`Engine::settle`]): under the lock, the engine asks the providers for the outcome of pending
//!    operations ([`settle`]). An operation whose outcome stays unknown stays pending, and the run doesn't change its
//!    resource.
//! 2. **Plan** ([`Engine::plan`]): the engine takes the resources from the [`Source`] and decides their steps on a copy
//!    of the state. It writes nothing and calls only `configure`, `check`, `diff` and `read` of the providers. A
//!    preview ends here, and needs no lock.
//! 3. **Apply** ([`Engine::apply`]): the engine reads the same source again and executes the steps in parallel,
//!    in dependency order. Then it deletes replaced objects and resources that the program no longer contains,
//!    in reverse order. Provider answers of the plan are reused. One apply is one update of the stack and creates one
//!    revision, even if steps fail. It creates no revision if the lock is lost or the store fails.
//!
//! A refresh, and an operation with [`RunOptions::refresh`], begins by reading the recorded objects: the plan asks the
//! providers, and the run records their answers. [`Engine::run`] takes the lock, executes all three phases and releases
//! the lock.
//!
//! # State is untrusted input
//! An attacker who can write to the store could record any command. So a recorded command runs only if the program
//! declares it or the user approved it: [`CommandApprovals`].
//!
//! # What stops a run
//! A failed step (unless [`RunOptions::continue_on_error`] is set), an [`Interrupt`], a lost lock or a failed store
//! stops a run. Steps in flight end, and their results are recorded if the lock is still held. Steps with an unknown
//! outcome stay recorded as pending operations.

mod approval;
#[cfg(feature = "builtin")]
pub mod builtin;
mod call;
mod deployment;
mod engine;
mod error;
mod event;
mod goal;
mod interrupt;
pub mod kind;
mod ledger;
mod log;
mod plan;
mod planner;
#[cfg(feature = "program")]
pub mod program;
pub mod provider;
mod record;
mod registry;
mod report;
mod run;
pub mod settle;
mod source;
mod step;

pub use approval::{CommandApprovals, CommandCall, ResourceCommand, UnapprovedCommand};
pub use deployment::RefreshSource;
pub use engine::{Engine, StepwiseSnapshots};
pub use error::{EngineError, Result};
pub use event::{Event, Observer};
pub use goal::{Goal, GoalOptions};
pub use interrupt::Interrupt;
pub use ledger::{CommittedResource, Ledger, Registration, ResourceStatus, UnknownOutputs};
pub use log::Logger;
pub use plan::{Basis, Plan};
pub use provider::{EarlierWork, Failure, Provider};
pub use registry::Registry;
pub use report::{Report, StepFailure};
pub use run::{Operation, Run, RunOptions, UpdateMetadata};
pub use source::{DeclaredResource, ListSource, Next, RefreshedResource, Source, SourceOutputs};
pub use state_core;
pub use state_manager;
pub use step::{Step, StepOp};
