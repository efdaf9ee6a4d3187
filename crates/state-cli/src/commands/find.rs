//! `find`: the entries that have something.

use crate::context::{CommandResult, Context};
use crate::entry::EntryLine;
use crate::marks::{ResourceStatus, count, first};
use crate::query::{self, Term};
use crate::reading::{At, Reading};
use crate::render::Style;
use serde::Serialize;
use state_core::PendingOperation;

/// How many places of an entry a person is told.
const TOLD: usize = 5;

/// Find entries by address, kind, id or value. Sensitive values are never searched.
///
/// Entries must have all terms. A plain word is looked for everywhere, in any case: addresses, kinds, ids, values. With a
/// place in front it is a pattern for the whole of it: `kind:aws_*`, `id:i-*`, `address:`, `provider:`, `uid:`,
/// `mark:tainted`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to look for: `kind:aws_* id:i-* text`.
    #[arg(required = true, value_name = "QUERY")]
    query: Vec<String>,
    #[command(flatten)]
    at: At,
}

#[derive(Serialize)]
struct Listed {
    #[serde(flatten)]
    standing: ResourceStatus,
    matches: Vec<Match>,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Match {
    #[serde(flatten)]
    entry: EntryLine,
    /// Fields, and values by JSON pointer without its first slash.
    found_in: Vec<String>,
}

/// Finds.
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
    let listed = Listed {
        matches: matches.collect(),
        standing: reading.standing,
    };
    let warnings = listed.standing.warnings();
    context.report("find", &listed, warnings, |page| {
        for found in &listed.matches {
            page.styled(Style::Plain, &found.entry.name());
            if context.output.terminal.stdout {
                let places = first(TOLD, &found.found_in, ", ");
                page.styled(Style::Dim, &format!("  {places}"));
            }
            page.space("\n");
        }
        if context.output.terminal.stdout {
            page.line(count(listed.matches.len(), "match", "matches"));
        }
    })
}
