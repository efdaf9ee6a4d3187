//! The outcome of a run or of a plan, as printed and as JSON.

use super::step::StepView;
use crate::approvals;
use crate::context::Context;
use crate::entry::PendingView;
use crate::error::CliError;
use crate::exit::ExitCode;
use crate::settings::quoted;
use crate::target::Target;
use serde::Serialize;
use state_core::backend::Holder;
use state_core::diff::{MaskedChange, diff};
use state_core::mask::Mask;
use state_core::mutation::StackOutputs;
use state_core::{
    EntryKey, ErrorKind, FactoryInfo, MutationId, PendingOperation, RevisionId, Snapshot, StackName,
    Timestamp, UpdateResult,
};
use state_engine::{Report, ResourceCommand, StepFailure};
use state_manager::Session;
use std::collections::{BTreeMap, BTreeSet};

/// The outcome of a run, or of a plan that was not applied.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Outcome {
    pub(super) stack: String,
    #[serde(skip)]
    pub(super) short_name: String,
    /// Whether this is a plan that was not applied.
    pub(super) preview: bool,
    /// Whether a real resource or the state was changed, or would be.
    pub(super) changed: bool,
    pub(super) result: UpdateResult,
    pub(super) revision: Option<RevisionId>,
    pub(super) created_store: bool,
    pub(super) created_stack: bool,
    /// The steps that change something, in the order of their execution.
    pub(super) steps: Vec<StepView>,
    /// Commands and files of the planned steps whose text contains outputs of other resources, with masked secrets.
    #[serde(skip)]
    pub(super) derived_commands: Vec<(EntryKey, ResourceCommand)>,
    /// The number of steps of each kind, including those that change nothing.
    pub(super) counts: BTreeMap<&'static str, usize>,
    pub(super) renamed: Vec<Rename>,
    pub(super) outputs: Vec<MaskedChange>,
    /// Outputs whose values are known only after apply.
    pub(super) unknown_outputs: BTreeSet<String>,
    pub(super) failures: Vec<FailureView>,
    pub(super) skipped: Vec<SkippedResource>,
    /// Operations that were pending before the run and are resolved now; in a preview, those that a run would resolve.
    pub(super) settled: Vec<Settlement>,
    /// Operations that are pending now.
    pub(super) pending: Vec<PendingView>,
    pub(super) interrupted: bool,
    /// A problem of the program, or the error that stopped the run.
    pub(super) error: Option<String>,
    /// What the user can do about the error.
    pub(super) hint: Option<String>,
    #[serde(skip)]
    pub(super) warnings: Vec<String>,
    /// Whether the pending operations belong to another run that is still active. The user must not resolve such
    /// operations.
    #[serde(skip)]
    pub(super) belongs_to_other_run: bool,
    #[serde(skip)]
    pub(super) pending_advice: PendingAdvice,
    /// The parent of each resource in the plan that has one.
    #[serde(skip)]
    pub(super) parents: BTreeMap<String, String>,
    /// Whether the command was to apply the plan, not only to show it.
    #[serde(skip)]
    pub(super) applies: bool,
    /// The exit code of the error that stopped the run.
    #[serde(skip)]
    stopped: Option<ExitCode>,
}

/// How the user can resolve the pending operations.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum PendingAdvice {
    /// A refresh asks the providers.
    #[default]
    Refresh,
    /// A refresh asks the providers, but only if it can be confirmed: this command could not.
    ConfirmedRefresh,
    /// This command asked the providers, and they couldn't determine the outcome: only the user can.
    Resolve,
}

/// A resource whose address changed.
#[derive(Debug, Serialize)]
pub(super) struct Rename {
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
    /// The id of the operation, if it stays pending because its outcome is unknown.
    pub(super) pending: Option<String>,
    /// Whether the state records the resource as unfinished: tainted, or with initialization errors.
    pub(super) unfinished: bool,
}

/// A resource whose step was skipped.
#[derive(Debug, Serialize)]
pub(super) struct SkippedResource {
    pub(super) address: String,
    pub(super) reason: String,
    /// Whether the step was skipped only because the run stopped.
    #[serde(skip)]
    pub(super) not_begun: bool,
}

impl SkippedResource {
    /// The skipped resource for a step that was not begun when the run stopped.
    pub(super) fn not_begun(step: &StepView) -> Self {
        Self {
            address: step.address.clone(),
            reason: match step.deposed {
                None => "not started, because the run stopped",
                Some(_) => "the replaced resource was not deleted, because the run stopped",
            }
            .to_owned(),
            not_begun: true,
        }
    }
}

/// A pending operation of an earlier run, and how it was resolved.
#[derive(Debug, Serialize)]
pub(super) struct Settlement {
    pub(super) operation: PendingView,
    pub(super) how: String,
}

impl Settlement {
    pub(super) fn of(operation: &PendingOperation, how: &str) -> Self {
        Self {
            operation: PendingView::new(operation),
            how: how.to_owned(),
        }
    }

    /// Describes the resolution in one line.
    pub(super) fn describe(&self) -> String {
        self.describe_as("resolved")
    }

    /// Describes in one line what a run would do.
    pub(super) fn foresee(&self) -> String {
        self.describe_as("would resolve")
    }

    fn describe_as(&self, verb: &str) -> String {
        let operation = &self.operation;
        format!(
            "{verb} the pending {} of {}: {}",
            operation.op, operation.target, self.how
        )
    }
}

/// The part of an error message about the state, if the command changed nothing or only resolved these operations.
pub(super) fn untouched(settled: &[Settlement]) -> &'static str {
    match settled {
        [] => "nothing was changed",
        _ => "nothing else was changed",
    }
}

/// Whether a run was stopped by an error, or its outcome is unknown.
pub(super) fn is_stopped(done: &Result<Outcome, CliError>) -> bool {
    match done {
        Ok(done) => done.stopped.is_some(),
        Err(error) => error.code == ExitCode::Indeterminate,
    }
}

/// Whether another client took over the lock.
pub(super) async fn is_fenced(session: &Session) -> bool {
    let checked = session.check().await;
    checked.is_err_and(|error| error.kind() == ErrorKind::Fenced)
}

/// Changes the outcome to say that the run ended because another client took over the lock.
pub(super) fn mark_fenced(done: &mut Result<Outcome, CliError>) {
    let (code, hint, message) = match done {
        Ok(done) => (
            done.stopped.get_or_insert(ExitCode::Fenced),
            &mut done.hint,
            done.error.as_deref(),
        ),
        Err(error) => (&mut error.code, &mut error.hint, Some(&*error.message)),
    };
    *code = ExitCode::Fenced;
    let record = match message.is_some_and(|message| message.contains(KEPT)) {
        true => "; record a result that is kept in a file with `statectl pending resolve --from FILE`",
        false => "",
    };
    *hint = Some(format!(
        "another client took over the lock: before you repeat the command, check `statectl lock status`, `statectl \
         history` and `statectl pending list`{record}"
    ));
}

impl Outcome {
    /// The outcome of a plan that is not applied.
    pub(super) fn planned(context: &Context, stack: &StackName, report: &Report) -> Self {
        let mask = context.settings.mask();
        let changes = report.steps.iter().filter(|step| step.is_change());
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
            steps: changes.map(|step| StepView::of(step, mask)).collect(),
            derived_commands: approvals::shown(&report.derived_commands, context.settings.show_secrets)
                .map(|(key, command)| (key.clone(), command.clone()))
                .collect(),
            counts: counts.map(|(op, count)| (op.name(), count)).collect(),
            renamed: report.renamed.iter().map(renamed).collect(),
            outputs: outputs.unwrap_or_default(),
            unknown_outputs: report.unknown_outputs.clone(),
            failures: report.failures.iter().map(FailureView::of).collect(),
            skipped: report.skipped.iter().map(skipped).collect(),
            settled: report
                .foreseen
                .iter()
                .map(|(operation, how)| Settlement::of(operation, how))
                .collect(),
            pending: report.pending.iter().map(PendingView::new).collect(),
            interrupted: report.interrupted,
            error: report.source_error.clone(),
            hint: None,
            warnings: Vec::new(),
            belongs_to_other_run: false,
            pending_advice: PendingAdvice::default(),
            parents: parents(&report.steps),
            revision: report.revision.clone(),
            applies: false,
            stopped: None,
        }
    }

    /// The outcome of a run.
    pub(super) fn done(context: &Context, stack: &StackName, mut report: Report) -> Self {
        let stopped = report.stopped_by.take();
        let mut done = Self {
            preview: false,
            applies: true,
            ..Self::planned(context, stack, &report)
        };
        done.hint = done.failures.iter().find_map(FailureView::hint);
        if let Some(error) = stopped {
            done.stop(error.into());
        }
        done
    }

    /// Records the error that stopped the run.
    fn stop(&mut self, error: CliError) {
        self.hint = match error.message.contains(KEPT) {
            // If the store didn't accept a result, the error names the file with the result: the user must record that
            // result first.
            true => Some(ONCE_IT_ANSWERS.to_owned()),
            false => error.hint,
        };
        self.error = Some(error.message);
        self.stopped = Some(error.code);
    }

    /// Completes the outcome of a plan that isn't applied, because there is nothing to do or because planning failed.
    pub(super) fn finish_unapplied(&mut self, revision: Option<RevisionId>, settled: Vec<Settlement>) {
        self.preview = !self.succeeded();
        // Resolving pending operations has already changed the state.
        self.changed |= !settled.is_empty();
        self.applies = true;
        self.settled = settled;
        self.revision = revision;
        if self.preview {
            let untouched = untouched(&self.settled);
            let retry = || format!("{untouched}: fix the failure, then run the command again");
            self.hint.get_or_insert_with(retry);
        }
    }

    /// Adds a warning to a preview: another client holds the lock. With `has_begun`, that client is already changing
    /// the stack.
    pub(super) fn note_holder(&mut self, holder: &Holder, has_begun: bool) {
        if !has_begun {
            let held = format!("the stack is locked by {holder}: this preview may be outdated soon");
            self.warnings.push(held);
            return;
        }
        self.warnings.push(format!(
            "{holder} is changing the stack: pending operations may belong to that run, and this preview may be outdated soon"
        ));
        if !self.pending.is_empty() {
            let wait = "wait until the other run ends, which `statectl lock status` shows, then run the command again";
            self.hint = Some(wait.to_owned());
        }
        for failure in self.failures.iter_mut().filter(|failure| failure.op.is_none()) {
            if let Some(begun) = self.pending.iter().find(|begun| begun.address == failure.address) {
                let reason = format!("the other run has begun to {} it", begun.op);
                failure.reasons = vec![reason];
            }
        }
        self.belongs_to_other_run = true;
    }

    /// Whether both plans make the same changes. If so, a confirmation of one is also a confirmation of the other.
    pub(super) fn has_same_plan(&self, other: &Self) -> bool {
        // Resources that don't depend on each other are planned at once and listed in the order in which their plans
        // ended, which differs from run to run.
        let plan = |outcome: &Self| {
            let steps = outcome.steps.iter().map(serde_json::to_string);
            let mut steps = steps.collect::<Result<Vec<String>, _>>().ok()?;
            steps.sort_unstable();
            serde_json::to_string(&(steps, &outcome.renamed, &outcome.outputs)).ok()
        };
        plan(self).is_some_and(|text| plan(other) == Some(text))
    }

    /// The same outcome with the store and stack that were created for the run.
    pub(super) fn with_target(mut self, target: &Target) -> Self {
        self.created_store = target.created_store;
        self.created_stack = target.created_stack;
        self.warnings.extend(target.warnings.iter().cloned());
        self
    }

    /// Decides how the user can resolve the pending operations. `asked` are those whose outcome the providers couldn't
    /// determine in this run.
    pub(super) fn advise(&mut self, can_confirm: bool, asked: &BTreeSet<MutationId>) {
        let is_asked = |pending: &PendingView| asked.iter().any(|id| id.to_string() == pending.id);
        self.pending_advice = match can_confirm {
            false => PendingAdvice::ConfirmedRefresh,
            true if self.pending.iter().all(is_asked) => PendingAdvice::Resolve,
            true => PendingAdvice::Refresh,
        };
    }

    /// Whether the run or the planning succeeded.
    pub(super) fn succeeded(&self) -> bool {
        self.result == UpdateResult::Succeeded
    }

    /// The exit code. The error that stopped the run takes precedence over failed steps.
    pub(super) fn exit_code(&self, detailed: bool) -> ExitCode {
        let is_unknown = self.applies && !self.pending.is_empty();
        match self.stopped {
            _ if self.interrupted => ExitCode::Interrupted,
            Some(code) => code,
            None if is_unknown => ExitCode::Indeterminate,
            None if !self.succeeded() => ExitCode::Failed,
            None if detailed && self.changed => ExitCode::Differences,
            None => ExitCode::Done,
        }
    }
}

impl FailureView {
    /// How the user can correct a recorded command that fails in each run: a change of the program doesn't reach the commands
    /// of a replaced resource, or of one that the program doesn't declare any more.
    fn hint(&self) -> Option<String> {
        let is_broken = |reason: &String| {
            reason.starts_with("`delete` failed") || reason.starts_with("`delete` can't be started")
        };
        let deposed = self.deposed.as_ref().map(|key| format!(" --deposed {key}"));
        self.reasons.iter().any(is_broken).then(|| {
            format!(
                "if the recorded `delete` is wrong, correct it with `statectl edit {}{}`, then run the command again",
                quoted(&self.address),
                deposed.unwrap_or_default()
            )
        })
    }

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

/// The part of an error message that says that a result is kept in a file.
const KEPT: &str = "is kept in ";

/// The hint for a result that is kept in a file.
const ONCE_IT_ANSWERS: &str =
    "when the store is reachable again, record the result with `statectl pending resolve --from FILE`";

fn renamed((from, to): &(state_core::Address, state_core::Address)) -> Rename {
    Rename {
        from: from.to_string(),
        to: to.to_string(),
    }
}

fn skipped((address, reason): &(state_core::Address, String)) -> SkippedResource {
    SkippedResource {
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
    let changes = diff(&snapshot(old), &snapshot(new)).outputs;
    changes.iter().map(|change| change.masked(mask)).collect()
}
