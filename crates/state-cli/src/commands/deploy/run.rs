//! One way for `up`, `refresh` and `destroy`: take the lock, settle what is pending, plan, show, ask, apply the plan. A
//! preview plans without a lock.

use super::document::{self, Document};
use super::flags::Flags;
use super::live::LiveProgress;
use super::outcome::{self, Outcome, Settled, untouched};
use super::record::Left;
use super::tree;
use crate::context::Context;
use crate::error::CliError;
use crate::origin;
use crate::prompt::interrupted;
use crate::settings::file::here;
use crate::signals::Listener;
use crate::store;
use state_core::{Address, ErrorKind, StackName};
use state_engine::settle::Settling;
use state_engine::{Basis, Engine, Event, Interrupt, Observer, Operation, Plan, Run, UpdateMetadata};
use state_manager::{Session, Stack, Stacks};
use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long an attempt to take the lock is let end once somebody asked to stop.
const GRACE: Duration = Duration::from_secs(1);

/// What is to be done.
#[derive(Clone, Copy)]
pub(super) enum Goal<'a> {
    Update(&'a Document),
    Refresh,
    Destroy,
}

/// What is to be done, and with what.
pub(super) struct Deploy<'a> {
    context: &'a Context,
    flags: &'a Flags<'a>,
    goal: Goal<'a>,
    stacks: Stacks,
    engine: Engine,
    interrupt: Interrupt,
    /// What somebody said yes to before there was a stack.
    agreed: Option<Outcome>,
    /// Hears signals from the first question to the lock.
    listener: Option<Listener>,
}

impl<'a> Deploy<'a> {
    pub(super) fn new(context: &'a Context, flags: &'a Flags<'a>, goal: Goal<'a>, stacks: Stacks) -> Self {
        Self {
            context,
            flags,
            goal,
            engine: Engine::new(stacks.clone(), context.environment.clone()),
            stacks,
            interrupt: Interrupt::new(),
            agreed: None,
            listener: None,
        }
    }

    /// Shows what would be done in a stack that isn't there yet, and asks, so that nothing is made for a no. Returns what
    /// it saw if that can't be done.
    pub(super) async fn ask(&mut self, name: &StackName) -> Result<Option<Outcome>, CliError> {
        self.listener = Some(Listener::start(&self.interrupt, |_| {})?);
        let mut seen = self.foreseen(name).await?;
        let (object, untouched) = (object(name), untouched(&[]));
        if self.interrupt.is_stopping() {
            return Err(interrupted(&object, untouched));
        }
        if !seen.went_well() {
            seen.stand(None, Vec::new());
            return Ok(Some(seen));
        }
        if seen.changed {
            self.confirm(&object, &seen, untouched).await?;
            self.agreed = Some(seen);
        }
        Ok(None)
    }

    /// Goes on where the stack is now. If it was `found`, what somebody said yes to doesn't count there.
    pub(super) fn go_to(&mut self, stacks: Stacks, found: bool) {
        self.engine = Engine::new(stacks.clone(), self.context.environment.clone());
        self.stacks = stacks;
        self.agreed.take_if(|_| found);
    }

    /// Plans against the recorded state. Nothing is written and no lock is taken.
    pub(super) async fn preview(&self, name: &StackName) -> Result<Outcome, CliError> {
        let _listener = Listener::start(&self.interrupt, |_| {})?;
        self.foreseen(name).await
    }

    async fn foreseen(&self, name: &StackName) -> Result<Outcome, CliError> {
        let stack = self.context.store.find(&self.stacks, name).await?;
        // Before the state is read: whoever ends meanwhile may have begun what the state holds.
        let holder = stack.lock_status().await?.holder;
        let basis = Basis::tip(&stack).await?;
        let update_open = basis.state().update().is_some();
        self.flags.decisions(basis.state())?;
        let plan = self.plan(name, basis, self.run()?).await?;
        let mut seen = Outcome::planned(self.context, name, plan.report());
        if let Some(holder) = holder {
            seen.beside(&holder, update_open);
        }
        if self.flags.answers_something() {
            let warning = "a preview settles nothing: it shows what is pending as it is recorded";
            seen.warnings.push(warning.to_owned());
        }
        Ok(seen)
    }

    /// Does it under the lock of the stack, once it was shown and somebody said yes.
    pub(super) async fn hold(mut self, name: &StackName) -> Result<Outcome, CliError> {
        let stack = self.context.store.find(&self.stacks, name).await?;
        let live = Arc::new(LiveProgress::start(self.context));
        let teller = Arc::clone(&live);
        // Before the lock is taken: from then on a signal mustn't end us without giving it back.
        // The one before goes after this one came: so no signal is lost.
        self.listener = Some(Listener::start(&self.interrupt, move |said| teller.say(said))?);
        let session = self.lock(&stack).await?;
        let work = async |session: &Session| self.perform(session, &live).await;
        let (mut done, warnings) = store::held(session, work).await?;
        done.warnings.extend(warnings);
        Ok(done)
    }

    /// Takes the lock. A request to stop ends the wait for its holder; an attempt that is under way may get it, so it is let end.
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
                if let Ok(session) = taken && let Some(warning) = store::closed(session).await {
                    return Err(interrupted(&object, &warning));
                }
            }
            () = self.context.environment.clock.sleep(GRACE) => {}
        }
        Err(interrupted(&object, untouched(&[])))
    }

    async fn perform(&self, session: &Session, live: &Arc<LiveProgress>) -> Result<Outcome, CliError> {
        let heard = Arc::new(Settlements {
            live: Arc::clone(live),
            heard: Mutex::default(),
        });
        let settling = self.settle(session, &heard).await;
        let settled = heard.take();
        let describe = describe(&settled);
        let mut done = match settling {
            Ok(settling) => self.plan_and_apply(session, live, settling, settled).await,
            Err(error) => Err(error),
        };
        // A write that came too late may be told as one whose outcome nobody knows: only the lock says why.
        if outcome::is_stopped(&done) && is_fenced(session).await {
            outcome::fence(&mut done);
        }
        done.map_err(|error| match describe {
            Some(describe) => CliError {
                message: format!("{}; {describe}", error.message),
                ..error
            },
            None => error,
        })
    }

    /// Settles what a run before left, once somebody said yes or can be asked about the rest.
    async fn settle(&self, session: &Session, heard: &Arc<Settlements>) -> Result<Settling, CliError> {
        let decisions = self.flags.decisions(&session.state())?;
        if session.state().pending().next().is_none() || !self.context.prompt.can_ask() {
            return Ok(Settling::default());
        }
        let mut run = self.run()?;
        run.observer = heard.clone();
        run.decisions = decisions;
        Ok(self.engine.settle(session, &run).await?)
    }

    async fn plan_and_apply(
        &self,
        session: &Session,
        live: &Arc<LiveProgress>,
        settling: Settling,
        settled: Vec<Settled>,
    ) -> Result<Outcome, CliError> {
        let name = session.stack().name();
        let object = object(name);
        let untouched = untouched(&settled);
        let mut run = self.run()?;
        run.observer = live.clone();
        run.settled = Some(settling);
        let plan = self.plan(name, Basis::locked(session), run).await?;
        let mut seen = Outcome::planned(self.context, name, plan.report());
        if self.interrupt.is_stopping() {
            return Err(interrupted(&object, untouched));
        }
        // A state that is marked as unreliable is gone over even if nothing is to be done: that takes the mark back.
        let is_done = !seen.changed && session.state().invalidated().is_none();
        if is_done || !seen.went_well() {
            seen.stand(session.state().current().cloned(), settled);
            return Ok(seen);
        }
        let is_agreed = self.agreed.as_ref().is_some_and(|agreed| agreed.says_as(&seen));
        if seen.changed && !is_agreed {
            self.confirm(&object, &seen, untouched).await?;
        }
        live.begin(seen.steps.len());
        let before = session.state();
        let report = self.engine.apply(session, plan).await;
        live.end();
        let report = report?;
        let left = Left::of(self.goal, &before, &session.state(), &report);
        let mut done = Outcome::done(self.context, name, report);
        done.settled = settled;
        left.tell(&mut done, &seen.steps);
        Ok(done)
    }

    /// Decides what will be done to a state.
    async fn plan(&self, name: &StackName, basis: Basis, mut run: Run) -> Result<Plan, CliError> {
        let entries = basis.state().entries();
        let mut known: BTreeSet<Address> = entries.map(|entry| entry.address.clone()).collect();
        let operation = match self.goal {
            Goal::Refresh => Operation::Refresh,
            Goal::Destroy => Operation::Destroy,
            Goal::Update(document) => {
                // Without a key at hand only a sealed setting can't be had: the program says which.
                let crypter = match self.stacks.crypter(name).await {
                    Err(error) if error.kind() == ErrorKind::Sealed => None,
                    other => Some(other?),
                };
                let source = document.source(crypter.as_deref()).await?;
                known.extend(source.addresses().cloned());
                Operation::Update(Box::new(source))
            }
        };
        run.options = self.flags.options(&known)?;
        run.metadata = self.metadata()?;
        Ok(self.engine.plan(basis, operation, run).await?)
    }

    fn run(&self) -> Result<Run, CliError> {
        let mut run = Run::new(document::registry(self.context)?);
        run.options.timeout = Some(self.flags.bounds.timeout);
        run.interrupt = self.interrupt.clone();
        Ok(run)
    }

    /// What history is told.
    fn metadata(&self) -> Result<UpdateMetadata, CliError> {
        let folder = match self.goal {
            Goal::Update(document) => document.folder.clone(),
            Goal::Refresh | Goal::Destroy => here()?,
        };
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        Ok(UpdateMetadata {
            message: self.flags.message.unwrap_or_default().to_owned(),
            environment: origin::environment(&folder, &variable),
        })
    }

    async fn confirm(&self, object: &str, seen: &Outcome, untouched: &str) -> Result<(), CliError> {
        // With `--json` it comes with the result.
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
            Goal::Update(_) => format!("Do this to {object} ({steps})?"),
            Goal::Refresh => format!("Record this in {object}?"),
            Goal::Destroy => format!("Destroy this in {object} ({steps})?"),
        }
    }
}

/// Whether another took the lock meanwhile.
async fn is_fenced(session: &Session) -> bool {
    let checked = session.check().await;
    checked.is_err_and(|error| error.kind() == ErrorKind::Fenced)
}

fn object(name: &StackName) -> String {
    format!("stack {}", name.short())
}

/// What was settled, for an error that comes after it.
fn describe(settled: &[Settled]) -> Option<String> {
    let describe: Vec<String> = settled.iter().map(Settled::describe).collect();
    (!describe.is_empty()).then(|| describe.join("; "))
}

/// Hears what became of pending operations.
struct Settlements {
    live: Arc<LiveProgress>,
    heard: Mutex<Vec<Settled>>,
}

impl Settlements {
    fn take(&self) -> Vec<Settled> {
        std::mem::take(&mut *self.heard.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Observer for Settlements {
    fn event(&self, event: &Event) {
        if let Event::Settled { operation, how } = event {
            let settled = Settled::of(operation, how);
            self.heard
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(settled);
        }
        self.live.event(event);
    }
}
