//! Update, preview, refresh and destroy through the snapshot manager.
//!
//! ```text
//!  Source ──Registration──► plan (pure) ──Step──► intent durable ──► Provider ──► result durable ──► Committed
//!    ▲                                                                                                   │
//!    └──────────────────────────────── Ledger: what may be registered now ◄──────────────────────────────┘
//! ```
//!
//! - [`Engine`]: over targets and snapshots (seed 000), which `state-manager` implements.
//! - [`Basis`], [`Plan`]: what a run will do to one recorded state, decided once, then executed.
//! - [`Source`]: a program, asked for what is ready. [`ListSource`] is one for a list of [`Goal`]s; [`RefreshSource`]
//!   reads what is recorded.
//! - [`Ledger`], [`Registration`], [`Committed`]: nothing begins before what it needs is durable, and nothing is reported
//!   before it is; both are said in types.
//! - [`Provider`] and [`Registry`]: what touches the world, by kind of resource.
//! - `builtin` (feature of that name): providers of files, folders, commands and random values.
//! - `program` (feature of that name): a source out of a YAML or JSON document.
//! - [`Run`]: what a run is given; [`Report`]: how it ended; [`Observer`]: hears of it while it goes on.
//!
//! # From a program to a revision
//! 1. **Settle** ([`Engine::settle`]): under the lock, the providers are asked what became of pending operations
//!    ([`settle`]). An operation whose outcome stays unknown stays pending, and its resource isn't touched.
//! 2. **Plan** ([`Engine::plan`]): the source is driven over a copy of the state. Nothing is written, and of the providers
//!    only `configure`, `check`, `diff` and `read` are called. A preview ends here, and needs no lock.
//! 3. **Apply** ([`Engine::apply`]): the same source is driven again, and the steps are executed, in parallel in the order
//!    of their dependencies; then resources that aren't wanted any more, and replaced objects, are deleted in reverse order.
//!    Answers that the plan got aren't asked for again. It is one update: one revision, whatever happened.
//!
//! With [`RunOptions::refresh`], and in a refresh, plan and run begin by reading every recorded object: the plan asks the
//! providers, the run records what they said. [`Engine::run`] takes the lock, does all three steps and frees the lock.
//!
//! # What stops a run
//! A step that fails (unless [`RunOptions::continue_on_error`]), an [`Interrupt`], a lock that isn't ours any more. Steps in
//! flight end and are committed; those of which nobody knows how they ended stay on record as pending.

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

pub use deployment::RefreshSource;
pub use engine::{Engine, StepwiseSnapshots};
pub use error::{EngineError, Result};
pub use event::{Event, Observer};
pub use goal::{Goal, GoalOptions};
pub use interrupt::Interrupt;
pub use ledger::{Committed, Ledger, Registration, ResourceStatus, Unknown};
pub use log::Logger;
pub use plan::{Basis, Plan};
pub use provider::{Failure, Provider};
pub use registry::Registry;
pub use report::{Report, StepFailure};
pub use run::{Operation, Run, RunOptions, UpdateMetadata};
pub use source::{Declared, ListSource, Next, Refreshed, Source, SourceOutputs};
pub use state_core;
pub use state_manager;
pub use step::{Step, StepOp};
