//! A repair, told before it is made.

use crate::context::Context;
use crate::error::CliError;
use crate::exit::ExitCode;
use crate::marks::count;
use crate::render::Page;
use serde::Serialize;
use state_core::repair::{RepairResult, Step};
use state_core::verify::Violation;

/// A step in JSON: what it is, and in words.
#[derive(Serialize)]
pub(crate) struct StepView<'a> {
    #[serde(flatten)]
    step: &'a Step,
    text: String,
}

/// The steps in JSON.
pub(crate) fn steps(repaired: &RepairResult) -> Vec<StepView<'_>> {
    let view = |step| StepView {
        step,
        text: step.to_string(),
    };
    repaired.steps.iter().map(view).collect()
}

/// Prints the steps.
pub(crate) fn print(page: &mut Page, steps: &[Step]) {
    for step in steps {
        page.line(format_args!("  {step}"));
    }
    page.line(count(steps.len(), "step of repair", "steps of repair"));
}

/// Shows the steps at once, before somebody is asked; nothing with `--json`, where they come with the result.
pub(crate) fn announce(context: &Context, repaired: &RepairResult) {
    if !repaired.steps.is_empty() {
        context.output.announce(|page| print(page, &repaired.steps));
    }
}

/// That a repair leaves something broken.
pub(crate) fn beyond(object: &str, remaining: &[Violation]) -> CliError {
    let what = count(remaining.len(), "violation stays", "violations stay");
    let message = format!("{what} that no repair can mend; nothing was changed");
    let mut error = CliError::new(ExitCode::Integrity, object, &message)
        .with_hint("say by hand what belongs there: `statectl edit`, or mend the file before the import");
    error.violations = remaining.to_vec();
    error
}
