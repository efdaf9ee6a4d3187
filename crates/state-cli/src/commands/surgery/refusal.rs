//! Refusals as people get them, with what to do.

use crate::error::CliError;
use crate::exit::ExitCode;
use crate::marks::count;
use state_core::State;
use state_core::surgery::{Dependent, Refusal};
use state_core::verify::{Rule, Violation};

/// The error for a refusal; `number` counts the operations of a batch.
pub(super) fn told(refusal: Refusal, state: &State, number: Option<usize>) -> CliError {
    let object = match number {
        None => "the change".to_owned(),
        Some(number) => format!("operation {number}"),
    };
    let new = |code, message: &str| CliError::new(code, object.as_str(), message);
    match refusal {
        Refusal::NoEntry { ref address, .. } => {
            let candidates = state.entries().map(|entry| entry.address.as_str());
            new(ExitCode::NotFound, &refusal.to_string()).with_nearest(
                address.as_str(),
                candidates,
                "`statectl list` lists all of them",
                "see what there is with `statectl list`",
            )
        }
        Refusal::Dependents(dependents) => {
            let message = count(dependents.len(), "reference is", "references are");
            let mut error = new(
                ExitCode::Refused,
                &format!("{message} still made to what would go; nothing was changed"),
            )
            .with_hint("remove what depends on it too: `--cascade`; or only the references: `--force`");
            error.violations = dependents.into_iter().map(still_referenced).collect();
            error
        }
        Refusal::Protected(_) => new(ExitCode::Refused, &refusal.to_string())
            .with_hint("unprotect it first: `statectl unprotect ADDR`; or say `--force`"),
        Refusal::Pending(_) => new(ExitCode::Conflict, &refusal.to_string())
            .with_hint("resolve them first: `statectl pending list`, then `statectl pending resolve ID …`"),
        Refusal::Breaks { violations } => {
            let mut error = new(
                ExitCode::Integrity,
                "it would break integrity rules; nothing was changed",
            );
            error.violations = violations;
            error
        }
        other => new(ExitCode::Conflict, &other.to_string()),
    }
}

fn still_referenced(Dependent { entry, on }: Dependent) -> Violation {
    Violation::of(Rule::StillReferenced, entry, format!("it depends on {on}"))
}
