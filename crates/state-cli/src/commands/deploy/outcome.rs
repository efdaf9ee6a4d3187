//! What a run did, or would do.

use super::step::StepView;
use crate::context::Context;
use crate::entry::PendingView;
use crate::error::CliError;
use crate::exit::ExitCode;
use crate::target::Target;
use serde::Serialize;
use state_core::backend::Holder;
use state_core::diff::{MaskedChange, diff};
use state_core::mask::Mask;
use state_core::mutation::StackOutputs;
use state_core::{FactoryInfo, PendingOperation, RevisionId, Snapshot, StackName, Timestamp, UpdateResult};
use state_engine::{Report, StepFailure};
use std::collections::{BTreeMap, BTreeSet};

/// What a run did, or would do.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Outcome {
    pub(super) stack: String,
    #[serde(skip)]
    pub(super) short_name: String,
    /// Nothing was done: this is what would be.
    pub(super) preview: bool,
    /// Whether anything was changed, or would be: the world or the record.
    pub(super) changed: bool,
    pub(super) result: UpdateResult,
    pub(super) revision: Option<RevisionId>,
    pub(super) created_store: bool,
    pub(super) created_stack: bool,
    /// Those that change something, in the order in which they were done.
    pub(super) steps: Vec<StepView>,
    /// How many steps of each kind, those that change nothing included.
    pub(super) counts: BTreeMap<&'static str, usize>,
    pub(super) renamed: Vec<Renamed>,
    pub(super) outputs: Vec<MaskedChange>,
    /// Outputs whose values nobody knows yet.
    pub(super) unknown_outputs: BTreeSet<String>,
    pub(super) failures: Vec<FailureView>,
    pub(super) skipped: Vec<Skipped>,
    /// What was pending before, and is settled.
    pub(super) settled: Vec<Settled>,
    /// What is pending now.
    pub(super) pending: Vec<PendingView>,
    pub(super) interrupted: bool,
    /// What is wrong with the program, or ended the run before its time.
    pub(super) error: Option<String>,
    /// What to do about it.
    pub(super) hint: Option<String>,
    #[serde(skip)]
    pub(super) warnings: Vec<String>,
    /// What is pending is of somebody's run that is under way: it isn't for anyone else to settle.
    #[serde(skip)]
    pub(super) is_anothers: bool,
    /// Who contains whom, of all that was looked at.
    #[serde(skip)]
    pub(super) parents: BTreeMap<String, String>,
    /// It was to be done, not only looked at.
    #[serde(skip)]
    was_meant: bool,
    #[serde(skip)]
    stopped: Option<ExitCode>,
}

/// An entry that has another name.
#[derive(Debug, Serialize)]
pub(super) struct Renamed {
    pub(super) from: String,
    pub(super) to: String,
}

/// A step that failed.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct FailureView {
    pub(super) address: String,
    pub(super) deposed: Option<String>,
    pub(super) op: Option<&'static str>,
    pub(super) reasons: Vec<String>,
    /// The operation that stays pending, because nobody knows what the world is.
    pub(super) pending: Option<String>,
    /// Whether its object is there and recorded as unfinished.
    pub(super) unfinished: bool,
}

/// A resource that couldn't be tried.
#[derive(Debug, Serialize)]
pub(super) struct Skipped {
    pub(super) address: String,
    pub(super) reason: String,
    /// Nothing hindered it but that the run ended.
    #[serde(skip)]
    pub(super) not_begun: bool,
}

impl Skipped {
    /// What was to be done when the run stopped.
    pub(super) fn not_begun(step: &StepView) -> Self {
        Self {
            address: step.address.clone(),
            reason: match step.deposed {
                None => "not begun, because the run stopped before",
                Some(_) => "what was replaced isn't deleted, because the run stopped before",
            }
            .to_owned(),
            not_begun: true,
        }
    }
}

/// An operation of a run before, and what became of it.
#[derive(Debug, Serialize)]
pub(super) struct Settled {
    pub(super) operation: PendingView,
    pub(super) how: String,
}

impl Settled {
    pub(super) fn of(operation: &PendingOperation, how: &str) -> Self {
        Self {
            operation: PendingView::new(operation),
            how: how.to_owned(),
        }
    }

    /// In words.
    pub(super) fn describe(&self) -> String {
        let operation = &self.operation;
        format!(
            "settled the pending {} of {}: {}",
            operation.op, operation.target, self.how
        )
    }
}

/// What became of the record when nothing was done but to settle these.
pub(super) fn untouched(settled: &[Settled]) -> &'static str {
    match settled {
        [] => "nothing was changed",
        _ => "nothing else was changed",
    }
}

/// Whether a run ended before its time.
pub(super) fn is_stopped(done: &Result<Outcome, CliError>) -> bool {
    match done {
        Ok(done) => done.stopped.is_some(),
        Err(error) => error.code == ExitCode::Indeterminate,
    }
}

/// Says that it ended because another took the lock.
pub(super) fn fence(done: &mut Result<Outcome, CliError>) {
    let (code, hint, describe) = match done {
        Ok(done) => (
            done.stopped.get_or_insert(ExitCode::Fenced),
            &mut done.hint,
            done.error.as_deref(),
        ),
        Err(error) => (&mut error.code, &mut error.hint, Some(&*error.message)),
    };
    *code = ExitCode::Fenced;
    let record = match describe.is_some_and(|describe| describe.contains(KEPT)) {
        true => "; a result that is kept in a file is recorded by `statectl pending resolve --from FILE`",
        false => "",
    };
    *hint = Some(format!(
        "another took the lock: find out who with `statectl lock status` and `statectl history`, and see what this run left \
         with `statectl pending list`, before you repeat anything{record}"
    ));
}

impl Outcome {
    /// What a plan says.
    pub(super) fn planned(context: &Context, stack: &StackName, report: &Report) -> Self {
        let mask = context.settings.mask();
        let describe = report.steps.iter().filter(|step| step.is_change());
        let counts = report.counts().into_iter();
        let outputs = report.outputs.clone().map(|both| outputs(both, mask));
        Self {
            stack: stack.to_string(),
            short_name: stack.short(),
            preview: true,
            changed: report.has_changes(),
            result: report.result,
            created_store: false,
            created_stack: false,
            steps: describe.map(|step| StepView::of(step, mask)).collect(),
            counts: counts.map(|(op, count)| (op.name(), count)).collect(),
            renamed: report.renamed.iter().map(renamed).collect(),
            outputs: outputs.unwrap_or_default(),
            unknown_outputs: report.unknown_outputs.clone(),
            failures: report.failures.iter().map(FailureView::of).collect(),
            skipped: report.skipped.iter().map(skipped).collect(),
            settled: Vec::new(),
            pending: report.pending.iter().map(PendingView::new).collect(),
            interrupted: report.interrupted,
            error: report.source_error.clone(),
            hint: None,
            warnings: Vec::new(),
            is_anothers: false,
            parents: parents(&report.steps),
            revision: report.revision.clone(),
            was_meant: false,
            stopped: None,
        }
    }

    /// What a run did.
    pub(super) fn done(context: &Context, stack: &StackName, mut report: Report) -> Self {
        let stopped = report.stopped_by.take();
        let mut done = Self {
            preview: false,
            was_meant: true,
            ..Self::planned(context, stack, &report)
        };
        if let Some(error) = stopped {
            done.stop(error.into());
        }
        done
    }

    /// Takes note of what ended the run.
    fn stop(&mut self, error: CliError) {
        self.hint = match error.message.contains(KEPT) {
            // A result that the store didn't take says where it is kept.
            true => Some(ONCE_IT_ANSWERS.to_owned()),
            false => error.hint,
        };
        self.error = Some(error.message);
        self.stopped = Some(error.code);
    }

    /// Nothing was done: there was nothing to do, or the look at it failed.
    pub(super) fn stand(&mut self, revision: Option<RevisionId>, settled: Vec<Settled>) {
        self.preview = !self.went_well();
        // What was settled is a change of the record.
        self.changed |= !settled.is_empty();
        self.was_meant = true;
        self.settled = settled;
        self.revision = revision;
        if self.preview {
            let untouched = untouched(&self.settled);
            let mend = || format!("{untouched}: mend what failed, then run it again");
            self.hint.get_or_insert_with(mend);
        }
    }

    /// It is a look at a stack that somebody else holds, and is changing if `has_begun`.
    pub(super) fn beside(&mut self, holder: &Holder, has_begun: bool) {
        if !has_begun {
            let held = format!("the stack is held by {holder}: what that is about to do isn't seen here");
            self.warnings.push(held);
            return;
        }
        self.warnings.push(format!(
            "a run is under way, of {holder}: what is begun and not ended belongs to it, and what it does next isn't seen here"
        ));
        if !self.pending.is_empty() {
            let wait = "wait until the run that is under way has ended, then look again: `statectl lock status` tells";
            self.hint = Some(wait.to_owned());
        }
        for failure in self.failures.iter_mut().filter(|failure| failure.op.is_none()) {
            if let Some(begun) = self.pending.iter().find(|begun| begun.address == failure.address) {
                let reason = format!("the run that is under way is at it: it began its {}", begun.op);
                failure.reasons = vec![reason];
            }
        }
        self.is_anothers = true;
    }

    /// Whether who said yes to this said yes to the other.
    pub(super) fn says_as(&self, other: &Self) -> bool {
        let said = |describe: &Self| {
            serde_json::to_string(&(&describe.steps, &describe.renamed, &describe.outputs)).ok()
        };
        said(self).is_some_and(|describe| said(other) == Some(describe))
    }

    /// The same with what was made for it.
    pub(super) fn made_at(mut self, target: &Target) -> Self {
        self.created_store = target.created_store;
        self.created_stack = target.created_stack;
        self.warnings.extend(target.warnings.iter().cloned());
        self
    }

    /// Whether it went, or would go, as it was asked for.
    pub(super) fn went_well(&self) -> bool {
        self.result == UpdateResult::Succeeded
    }

    /// The exit code: what ended it counts before what failed in it.
    pub(super) fn exit_code(&self, detailed: bool) -> ExitCode {
        let is_unknown = self.was_meant && !self.pending.is_empty();
        match self.stopped {
            _ if self.interrupted => ExitCode::Interrupted,
            Some(code) => code,
            None if is_unknown => ExitCode::Indeterminate,
            None if !self.went_well() => ExitCode::Failed,
            None if detailed && self.changed => ExitCode::Differences,
            None => ExitCode::Done,
        }
    }
}

impl FailureView {
    fn of(failure: &StepFailure) -> Self {
        Self {
            address: failure.key.address.to_string(),
            deposed: failure.key.deposed.as_ref().map(ToString::to_string),
            op: failure.op.map(state_engine::StepOp::name),
            reasons: failure.reasons.clone(),
            pending: failure.pending.map(|id| id.to_string()),
            unfinished: false,
        }
    }
}

/// How an error tells that a result is in a file.
const KEPT: &str = "is kept in ";

/// What to do about such a result.
const ONCE_IT_ANSWERS: &str =
    "once the store answers, record it: `statectl pending resolve --from FILE`, with the file that it names";

fn renamed((from, to): &(state_core::Address, state_core::Address)) -> Renamed {
    Renamed {
        from: from.to_string(),
        to: to.to_string(),
    }
}

fn skipped((address, reason): &(state_core::Address, String)) -> Skipped {
    Skipped {
        address: address.to_string(),
        reason: reason.clone(),
        not_begun: false,
    }
}

fn parents(steps: &[state_engine::Step]) -> BTreeMap<String, String> {
    let parent = |step: &state_engine::Step| {
        let entry = step.new.as_deref().or(step.old.as_deref())?;
        Some((step.key.address.to_string(), entry.parent.as_ref()?.to_string()))
    };
    steps.iter().filter_map(parent).collect()
}

fn outputs((old, new): (StackOutputs, StackOutputs), mask: Mask) -> Vec<MaskedChange> {
    let snapshot = |outputs: StackOutputs| Snapshot {
        outputs: outputs.values,
        sensitive_outputs: outputs.sensitive,
        ..Snapshot::new(FactoryInfo::default(), String::new(), Timestamp::new(""))
    };
    let describe = diff(&snapshot(old), &snapshot(new)).outputs;
    describe.iter().map(|change| change.masked(mask)).collect()
}
