//! The common procedure of `up`, `refresh` and `destroy`: take the lock, resolve pending operations, plan, show the plan,
//! ask for confirmation, apply the plan. A preview plans without the lock.

use super::document::{self, Document};
use super::flags::Flags;
use super::live::LiveProgress;
use super::outcome::{self, Outcome, Settlement, untouched};
use super::settlements::{self, Settlements};
use super::spool_intake::{self, SpoolIntake};
use super::stack_choice::{self, ProgramName};
use super::tree;
use super::unfinished::UnfinishedWork;
use crate::approvals::{self, Approvals, RememberedSteps};
use crate::context::Context;
use crate::error::CliError;
use crate::origin;
use crate::prompt::interrupted;
use crate::settings::file::here;
use crate::signals::Listener;
use crate::store;
use state_core::{Address, ErrorKind, StackName, State};
use state_engine::settle::{Decisions, Settling};
use state_engine::{Basis, Engine, Interrupt, ListSource, Operation, Plan, Run, UpdateMetadata};
use state_manager::{Session, Stack, Stacks};
use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

/// How long an interrupted command waits for a lock request that is already in flight.
const GRACE: Duration = Duration::from_secs(1);

/// The goal of a run. The program of a refresh or destroy only declares commands that may run.
#[derive(Clone, Copy)]
pub(super) enum Goal<'a> {
    Update(&'a Document),
    Refresh(Option<&'a Document>),
    Destroy(Option<&'a Document>),
}

impl<'a> Goal<'a> {
    /// The program of the run.
    pub(super) const fn document(self) -> Option<&'a Document> {
        match self {
            Self::Update(document) => Some(document),
            Self::Refresh(declaring) | Self::Destroy(declaring) => declaring,
        }
    }
}

/// A run of `up`, `refresh` or `destroy`.
pub(super) struct Deploy<'a> {
    context: &'a Context,
    flags: &'a Flags<'a>,
    goal: Goal<'a>,
    /// The program of the run; for `refresh` and `destroy` the one in the current folder, if there is one.
    pub(super) program: Option<ProgramName>,
    stacks: Stacks,
    engine: Engine,
    interrupt: Interrupt,
    /// The plan that the user confirmed before the stack was created.
    confirmed: Option<Outcome>,
    /// Listens for signals. Set before the first plan of a new stack, and again before the lock is taken.
    listener: Option<Listener>,
}

impl<'a> Deploy<'a> {
    pub(super) fn new(context: &'a Context, flags: &'a Flags<'a>, goal: Goal<'a>, stacks: Stacks) -> Self {
        Self {
            context,
            flags,
            goal,
            program: goal.document().map(Document::name),
            engine: Engine::new(stacks.clone(), context.environment.clone()),
            stacks,
            interrupt: Interrupt::new(),
            confirmed: None,
            listener: None,
        }
    }

    /// Shows the plan for a stack that doesn't exist yet and asks for confirmation, so that nothing is created if the user
    /// refuses. Returns the outcome if planning fails.
    pub(super) async fn ask(&mut self, stack: &Stack) -> Result<Option<Outcome>, CliError> {
        self.listener = Some(Listener::start(&self.interrupt, |_| {})?);
        let mut seen = self.plan_unlocked(stack, true).await?;
        let (object, untouched) = (object(stack.name()), untouched(&[]));
        if self.interrupt.is_stopping() {
            return Err(interrupted(&object, untouched));
        }
        if !seen.succeeded() {
            seen.finish_unapplied(None, Vec::new());
            return Ok(Some(seen));
        }
        if seen.changed {
            self.confirm(&object, &seen, untouched).await?;
            self.confirmed = Some(seen);
        }
        Ok(None)
    }

    /// Continues with the store that contains the stack now. If the stack already `existed`, the earlier confirmation is
    /// dropped: it was for an empty stack, and another client has created this one since.
    pub(super) fn retarget(&mut self, stacks: Stacks, existed: bool) {
        self.engine = Engine::new(stacks.clone(), self.context.environment.clone());
        self.stacks = stacks;
        self.confirmed.take_if(|_| existed);
    }

    /// Plans against the recorded state, without a lock and without writing anything.
    pub(super) async fn preview(&self, stack: &Stack) -> Result<Outcome, CliError> {
        let _listener = Listener::start(&self.interrupt, |_| {})?;
        self.plan_unlocked(stack, false).await
    }

    /// Plans without the lock. If a question about the plan follows (`asks`), the user is also asked about commands that
    /// aren't approved.
    async fn plan_unlocked(&self, stack: &Stack, asks: bool) -> Result<Outcome, CliError> {
        let name = stack.name();
        // The lock status is read before the state: a holder that ends between the two reads may have begun operations that
        // the state shows as pending, and must still be reported.
        let holder = stack.lock_holder().await?;
        let basis = Basis::tip(stack).await?;
        self.require_owner(name, basis.state())?;
        let update_open = basis.state().update().is_some();
        self.flags.decisions(basis.state())?;
        // Operations of a run that is active are not to be asked about: their outcome isn't final.
        let is_active = holder.is_some() && update_open;
        let kept = spool_intake::foresee(stack, basis.state());
        let run = |approvals: &Approvals| {
            let mut run = self.run(approvals)?;
            run.options.foresee_settling = !is_active;
            run.decisions.by_id.extend(kept.left.clone());
            Ok::<_, CliError>(run)
        };
        let approvals = Approvals::of_stack(&self.context.store, &self.stacks, stack.lineage())?;
        if self.is_found() && !(asks && self.context.prompt.yes) {
            approvals.of_run.withhold_reads();
        }
        let mut plan = self.plan(basis, run(&approvals)?).await?;
        while asks && self.approve(&object(name), &approvals, untouched(&[])).await? {
            plan = self.plan(Basis::tip(stack).await?, run(&approvals)?).await?;
        }
        let refused = approvals.of_run.refused();
        if !refused.is_empty() && !plan.report().succeeded() {
            return Err(approvals::refusal(&object(name), &refused, untouched(&[])));
        }
        let mut seen = Outcome::planned(self.context, name, plan.report());
        seen.warnings.extend(kept.warnings);
        if let Some(holder) = holder {
            seen.note_holder(&holder, update_open);
        }
        if !refused.is_empty() {
            let error = approvals::refusal(&object(name), &refused, "nothing was run");
            seen.warnings.push(error.message);
        }
        if self.flags.answers_something() {
            let warning = "a preview resolves no pending operations: `--clear-pending` and `--import-pending` have no effect";
            seen.warnings.push(warning.to_owned());
        }
        Ok(seen)
    }

    /// Takes the lock, then plans, asks for confirmation and applies the plan.
    pub(super) async fn run_locked(mut self, stack: &Stack) -> Result<Outcome, CliError> {
        let live = Arc::new(LiveProgress::start(self.context));
        let display = Arc::clone(&live);
        // Listen before the lock is taken: from then on, a signal must not end the process without releasing the lock.
        // The assignment drops the earlier listener only after the new one is installed, so that no signal is lost.
        self.listener = Some(Listener::start(&self.interrupt, move |text| display.say(text))?);
        let session = self.lock(stack).await?;
        let work = async |session: &Session| self.perform(session, &live).await;
        let (mut done, warnings) = store::run_and_close(session, work).await?;
        done.warnings.extend(warnings);
        Ok(done)
    }

    /// Takes the lock. An interrupt ends the wait for another holder. A lock request in flight may still succeed in the
    /// store. The command therefore waits [`GRACE`] for its answer: otherwise, a dead process could hold the lock.
    async fn lock(&self, stack: &Stack) -> Result<Session, CliError> {
        let mut taking = pin!(self.context.store.lock(stack, self.flags.command));
        tokio::select! {
            biased;
            taken = &mut taking => return Ok(taken?),
            () = self.interrupt.stopping() => {}
        }
        let object = object(stack.name());
        tokio::select! {
            biased;
            taken = &mut taking => {
                if let Ok(session) = taken && let Some(warning) = store::close(session).await? {
                    return Err(interrupted(&object, &warning));
                }
            }
            () = self.context.environment.clock.sleep(GRACE) => {}
        }
        Err(interrupted(&object, untouched(&[])))
    }

    async fn perform(&self, session: &Session, live: &Arc<LiveProgress>) -> Result<Outcome, CliError> {
        // Before pending operations are resolved: that asks providers and writes to the stack.
        self.require_owner(session.stack().name(), &session.state())?;
        let heard = Arc::new(Settlements::new(Arc::clone(live)));
        let approvals = Approvals::of_stack(&self.context.store, &self.stacks, session.stack().lineage())?;
        let approvals = Arc::new(approvals);
        // `--yes`, or a plan that was confirmed before the stack was created, confirms the program with its commands.
        if self.is_found() && !self.context.prompt.yes && self.confirmed.is_none() {
            approvals.of_run.withhold_reads();
        }
        // Before the intake: an answer about an operation stays valid if its result lies in a file.
        let decisions = self.flags.decisions(&session.state())?;
        let creates = matches!(self.goal, Goal::Update(_));
        let (settling, warnings) = match SpoolIntake::run(session, &self.stacks.url(), creates).await {
            Ok(intake) => {
                heard.add(intake.settled);
                let settling = self.settle(session, &heard, &approvals, decisions).await;
                (settling, intake.warnings)
            }
            Err(error) => (Err(error), Vec::new()),
        };
        let settled = heard.take();
        let resolved = settlements::describe_all(&settled);
        let asked = session.state().pending().map(|operation| operation.id).collect();
        let mut done = match settling {
            Ok(settling) => {
                self.plan_and_apply(session, live, &approvals, settling, settled)
                    .await
            }
            Err(error) => Err(error),
        };
        if let Ok(done) = &mut done {
            done.advise(self.context.prompt.can_ask(), &asked);
            done.warnings.extend(warnings);
        }
        // A store may report a write after a takeover as a write with unknown outcome. The lock shows the real reason.
        if outcome::is_stopped(&done) && outcome::is_fenced(session).await {
            outcome::mark_fenced(&mut done);
        }
        // An error must not hide that pending operations were already resolved: these changes stay.
        done.map_err(|error| match resolved {
            Some(resolved) => CliError {
                message: format!("{}; {resolved}", error.message),
                ..error
            },
            None => error,
        })
    }

    /// Whether the run applies a program that was only found in the current folder. The folder may be someone else's project,
    /// so its commands run only after the user has confirmed a plan.
    fn is_found(&self) -> bool {
        matches!(self.goal, Goal::Update(document) if !document.is_named)
    }

    fn require_owner(&self, name: &StackName, state: &State) -> Result<(), CliError> {
        match self.flags.bounds.adopt {
            true => Ok(()),
            false => stack_choice::require_owner(name, state, self.program.as_ref()),
        }
    }

    /// Whether an update with this program changes the owner of the stack, as `--adopt` permits.
    fn takes_over(&self, name: &StackName, state: &State) -> bool {
        let is_update = matches!(self.goal, Goal::Update(_));
        is_update && stack_choice::require_owner(name, state, self.program.as_ref()).is_err()
    }

    /// Resolves pending operations of earlier runs. Does nothing if the run can't be confirmed later, so that a refused
    /// command changes nothing.
    async fn settle(
        &self,
        session: &Session,
        heard: &Arc<Settlements>,
        approvals: &Approvals,
        decisions: Decisions,
    ) -> Result<Settling, CliError> {
        if session.state().pending().next().is_none() || !self.context.prompt.can_ask() {
            return Ok(Settling::default());
        }
        let stack = session.stack();
        let mut run = self.run(approvals)?;
        run.observer = heard.clone();
        run.decisions = decisions;
        if let Some(source) = self.source(stack, Some(session)).await? {
            self.engine.declare(&run, &source);
        }
        loop {
            let settling = self.engine.settle(session, &run).await?;
            if !self
                .approve(&object(stack.name()), approvals, untouched(&[]))
                .await?
            {
                return Ok(settling);
            }
        }
    }

    async fn plan_and_apply(
        &self,
        session: &Session,
        live: &Arc<LiveProgress>,
        approvals: &Arc<Approvals>,
        settling: Settling,
        settled: Vec<Settlement>,
    ) -> Result<Outcome, CliError> {
        let name = session.stack().name();
        let object = object(name);
        let untouched = untouched(&settled);
        let plan = loop {
            let mut run = self.run(approvals)?;
            run.observer = Arc::new(RememberedSteps {
                approvals: Arc::clone(approvals),
                next: live.clone(),
            });
            run.settled = Some(settling.clone());
            let plan = self.plan(Basis::locked(session), run).await?;
            if self.interrupt.is_stopping() || !self.approve(&object, approvals, untouched).await? {
                break plan;
            }
        };
        let mut seen = Outcome::planned(self.context, name, plan.report());
        if self.interrupt.is_stopping() {
            return Err(interrupted(&object, untouched));
        }
        // If the state is marked as invalidated, even an empty plan is applied: the run checks every resource, and its
        // revision clears the mark.
        // The revision also records the program that takes a stack over.
        let is_taken_over = self.takes_over(name, &session.state());
        let is_done = !seen.changed && session.state().invalidated().is_none() && !is_taken_over;
        if is_done && seen.succeeded() {
            seen.warnings.extend(approvals.remember_confirmed());
        }
        if is_done || !seen.succeeded() {
            seen.finish_unapplied(session.state().current().cloned(), settled);
            return Ok(seen);
        }
        // The user confirmed a plan before the stack was created. Ask again if the plan differs now.
        let confirmed = self.confirmed.as_ref();
        let is_confirmed = confirmed.is_some_and(|confirmed| confirmed.has_same_plan(&seen));
        if seen.changed && !is_confirmed {
            self.confirm(&object, &seen, untouched).await?;
        }
        if seen.changed {
            approvals.of_run.release_reads();
        }
        // Before the run: a crash must not leave the user without the approval of what the run has recorded.
        let mut warnings: Vec<String> = approvals.remember_confirmed().into_iter().collect();
        live.begin(seen.steps.len());
        let before = session.state();
        let report = self.engine.apply(session, plan).await;
        live.end();
        // Inputs that were unknown before the run are known now.
        warnings.extend(approvals.remember_confirmed().filter(|_| warnings.is_empty()));
        let report = report?;
        let unfinished = UnfinishedWork::compare(self.goal, &before, &session.state(), &report);
        let mut done = Outcome::done(self.context, name, report);
        done.settled = settled;
        done.warnings.extend(warnings);
        unfinished.add_to(&mut done, &seen.steps);
        Ok(done)
    }

    /// Plans the steps for a state.
    async fn plan(&self, basis: Basis, mut run: Run) -> Result<Plan, CliError> {
        let entries = basis.state().entries();
        let mut known: BTreeSet<Address> = entries.map(|entry| entry.address.clone()).collect();
        let operation = match self.goal {
            Goal::Refresh(_) | Goal::Destroy(_) => {
                if let Some(source) = self.source(basis.stack(), basis.session()).await? {
                    self.engine.declare(&run, &source);
                }
                match self.goal {
                    Goal::Destroy(_) => Operation::Destroy,
                    _ => Operation::Refresh,
                }
            }
            Goal::Update(document) => {
                let source = self.source_of(document, basis.stack(), basis.session()).await?;
                known.extend(source.addresses().cloned());
                Operation::Update(Box::new(source))
            }
        };
        let foresee_settling = run.options.foresee_settling;
        run.options = self.flags.options(&known)?;
        run.options.foresee_settling = foresee_settling;
        run.metadata = self.metadata()?;
        Ok(self.engine.plan(basis, operation, run).await?)
    }

    /// The program that the user named, if there is one.
    async fn source(&self, stack: &Stack, session: Option<&Session>) -> Result<Option<ListSource>, CliError> {
        match self.goal.document() {
            None => Ok(None),
            Some(document) => self.source_of(document, stack, session).await.map(Some),
        }
    }

    async fn source_of(
        &self,
        document: &Document,
        stack: &Stack,
        session: Option<&Session>,
    ) -> Result<ListSource, CliError> {
        let crypter = match session {
            Some(session) => session.crypter().await,
            None => stack.crypter().await,
        };
        // Without an identity that decrypts the data key, only encrypted configuration values are missing: the program
        // reports which ones.
        let crypter = match crypter {
            Err(error) if error.kind() == ErrorKind::Sealed => None,
            other => Some(other?),
        };
        document.source(crypter.as_deref()).await
    }

    async fn approve(&self, object: &str, approvals: &Approvals, untouched: &str) -> Result<bool, CliError> {
        approvals
            .ask(self.context, &self.interrupt, object, untouched)
            .await
    }

    fn run(&self, approvals: &Approvals) -> Result<Run, CliError> {
        let mut run = Run::new(document::registry(self.context)?);
        run.approvals = approvals.of_run.clone();
        run.options.timeout = Some(self.flags.bounds.timeout);
        run.interrupt = self.interrupt.clone();
        Ok(run)
    }

    /// The message and the environment of the run, for the history.
    fn metadata(&self) -> Result<UpdateMetadata, CliError> {
        let folder = match self.goal.document() {
            Some(document) => document.folder.clone(),
            None => here()?,
        };
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let program = match self.goal {
            Goal::Update(document) => Some(document.name().title),
            // Only `up` makes its program the owner of the stack.
            Goal::Refresh(_) | Goal::Destroy(_) => None,
        };
        Ok(UpdateMetadata {
            program,
            message: self.flags.message.unwrap_or_default().to_owned(),
            environment: origin::environment(&folder, &variable),
        })
    }

    async fn confirm(&self, object: &str, seen: &Outcome, untouched: &str) -> Result<(), CliError> {
        // With `--json`, `announce_colored` prints nothing: the result contains the plan.
        let output = &self.context.output;
        output.announce_colored(|page| tree::preview(page, seen));
        let question = self.question(object, seen);
        self.context
            .prompt
            .confirm_unless(&self.interrupt, object, &question, untouched)
            .await
    }

    fn question(&self, object: &str, seen: &Outcome) -> String {
        let steps = tree::extent(seen);
        match self.goal {
            Goal::Update(_) => format!("Apply these changes to {object} ({steps})?"),
            Goal::Refresh(_) => format!("Record these changes in {object}?"),
            Goal::Destroy(_) => format!("Destroy these resources of {object} ({steps})?"),
        }
    }
}

fn object(name: &StackName) -> String {
    format!("stack {}", name.short())
}
