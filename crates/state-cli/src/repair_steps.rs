//! The steps of a repair, for display and JSON.

use crate::context::Context;
use crate::error::CliError;
use crate::exit::ExitCode;
use crate::marks::count;
use crate::render::Page;
use serde::Serialize;
use state_core::repair::{RepairResult, Step};
use state_core::verify::Violation;

/// A repair step as JSON, with its description.
#[derive(Serialize)]
pub(crate) struct StepView<'a> {
    #[serde(flatten)]
    step: &'a Step,
    text: String,
}

/// The steps of a repair as JSON.
pub(crate) fn steps(repaired: &RepairResult) -> Vec<StepView<'_>> {
    let view = |step| StepView {
        step,
        text: step.to_string(),
    };
    repaired.steps.iter().map(view).collect()
}

/// Prints the steps of a repair.
pub(crate) fn print(page: &mut Page, steps: &[Step]) {
    for step in steps {
        page.line(format_args!("  {step}"));
    }
    page.line(count(steps.len(), "repair step", "repair steps"));
}

/// Shows the steps on stderr before the confirmation. Prints nothing with `--json`, where the result contains them.
pub(crate) fn announce(context: &Context, repaired: &RepairResult) {
    if !repaired.steps.is_empty() {
        context.output.announce(|page| print(page, &repaired.steps));
    }
}

/// The error for violations that a repair can't fix.
pub(crate) fn unrepairable(object: &str, remaining: &[Violation]) -> CliError {
    let violations = count(remaining.len(), "violation", "violations");
    let message = format!("cannot repair the state: {violations} would remain");
    let mut error = CliError::new(ExitCode::Integrity, object, &message)
        .with_hint("correct the state with `statectl edit`, or the file before the import");
    error.violations = remaining.to_vec();
    error
}
