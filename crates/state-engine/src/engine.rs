//! The engine: settles pending operations, plans runs and applies plans.

use crate::approval::{CommandCall, UnapprovedCommand};
use crate::call::{Answers, Caller, Preparations};
use crate::deployment::Deployment;
use crate::error::{EngineError, Result};
use crate::log::{LogBuffer, Logger};
use crate::plan::{Basis, Plan};
use crate::record::Recorder;
use crate::report::Report;
use crate::run::{Operation, Run};
use crate::settle::{self, Settling};
use crate::source::Source;
use async_trait::async_trait;
use state_core::sensitive::SecretStrings;
use state_core::target::{SnapshotProvider, TargetProvider};
use state_core::{Address, Error, PendingOperation, StackName, State, UpdateResult};
use state_manager::{Environment, Session, Stacks, UpdateRequest};
use std::sync::Arc;

/// Runs operations on stacks.
///
/// An interactive tool takes the lock and calls the phases one by one, so that it can ask the user for confirmation
/// before [`Engine::apply`]. [`Engine::run`] executes all phases without a question:
///
/// ```text
///  lock ──► settle ──► plan ──► (show, confirm) ──► apply ──► close
///             │          │                            │
///             │          └ writes nothing             └ one update, one revision
///             └ asks providers about pending operations
/// ```
#[derive(Clone, Debug)]
pub struct Engine {
    /// Finds stacks by their names.
    pub targets: Arc<dyn TargetProvider>,
    /// Takes locks and records mutations.
    pub snapshots: Arc<dyn StepwiseSnapshots>,
    /// Clock, random numbers and the identity of this process.
    pub environment: Environment,
}

/// A snapshot provider that records each step of a run as a separate mutation.
/// [`SnapshotProvider::begin_mutation`] records only a run as a whole.
#[async_trait]
pub trait StepwiseSnapshots: SnapshotProvider {
    /// Takes the stack's lock. The returned session records the begin and the end of every step. `operation` names the
    /// purpose of the lock for other users.
    ///
    /// # Errors
    /// `NotFound` when the stack doesn't exist; `Locked` when another session holds the lock.
    async fn lock(&self, name: &StackName, operation: &str) -> Result<Session, Error>;
}

#[async_trait]
impl StepwiseSnapshots for Stacks {
    async fn lock(&self, name: &StackName, operation: &str) -> Result<Session, Error> {
        match self.get(name).await? {
            Some(stack) => stack.lock(operation).await,
            None => Err(Error::not_found(format!("stack {}", name.short()))),
        }
    }
}

impl Engine {
    /// Creates an engine for the stacks of a store.
    pub fn new(stacks: Stacks, environment: Environment) -> Self {
        let stacks = Arc::new(stacks);
        Self {
            targets: stacks.clone(),
            snapshots: stacks,
            environment,
        }
    }

    /// Locks the stack, settles pending operations, plans, applies the plan and releases the lock.
    ///
    /// If the plan needs a command that isn't approved ([`Run::approvals`]), the plan isn't applied. The returned
    /// report is then the report of the plan: it has no revision, although its result may be a success. Derived commands
    /// of creates and updates ([`Report::derived_commands`]) run without a question.
    ///
    /// # Errors
    /// Fails if the run can't begin: `State` if the stack doesn't exist or is locked, or the store fails; `Options` if
    /// the options don't match the state. Also `State` if no error stopped the run but the lock can't be released.
    /// Failures after the begin are in the report.
    pub async fn run(&self, name: &StackName, operation: Operation, run: Run) -> Result<Report> {
        let session = self.snapshots.lock(name, "engine").await?;
        let report = self.run_locked(&session, operation, run).await;
        // The lock is released even if the run failed. An error of the release must not hide the error that
        // stopped the run.
        let closed = session.close().await;
        let report = report?;
        match (&report.stopped_by, closed) {
            (None, Err(error)) => Err(error.into()),
            _ => Ok(report),
        }
    }

    async fn run_locked(&self, session: &Session, operation: Operation, mut run: Run) -> Result<Report> {
        if let Operation::Update(source) = &operation {
            self.declare(&run, &**source);
        }
        if run.settled.is_none() {
            run.settled = Some(self.settle(session, &run).await?);
        }
        let plan = self.planned(Basis::locked(session), operation, run).await?;
        // A plan that stopped, or that needs an approval, isn't applied.
        match plan.report.stopped_by.is_some() || !plan.run.approvals.is_complete() {
            true => Ok(plan.report),
            false => self.apply(session, plan).await,
        }
    }

    /// Asks the providers for the outcomes of operations that an earlier run left pending, and records the outcomes.
    /// The caller passes the result to the next plan in [`Run::settled`].
    ///
    /// # Errors
    /// `State` if the store fails or the lock is lost.
    pub async fn settle(&self, session: &Session, run: &Run) -> Result<Settling> {
        let preparations = Preparations::default();
        let buffer = Arc::new(LogBuffer::new(Arc::clone(&run.observer)));
        let logger = Logger::new(Arc::clone(&self.environment.clock), buffer.clone(), None);
        let caller = Caller {
            lock: Some(session.clone()),
            preparations: preparations.clone(),
            ..self.caller(session.stack().name(), run, logger)
        };
        settle::settle(&caller, session, &run.decisions, &*buffer).await?;
        Ok(Settling {
            lines: buffer.take(),
            preparations,
        })
    }

    /// Decides which steps a run will execute. Planning writes nothing and calls only `configure`, `check`, `diff` and
    /// `read` of the providers.
    ///
    /// # Errors
    /// `Options` if the options don't match the state. `State` if the state's secrets can't be decrypted, the lock is
    /// lost, or the store fails. Errors in the program or its resources are in the plan's report.
    pub async fn plan(&self, basis: Basis, operation: Operation, run: Run) -> Result<Plan> {
        let mut plan = self.planned(basis, operation, run).await?;
        match plan.report.stopped_by.take() {
            Some(error) => Err(error.into()),
            None => Ok(plan),
        }
    }

    /// Allows the commands that a program declares (see [`CommandApprovals`](crate::CommandApprovals)), as far as the
    /// inputs of its resources are known before the run. [`Engine::plan`] calls this method for an update. A caller
    /// that has a program must call it before [`Engine::settle`], and before it refreshes or destroys the stack:
    /// otherwise these phases refuse the commands of the program, too.
    pub fn declare(&self, run: &Run, source: &dyn Source) {
        for goal in source.known_goals() {
            let commands = run.registry.program_commands(goal);
            run.approvals.declare(&goal.address, &commands);
        }
    }

    /// Returns the unapproved commands of all entries and pending operations in the state, and adds them to the refused
    /// commands of the run. A tool can then ask the user about all of them before the run.
    ///
    /// # Errors
    /// `State` if the state's secrets can't be decrypted.
    pub async fn unapproved_commands(&self, basis: Basis, run: &Run) -> Result<Vec<UnapprovedCommand>> {
        let state = basis.open(self.environment.clock.now()).await?;
        let pending = state.pending().flat_map(PendingOperation::entries);
        let mut found = Vec::new();
        for entry in state.entries().chain(pending) {
            let kind = entry.kind.as_deref().unwrap_or_default();
            let inputs = entry.inputs.clone().unwrap_or_default();
            let secrets = SecretStrings::of_entry(entry);
            let commands = run.registry.all_commands(kind, entry.id.as_deref(), &inputs);
            let refused = run
                .approvals
                .refuse(&entry.key(), commands, &secrets, CommandCall::Read);
            found.extend(refused);
        }
        Ok(found)
    }

    async fn planned(&self, basis: Basis, mut operation: Operation, run: Run) -> Result<Plan> {
        refuse_unknown_targets(&operation, &run, basis.state())?;
        let settled = run.settled.as_ref();
        let preparations = settled
            .map(|settled| settled.preparations.clone())
            .unwrap_or_default();
        if let Operation::Update(source) = &operation {
            self.declare(&run, &**source);
        }
        let state = basis.open(self.environment.clock.now()).await?;
        let recorder = Recorder::draft(state, &self.environment)?;
        let no_observer = Arc::new(|_: &crate::event::Event| {});
        let logger = Logger::new(Arc::clone(&self.environment.clock), no_observer.clone(), None);
        let caller = Caller {
            planning: true,
            lock: basis.session.clone(),
            preparations: preparations.clone(),
            ..self.caller(basis.stack.name(), &run, logger)
        };
        let answers = Arc::clone(&caller.answers);
        let foreseen = match basis.session.is_none() && run.options.foresee_settling {
            true => settle::foresee(&caller, &recorder, &run.decisions).await?,
            false => Vec::new(),
        };
        let deployment = Deployment::new(recorder, caller, &run.options, no_observer);
        let mut report = deployment.deploy(&mut operation).await;
        report.foreseen = foreseen;
        if let Operation::Update(source) = &mut operation {
            source.restart();
        }
        Ok(Plan {
            basis,
            operation,
            run,
            preparations,
            answers,
            report,
        })
    }

    /// Executes a plan as one update of the stack, under the lock that the caller holds. The lock stays held.
    ///
    /// # Errors
    /// `State`: of the kind `Conflict` if the stack changed after the plan was made, or of another kind if the update
    /// can't begin. Failures after the begin are in the report.
    pub async fn apply(&self, session: &Session, plan: Plan) -> Result<Report> {
        // Steps that were planned against an older state could overwrite or delete changes of another run.
        plan.basis.check(session)?;
        let Plan {
            mut operation,
            run,
            preparations,
            answers,
            ..
        } = plan;
        let request = UpdateRequest {
            kind: operation.kind(),
            program: run.metadata.program.clone(),
            message: run.metadata.message.clone(),
            environment: run.metadata.environment.clone(),
            forced: false,
        };
        let update = session.start_update(request).await?;
        // Settling happens before the update is open, so its log lines were buffered and are stored now.
        for line in run.settled.iter().flat_map(|settled| &settled.lines) {
            update.log(line);
        }
        let recorder = Recorder::Durable {
            session: Box::new(session.clone()),
            update: Box::new(update.clone()),
        };
        let clock = Arc::clone(&self.environment.clock);
        let logger = Logger::new(clock, Arc::clone(&run.observer), Some(update.clone()));
        let caller = Caller {
            lock: Some(session.clone()),
            preparations,
            answers,
            ..self.caller(session.stack().name(), &run, logger)
        };
        let deployment = Deployment::new(recorder, caller, &run.options, Arc::clone(&run.observer));
        let mut report = deployment.deploy(&mut operation).await;
        if report.stopped_by.is_none() {
            match update.finish(report.result).await {
                Ok(revision) => report.revision = Some(revision),
                Err(error) => {
                    report.result = UpdateResult::Failed;
                    report.stopped_by = Some(error);
                }
            }
        }
        Ok(report)
    }

    /// Creates a [`Caller`] without a lock, configured providers and cached answers.
    fn caller(&self, stack: &StackName, run: &Run, logger: Logger) -> Caller {
        Caller {
            registry: run.registry.clone(),
            approvals: run.approvals.clone(),
            interrupt: run.interrupt.clone(),
            clock: Arc::clone(&self.environment.clock),
            logger,
            timeout: run.options.timeout,
            planning: false,
            stack: stack.clone(),
            targets: Arc::clone(&self.targets),
            lock: None,
            preparations: Preparations::default(),
            answers: Arc::new(Answers::default()),
        }
    }
}

/// For a refresh or a destroy, refuses targets and excluded addresses under which nothing is recorded, such as
/// misspelled addresses. An update accepts these addresses because its program may create the resource.
fn refuse_unknown_targets(operation: &Operation, run: &Run, state: &State) -> Result<()> {
    if matches!(operation, Operation::Update(_)) {
        return Ok(());
    }
    let is_recorded = |address: &Address| state.generations(address).next().is_some();
    let mut named = run.options.targets.iter().chain(&run.options.exclude);
    match named.find(|address| !is_recorded(address)) {
        None => Ok(()),
        Some(unknown) => Err(EngineError::Options {
            reason: format!("no resource `{unknown}` in the stack: check --target and --exclude"),
        }),
    }
}
