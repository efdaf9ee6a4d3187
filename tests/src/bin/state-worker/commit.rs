//! The workers `commit`, `hold` and `script`: tasks that change a stack and report each acknowledgement.

use crate::{emit, open};
use state_core::mutation::Resolution;
use state_core::{
    Address, Entry, EntryKey, Op, PendingOperation, Result, RevisionId, State, Timestamp, UpdateKind,
    UpdateResult,
};
use state_manager::{Intent, Session, Stack, Update, UpdateRequest};
use state_tests::dice::Dice;
use state_tests::line::{Ending, Line, Plan};
use state_tests::workload::{self, LARGE, STACK, TASKS, anchor, task_of};
use std::sync::Arc;
use tokio::task::JoinSet;

/// Number of entries at which a task deletes an entry instead of creating another. The task's [`anchor`] and entries
/// with a pending operation aren't counted.
const ENTRIES: usize = 12;

/// Maximum number of pending operations of earlier processes that a new session doesn't resolve. Operations on anchors
/// are always resolved.
const PENDING: usize = 4;

/// How long the updates of a worker last.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// An update ends after a few steps, and a session after a few updates. Another update or session follows.
    Endless,
    /// One update that never ends.
    OneUpdate,
}

/// Runs eight concurrent tasks until the process is killed or an operation fails.
pub(crate) async fn run(dir: &str, seed: u64, style: Style) -> Result<()> {
    let stack = open(dir).await?;
    let mut dice = Dice::new(seed);
    loop {
        session(&stack, &mut dice, style).await?;
    }
}

/// Runs one session: resolves operations that earlier processes left pending, and then runs one to three updates with
/// all tasks.
async fn session(stack: &Stack, dice: &mut Dice, style: Style) -> Result<()> {
    let session = stack.lock("commit").await?;
    emit(&Line::Locked);
    resolve(&session, dice).await?;
    for _ in 0..=dice.below(3) {
        let update = session
            .start_update(UpdateRequest::new(UpdateKind::Update))
            .await?;
        let steps = match style {
            Style::Endless => 3 + dice.below(8),
            Style::OneUpdate => u64::MAX,
        };
        let mut tasks = JoinSet::new();
        for number in 0..TASKS {
            let task = Task {
                session: session.clone(),
                update: update.clone(),
                number,
                dice: Dice::new(dice.number()),
            };
            tasks.spawn(task.run(steps));
        }
        all(tasks).await?;
        emit(&Line::Finished(update.finish(UpdateResult::Succeeded).await?));
        if dice.one_in(3) {
            emit(&Line::Finished(reset(&session).await?));
        }
    }
    session.close().await?;
    emit(&Line::Closed);
    Ok(())
}

/// Replaces the state by a snapshot with the same content, which becomes the new base when the session closes.
async fn reset(session: &Session) -> Result<RevisionId> {
    let snapshot = session.state().snapshot(STACK, Timestamp::new(""));
    let request = UpdateRequest::new(UpdateKind::Edit);
    session.replace_entries(request, snapshot).await
}

/// Runs a short fixed workload: one update with enough data for a checkpoint, a reset, and a clean close. `part` is a part of
/// each entry's tag (see [`workload`]), so that a second run with another `part` creates other entries.
pub(crate) async fn script(dir: &str, part: &str) -> Result<()> {
    let stack = open(dir).await?;
    let session = stack.lock("script").await?;
    emit(&Line::Locked);
    let update = session
        .start_update(UpdateRequest::new(UpdateKind::Update))
        .await?;
    let mut task = Task {
        session: session.clone(),
        update: update.clone(),
        number: 0,
        dice: Dice::new(1),
    };
    task.see_anchor().await?;
    let anchor = anchor(0)?;
    if session.state().is_empty() {
        task.step(Op::Create, anchor, format!("{part}-anchor"), Ending::Succeed)
            .await?;
    }
    for step in 0..4 {
        let tag = format!("{LARGE}-{part}{step}");
        let address = Address::new(format!("t0.{tag}"))?;
        task.step(Op::Create, address, tag, Ending::Succeed).await?;
    }
    let first = Address::new(format!("t0.{LARGE}-{part}0"))?;
    task.step(Op::Update, first.clone(), format!("{part}-small"), Ending::Fail)
        .await?;
    task.step(Op::Delete, first, format!("{part}-gone"), Ending::Succeed)
        .await?;
    drop(task);
    emit(&Line::Finished(update.finish(UpdateResult::Succeeded).await?));
    emit(&Line::Finished(reset(&session).await?));
    session.close().await?;
    emit(&Line::Closed);
    Ok(())
}

/// Waits for all tasks and reports the error of each failed task. Returns the first of these errors.
async fn all(mut tasks: JoinSet<Result<(), (u64, state_core::Error)>>) -> Result<()> {
    let mut failure = None;
    while let Some(joined) = tasks.join_next().await {
        // Tasks are never aborted, so a join error is a panic: it must end the worker, or the test would pass without it.
        let done = joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
        if let Err((task, error)) = done {
            emit(&Line::failed(task, &error));
            failure = failure.or(Some(error));
        }
    }
    failure.map_or(Ok(()), Err)
}

/// Resolves the operations that earlier processes left pending, except the last [`PENDING`] of them. An operation on an
/// anchor is always resolved: its task creates a missing anchor before anything else, and the state refuses a second
/// create while the first is pending.
async fn resolve(session: &Session, dice: &mut Dice) -> Result<()> {
    let recovered = session.recovered();
    let surplus = recovered.len().saturating_sub(PENDING);
    let is_anchor = |operation: &PendingOperation| operation.target.address.as_str().ends_with("anchor");
    for (index, operation) in recovered.iter().enumerate() {
        if index >= surplus && !is_anchor(operation) {
            continue;
        }
        let done = match &operation.entry {
            Some(entry) if operation.op == Op::Create && dice.one_in(2) => {
                let tag = format!("resolved-{}", dice.number());
                Some((done(entry, &tag)?, tag))
            }
            _ => None,
        };
        let (resolution, tag) = match done {
            Some((entry, tag)) => (Resolution::Done(Some(Arc::new(entry))), Some(tag)),
            None => (Resolution::NotDone, None),
        };
        emit(&Line::Resolving(operation.id, tag));
        let request = UpdateRequest::new(UpdateKind::Edit);
        let revision = session.resolve(request, operation.id, resolution).await?;
        emit(&Line::Resolved(operation.id));
        emit(&Line::Finished(revision));
    }
    Ok(())
}

/// Returns the entry that resolves a pending create as done: the intended entry with the id and outputs that
/// [`workload::made`] derives from `tag`.
fn done(intended: &Entry, tag: &str) -> Result<Entry> {
    Ok(Entry {
        uid: intended.uid,
        ..workload::made(intended.address.clone(), tag)?
    })
}

/// A concurrent task of the worker. It changes only its own entries, whose addresses begin with its number.
struct Task {
    session: Session,
    update: Update,
    /// Number of the task, from 0.
    number: u64,
    dice: Dice,
}

impl Task {
    /// Performs `steps` random mutations. Returns an error together with the number of the task.
    async fn run(mut self, steps: u64) -> Result<(), (u64, state_core::Error)> {
        let number = self.number;
        self.see_anchor().await.map_err(|error| (number, error))?;
        let mut step = 0;
        while step < steps {
            self.random_step().await.map_err(|error| (number, error))?;
            step += 1;
        }
        Ok(())
    }

    /// Records the anchor as unchanged before any other step. The entries that an update has recorded come first in the
    /// state, and the anchor must come before all entries that depend on it.
    async fn see_anchor(&self) -> Result<()> {
        let anchor = EntryKey::live(anchor(self.number)?);
        match self.session.state().entry(&anchor) {
            Some(entry) => self.update.same(Entry::clone(entry)).await,
            None => Ok(()),
        }
    }

    /// Performs one random mutation. About one in 20 is left pending, and about one in 20 fails. The create of the
    /// anchor always succeeds, because all other entries of the task depend on the anchor.
    async fn random_step(&mut self) -> Result<()> {
        let tag = format!("{}-{:016x}", self.number, self.dice.number());
        let (op, address) = self.choose(&tag)?;
        let ending = match self.dice.below(20) {
            _ if address == anchor(self.number)? => Ending::Succeed,
            0 => Ending::Drop,
            1 => Ending::Fail,
            _ => Ending::Succeed,
        };
        self.step(op, address, tag, ending).await
    }

    /// Chooses the next operation, on an entry of this task. No two tasks change the same entry. The model of the crash
    /// tests therefore needs only the order of the lines of each task, not the order between tasks.
    fn choose(&mut self, tag: &str) -> Result<(Op, Address)> {
        let state = self.session.state();
        let anchor = anchor(self.number)?;
        if state.entry(&EntryKey::live(anchor.clone())).is_none() {
            return Ok((Op::Create, anchor));
        }
        let mine = idle(&state, self.number);
        let victim = (!mine.is_empty()).then(|| mine[self.dice.index(mine.len())].clone());
        let fresh = Address::new(format!("t{}.{tag}", self.number))?;
        Ok(match (victim, self.dice.below(5)) {
            (Some(victim), 0) => (Op::Delete, victim),
            (Some(victim), _) if mine.len() >= ENTRIES => (Op::Delete, victim),
            (Some(victim), 1 | 2) => (Op::Update, victim),
            _ => (Op::Create, fresh),
        })
    }

    /// Performs one mutation. Reports the plan before the begin, and then each acknowledgement.
    async fn step(&mut self, op: Op, address: Address, tag: String, ending: Ending) -> Result<()> {
        let intent = match op {
            Op::Delete => Intent::delete(EntryKey::live(address.clone())),
            Op::Update => Intent::update(workload::intended(address.clone())?),
            _ => Intent::create(workload::intended(address.clone())?),
        };
        let made = match op {
            Op::Delete => None,
            _ => Some(workload::made(address.clone(), &tag)?),
        };
        let address = address.as_str().to_owned();
        emit(&Line::Trying(
            self.number,
            Plan {
                op,
                address,
                tag,
                ending,
            },
        ));
        let mutation = self.update.begin(intent).await?;
        emit(&Line::Begun(self.number, mutation.id()));
        match ending {
            Ending::Drop => drop(mutation),
            Ending::Fail => {
                mutation.fail().await?;
                emit(&Line::Acked(self.number));
            }
            Ending::Succeed => {
                let violations = mutation.succeed(made).await?;
                if let Some(violation) = violations.first() {
                    return Err(state_core::Error::invalid("a result", violation.to_string()));
                }
                emit(&Line::Acked(self.number));
            }
        }
        Ok(())
    }
}

/// Returns the live entries of a task without a pending operation, except its anchor.
fn idle(state: &State, task: u64) -> Vec<Address> {
    let busy: Vec<&Address> = state
        .pending()
        .map(|operation| &operation.target.address)
        .collect();
    state
        .entries()
        .map(|entry| &entry.address)
        .filter(|address| task_of(address.as_str()) == Some(task))
        .filter(|address| !address.as_str().ends_with("anchor") && !busy.contains(address))
        .cloned()
        .collect()
}
