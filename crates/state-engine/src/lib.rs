//! Update, preview, refresh and destroy through the snapshot manager.
//!
//! ```text
//!  Source ──Registration──► plan (pure) ──Step──► intent durable ──► Provider ──► result durable ──► Committed
//!    ▲                                                                                                   │
//!    └──────────────────────────────── Ledger: what may be registered now ◄──────────────────────────────┘
//! ```
//!
//! - [`Engine`]: over targets and snapshots (seed 000), which `state-manager` implements.
//! - [`Source`]: a program, asked for what is ready. [`ListSource`] is one for a list of [`Goal`]s; [`RefreshSource`]
//!   reads what is recorded.
//! - [`Ledger`], [`Registration`], [`Committed`]: nothing begins before what it needs is durable, and nothing is reported
//!   before it is; both are said in types.
//! - [`Provider`] and [`Registry`]: what touches the world, by kind of resource.
//! - `builtin` (feature of that name): providers of files, folders, commands and random values.
//! - `program` (feature of that name): a source out of a YAML or JSON document.
//! - [`Run`]: what a run is given; [`Report`]: how it ended; [`Observer`]: hears of it while it goes on.
//!
//! # What a run does
//! 1. It locks the stack and asks the providers what became of the operations that are pending ([`settle`]). What nobody
//!    can tell stays pending; it is told, and its entries aren't touched.
//! 2. With [`RunOptions::refresh`], and in a refresh, it reads every object and records what it found.
//! 3. It asks the source for what is ready, plans and executes it, in parallel in the order of the dependencies.
//! 4. It deletes what isn't wanted any more and what was replaced, in reverse order.
//! 5. It ends the update: one revision, whatever happened.
//!
//! A preview does the same on a copy of the state: nothing is written, and of the providers only `configure`, `check`,
//! `diff` and `read` are called.
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
mod options;
mod plan;
#[cfg(feature = "program")]
pub mod program;
pub mod provider;
mod record;
mod registry;
mod report;
pub mod settle;
mod source;
mod step;

pub use engine::{Engine, Operation, Run, StepwiseSnapshots};
pub use error::{EngineError, Result};
pub use event::{Event, Observer};
pub use goal::{Goal, GoalOptions};
pub use interrupt::Interrupt;
pub use ledger::{Committed, Ledger, Registration, Standing, Unknown};
pub use log::Logger;
pub use options::{RunOptions, UpdateMetadata};
pub use provider::{Failure, Provider};
pub use registry::Registry;
pub use report::{Report, StepFailure};
pub use source::{Declared, ListSource, Next, RefreshSource, Refreshed, Source, SourceOutputs};
pub use state_core;
pub use state_manager;
pub use step::{Step, StepOp};
