//! The command `blame`: finds the revision that last changed each property of a resource.

use crate::context::{CommandResult, Context};
use crate::exit::ExitCode;
use crate::reading::{At, Reading, lost_before};
use crate::render::time::age;
use serde::Serialize;
use state_core::{Address, ErrorKind, RevisionId};
use state_manager::MaskedBlame;

/// Show which revision last changed each property
///
/// Prints the revision, its author and its time for each property of a resource. Follows moves of the resource. If the history
/// doesn't reach back to the change of a property, warns, and exits with 14 if damage is the cause.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The resource's address, as printed by `list`
    #[arg(value_name = "ADDR")]
    address: Address,
    #[command(flatten)]
    at: At,
}

#[derive(Serialize)]
struct BlameReport {
    stack: String,
    #[serde(flatten)]
    blame: MaskedBlame,
}

/// Runs the command `blame` and returns its report.
pub(crate) async fn run(context: &Context, args: &Args) -> CommandResult {
    let reading = Reading::open(context, &args.at).await?;
    let at = reading.status.at.as_ref();
    let blame = match reading.view.blame(&args.address, at).await {
        Err(error) if error.kind() == ErrorKind::NotFound => return Err(reading.missing(&args.address)),
        other => other?,
    };
    let blamed = BlameReport {
        stack: reading.status.stack.clone(),
        blame: blame.masked(context.settings.mask()),
    };
    let now = context.now();
    let mut warnings = reading.status.warnings();
    let begins = reading.view.revisions().collected_before();
    let is_first = |revision: &RevisionId| begins.is_some_and(|begins| revision.serial() <= begins);
    let mut named = blamed.blame.properties.iter().flat_map(|line| &line.revision);
    let begins = begins.filter(|_| named.any(is_first));
    let damaged = lost_before(&reading.view, begins);
    if let Some(begins) = begins {
        warnings.push(format!(
            "properties of the revision with serial {begins} may be older: the history begins with it"
        ));
    }
    let report = context.report("blame", &blamed, warnings, |page| {
        let rows = blamed
            .blame
            .properties
            .iter()
            .map(|line| line.cells(|when| age(&now, when)));
        page.table(["REVISION", "WHO", "WHEN", "PROPERTY", "VALUE"], rows);
    })?;
    Ok(report.with_code_if(damaged.is_some(), ExitCode::Integrity))
}
