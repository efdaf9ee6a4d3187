//! `list`: the entries of a stack.

use crate::context::{CommandResult, Context};
use crate::entry::EntryLine;
use crate::glob;
use crate::marks::ResourceStatus;
use crate::output::{Report, print_document};
use crate::reading::{At, Reading};
use serde::{Serialize, Serializer};
use state_core::mask::Mask;
use state_core::{Entry, PendingOperation};

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
struct Listed<'a> {
    #[serde(flatten)]
    standing: &'a ResourceStatus,
    entries: Lines<'a>,
}

/// Entries whose lines are made one by one as they are printed: a large state is never held twice.
struct Lines<'a> {
    entries: Vec<&'a Entry>,
    pending: Vec<&'a PendingOperation>,
    mask: Mask,
}

impl Lines<'_> {
    fn iter(&self) -> impl Iterator<Item = EntryLine> {
        let entries = self.entries.iter();
        entries.map(|entry| EntryLine::new(entry, &self.pending, self.mask))
    }
}

impl Serialize for Lines<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

/// Lists.
pub(crate) async fn run(context: &Context, args: &Args) -> CommandResult {
    let reading = Reading::open(context, &args.at).await?;
    let is_wanted = |entry: &&Entry| {
        let pattern = args.glob.as_ref();
        pattern.is_none_or(|pattern| glob::matches(pattern, entry.address.as_str()))
    };
    let entries = reading.state.entries().map(|entry| &**entry);
    let listed = Listed {
        entries: Lines {
            entries: entries.filter(is_wanted).collect(),
            pending: reading.state.pending().collect(),
            mask: context.settings.mask(),
        },
        standing: &reading.standing,
    };
    let warnings = listed.standing.warnings();
    if context.output.json {
        print_document("list", &listed, &warnings)?;
        return Ok(Report::empty());
    }
    let is_long = args.long || context.output.terminal.stdout;
    context.report("list", &listed, warnings, |page| {
        if !is_long {
            for entry in listed.entries.iter() {
                page.line(entry.name());
            }
        } else if !listed.entries.entries.is_empty() {
            let rows = listed.entries.iter().map(|entry| {
                [
                    entry.name(),
                    entry.kind.unwrap_or_else(|| entry.entry_type.to_owned()),
                    entry.id.unwrap_or_default(),
                    entry.marks.join(", "),
                ]
            });
            page.table(["ADDRESS", "KIND", "ID", "MARKS"], rows);
        }
    })
}
