//! `list`: the entries of a stack.

use crate::context::Context;
use crate::entry::EntryLine;
use crate::error::CliError;
use crate::glob;
use crate::marks::Standing;
use crate::output::Report;
use crate::reading::{At, Reading};
use crate::render::table::Table;
use serde::Serialize;
use state_core::PendingOperation;

/// List the entries, in an order in which each stands after what it depends on.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only addresses that match: `*` is any text, `?` one character, all else is literal.
    #[arg(value_name = "GLOB")]
    glob: Option<String>,
    /// Print kind, id and marks too. What a terminal gets anyway.
    #[arg(long, short)]
    long: bool,
    #[command(flatten)]
    at: At,
}

#[derive(Serialize)]
struct Listed {
    #[serde(flatten)]
    standing: Standing,
    entries: Vec<EntryLine>,
}

/// Lists.
pub(crate) async fn run(context: &Context, args: &Args) -> Result<Report, CliError> {
    let reading = Reading::open(context, &args.at).await?;
    let pending: Vec<&PendingOperation> = reading.state.pending().collect();
    let is_wanted = |address: &str| {
        args.glob
            .as_ref()
            .is_none_or(|pattern| glob::matches(pattern, address))
    };
    let listed = Listed {
        entries: reading
            .state
            .entries()
            .filter(|entry| is_wanted(entry.address.as_str()))
            .map(|entry| EntryLine::new(entry, &pending, context.global.show_secrets))
            .collect(),
        standing: reading.standing,
    };
    let warnings = listed.standing.warnings();
    let is_long = args.long || context.terminal.stdout;
    Report::new(context, "list", &listed, warnings, |page| {
        if !is_long {
            for entry in &listed.entries {
                page.line(entry.name());
            }
        } else if !listed.entries.is_empty() {
            let mut table = Table::new(["ADDRESS", "KIND", "ID", "MARKS"]);
            for entry in &listed.entries {
                table.row([
                    entry.name(),
                    entry.kind.clone().unwrap_or_else(|| entry.entry_type.to_owned()),
                    entry.id.clone().unwrap_or_default(),
                    entry.marks.join(", "),
                ]);
            }
            table.print(page);
        }
    })
}
