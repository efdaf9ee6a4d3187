//! The command `show`: all details of one resource.

use crate::context::{CommandResult, Context};
use crate::entry::{EntryView, PendingView};
use crate::marks::StackStatus;
use crate::reading::{At, Reading};
use crate::render::Page;
use crate::resource_arg::ResourceArg;
use serde::Serialize;
use state_core::edits::selected;
use std::fmt::Display;

/// Show a resource with its dependencies and dependents
///
/// The address of a group or module shows all resources in it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The address of a resource, group or module, as printed by `list`
    #[arg(value_name = "ADDR")]
    address: ResourceArg,
    #[command(flatten)]
    at: At,
}

#[derive(Serialize)]
struct ShowReport {
    #[serde(flatten)]
    status: StackStatus,
    /// The live resource first, then the replaced ones that still have to be deleted.
    entries: Vec<EntryView>,
}

/// Runs the command `show` and returns its report.
pub(crate) async fn run(context: &Context, args: &Args) -> CommandResult {
    let reading = Reading::open(context, &args.at).await?;
    let state = &reading.state;
    let entries: Vec<EntryView> = selected(state, &args.address.address)
        .into_iter()
        .filter(|entry| args.address.names(&entry.key()))
        .map(|entry| EntryView::new(state, entry, context.settings.mask()))
        .collect();
    if entries.is_empty() {
        return Err(reading.missing(&args.address));
    }
    let shown = ShowReport {
        status: reading.status,
        entries,
    };
    let warnings = shown.status.warnings();
    context.report("show", &shown, warnings, |page| {
        for (index, entry) in shown.entries.iter().enumerate() {
            if index > 0 {
                page.space("\n");
            }
            print(page, entry);
        }
    })
}

fn print(page: &mut Page, entry: &EntryView) {
    let line = &entry.line;
    page.heading(&line.name());
    page.field("type", line.entry_type);
    let uid = line.uid.map(|uid| uid.to_string());
    let created = entry.created.as_ref().map(ToString::to_string);
    let modified = entry.modified.as_ref().map(ToString::to_string);
    for (name, value) in [
        ("kind", &line.kind),
        ("id", &line.id),
        ("uid", &uid),
        ("library", &entry.library),
        ("provider", &entry.provider),
        ("parent", &line.parent),
        ("created", &created),
        ("modified", &modified),
    ] {
        if let Some(value) = value {
            page.field(name, value);
        }
    }
    if !line.marks.is_empty() {
        page.field("marks", line.marks.join(", "));
    }
    for error in &entry.init_errors {
        page.field("error", error);
    }
    for (name, side) in [("inputs", &entry.inputs), ("outputs", &entry.outputs)] {
        if let Some(side) = side {
            page.heading(name);
            page.block(&side.pretty());
        }
    }
    names(page, "depends on", &entry.depends_on);
    names(page, "needed by", &entry.dependents);
    let pending = |operation: &PendingView| format!("{} ({})", operation.op, operation.id);
    let pending: Vec<String> = entry.pending.iter().map(pending).collect();
    names(page, "pending", &pending);
}

fn names(page: &mut Page, heading: &str, names: &[impl Display]) {
    if !names.is_empty() {
        page.heading(heading);
    }
    for name in names {
        page.line(format_args!("  {name}"));
    }
}
