//! The command `list`: the resources of a stack.

use crate::context::{CommandResult, Context};
use crate::entry::EntryLine;
use crate::glob;
use crate::marks::StackStatus;
use crate::output::{Report, print_document};
use crate::reading::{At, Reading};
use serde::{Serialize, Serializer};
use state_core::mask::Mask;
use state_core::{Entry, PendingOperation};

/// List resources in dependency order
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only list addresses that match this pattern
    ///
    /// `*` matches any text, `?` matches one character, and every other character matches itself.
    #[arg(value_name = "GLOB")]
    glob: Option<String>,
    /// Also print kind, id and marks; the default on a terminal
    #[arg(long, short)]
    long: bool,
    #[command(flatten)]
    at: At,
}

#[derive(Serialize)]
struct ListReport<'a> {
    #[serde(flatten)]
    status: &'a StackStatus,
    entries: Lines<'a>,
}

/// Resources whose lines are built one by one while they are printed, so that a large state is in memory only once.
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

/// Runs the command `list` and returns its report.
pub(crate) async fn run(context: &Context, args: &Args) -> CommandResult {
    let reading = Reading::open(context, &args.at).await?;
    let is_wanted = |entry: &&Entry| {
        let pattern = args.glob.as_ref();
        pattern.is_none_or(|pattern| glob::matches(pattern, entry.address.as_str()))
    };
    let entries = reading.state.entries().map(|entry| &**entry);
    let list = ListReport {
        entries: Lines {
            entries: entries.filter(is_wanted).collect(),
            pending: reading.state.pending().collect(),
            mask: context.settings.mask(),
        },
        status: &reading.status,
    };
    let warnings = list.status.warnings();
    if context.output.json {
        print_document("list", &list, &context.with_standings(warnings))?;
        return Ok(Report::empty());
    }
    let is_long = args.long || context.output.terminal.stdout;
    context.report("list", &list, warnings, |page| {
        if !is_long {
            for entry in list.entries.iter() {
                page.line(entry.name());
            }
        } else if !list.entries.entries.is_empty() {
            let rows = list.entries.iter().map(|entry| {
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
