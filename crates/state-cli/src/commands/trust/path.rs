//! `trust path`: accepts a store or a settings file of another owner.

use super::no_memory;
use crate::context::{CommandResult, Context};
use crate::trusted::TrustedPaths;
use serde::Serialize;
use std::path::Path;

#[derive(Serialize)]
struct PathReport {
    path: String,
}

/// Runs `trust path` and returns its report.
pub(super) fn run(context: &Context, path: &Path) -> CommandResult {
    let object = path.display().to_string();
    let Some(trusted) = TrustedPaths::of_user() else {
        return Err(no_memory(object));
    };
    let question = format!("Use {object} although other users may change it?");
    context.prompt.confirm(&object, &question)?;
    let accepted = trusted.accept(path)?;
    let report = PathReport {
        path: accepted.display().to_string(),
    };
    context.report("trust-path", &report, Vec::new(), |page| {
        page.line(format_args!("this client trusts {}", report.path));
    })
}
