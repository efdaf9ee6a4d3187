//! The command `find`: searches the resources of a stack.

use crate::context::{CommandResult, Context};
use crate::entry::EntryLine;
use crate::marks::{StackStatus, count, first};
use crate::query::{self, Term};
use crate::reading::{At, Reading};
use crate::render::Style;
use serde::Serialize;
use state_core::PendingOperation;

/// How many matching fields of a resource are printed on a terminal.
const MAX_FIELDS: usize = 5;

/// Find resources by address, kind, id or value
///
/// A resource must match all terms. A plain word is searched, ignoring case, in addresses, kinds, ids and values. A word
/// with a field name in front is a pattern for that whole field: `kind:aws_*`, `id:i-*`, `address:`, `provider:`,
/// `uid:`, `mark:tainted`. Sensitive values are never searched.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Search terms, for example `kind:aws_* id:i-* text`
    #[arg(required = true, value_name = "QUERY")]
    query: Vec<String>,
    #[command(flatten)]
    at: At,
}

#[derive(Serialize)]
struct SearchReport {
    #[serde(flatten)]
    status: StackStatus,
    matches: Vec<Match>,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Match {
    #[serde(flatten)]
    entry: EntryLine,
    /// The matching fields; values are named by their JSON pointer without its first slash.
    found_in: Vec<String>,
}

/// Runs the command `find` and returns its report.
pub(crate) async fn run(context: &Context, args: &Args) -> CommandResult {
    let terms: Vec<Term> = args
        .query
        .iter()
        .flat_map(|word| word.split_whitespace())
        .map(Term::parse)
        .collect();
    let reading = Reading::open(context, &args.at).await?;
    let pending: Vec<&PendingOperation> = reading.state.pending().collect();
    let matches = reading.state.entries().filter_map(|entry| {
        let found_in = query::matches(&terms, entry, &pending)?;
        Some(Match {
            entry: EntryLine::new(entry, &pending, context.settings.mask()),
            found_in,
        })
    });
    let report = SearchReport {
        matches: matches.collect(),
        status: reading.status,
    };
    let warnings = report.status.warnings();
    context.report("find", &report, warnings, |page| {
        for found in &report.matches {
            page.styled(Style::Plain, &found.entry.name());
            if context.output.terminal.stdout {
                let places = first(MAX_FIELDS, &found.found_in, ", ");
                page.styled(Style::Dim, &format!("  {places}"));
            }
            page.space("\n");
        }
        if context.output.terminal.stdout {
            page.line(count(report.matches.len(), "match", "matches"));
        }
    })
}
