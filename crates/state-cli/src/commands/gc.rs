//! The command `gc`: drops old revisions from the history, and deletes their files after a grace period.

use crate::context::{CommandResult, Context};
use crate::marks::count;
use crate::render::Page;
use crate::render::time::duration;
use crate::reserve::with_reserve;
use serde::Serialize;
use state_manager::{Amount, CollectionReport, Retention, Session};
use std::time::Duration;

/// Delete old revisions and unused files
///
/// A revision is kept if it is younger than `--keep-days`, among the last `--keep-revisions`, or current. Dropped revisions
/// disappear from the history at once. The first `gc` after the grace period deletes their files, so that concurrent
/// readers can finish. Key files that nothing needs are deleted the same way, and temporary files of crashed processes
/// once they are as old as the grace period, at least an hour. Works on a full disk.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Keep revisions younger than this many days
    #[arg(long, value_name = "N", default_value_t = 30)]
    keep_days: u32,
    /// Keep this many of the last revisions, regardless of age
    #[arg(long, value_name = "N", default_value_t = 100)]
    keep_revisions: usize,
    /// Keep the files of dropped revisions this long: `24h`, `7d`
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = duration)]
    grace: Duration,
    /// Only show what would be deleted
    #[arg(long)]
    dry_run: bool,
}

impl Args {
    fn retention(&self) -> Retention {
        let mut retention = Retention::default();
        retention.keep_for = Duration::from_secs(u64::from(self.keep_days) * 24 * 60 * 60);
        retention.keep_last = self.keep_revisions;
        retention.grace = self.grace;
        retention
    }
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct GcReport {
    stack: String,
    dry_run: bool,
    #[serde(flatten)]
    report: CollectionReport,
}

/// Runs the command `gc` and returns its report.
pub(crate) async fn run(context: &Context, args: &Args) -> CommandResult {
    let stack = context.store.open_stack().await?;
    let retention = args.retention();
    let planned = stack.plan_collection(&retention).await?;
    let collected = |dry_run, report| GcReport {
        stack: stack.name().to_string(),
        dry_run,
        report,
    };
    if !args.dry_run && planned.is_idle() {
        // A deletion that was killed may have left no reserve. Users who can only read the store can't make one.
        drop(stack.restore_reserve().await);
    }
    if args.dry_run || planned.is_idle() {
        return report(context, &collected(args.dry_run, planned), Vec::new());
    }
    let planned = collected(true, planned);
    context.output.announce(|page| print(page, &planned));
    let object = format!("stack {}", stack.name().short());
    context.prompt.confirm(&object, &question(&object, &planned))?;
    let work = async |session: &Session| Ok(session.collect(&retention).await?);
    let collected_now = context.store.locked(&stack, "gc", work);
    let (done, warnings) = with_reserve(&stack, collected_now).await?;
    report(context, &collected(false, done), warnings)
}

fn question(object: &str, planned: &GcReport) -> String {
    if planned.report.dropped.is_empty() {
        return format!("Delete the unused files of {object}?");
    }
    let dropped = count(planned.report.dropped.len(), "revision", "revisions");
    format!("Delete {dropped} of {object} permanently?")
}

fn report(context: &Context, collection: &GcReport, warnings: Vec<String>) -> CommandResult {
    context.report("gc", collection, warnings, |page| print(page, collection))
}

fn print(page: &mut Page, collection: &GcReport) {
    let report = &collection.report;
    let would = if collection.dry_run { "would be " } else { "" };
    if let [first, .., last] = &*report.dropped {
        let dropped = count(report.dropped.len(), "revision", "revisions");
        page.line(format_args!("{would}dropped: {dropped}, {first} to {last}"));
    } else if let [only] = &*report.dropped {
        page.line(format_args!("{would}dropped: revision {only}"));
    }
    if !report.forgotten.is_empty() {
        let forgotten = count(report.forgotten.len(), "deleted revision", "deleted revisions");
        page.line(format_args!(
            "{would}scheduled for deletion: the files of {forgotten}"
        ));
    }
    if report.unneeded_keys > 0 {
        let keys = count(report.unneeded_keys, "key file", "key files");
        page.line(format_args!(
            "{would}scheduled for deletion: {keys} that nothing needs"
        ));
    }
    if report.deleted.files > 0 {
        page.line(format_args!("{would}deleted: {}", amount(report.deleted)));
    }
    if report.temporary.files > 0 {
        let temporary = amount(report.temporary);
        page.line(format_args!(
            "{would}deleted: {temporary}, temporary files of crashed processes"
        ));
    }
    if let Some(waiting) = &report.waiting {
        page.line(format_args!(
            "{} in the grace period: {}, deleted by the first `gc` after {}",
            if collection.dry_run && !report.dropped.is_empty() {
                "would be"
            } else {
                "kept"
            },
            amount(waiting.amount),
            waiting.until
        ));
    }
    if report.is_idle() {
        page.line("nothing to delete now");
    }
    let kept = count(report.kept, "revision", "revisions");
    let oldest = report.oldest.as_ref();
    let oldest = oldest.map_or_else(String::new, |oldest| format!(", the oldest is {oldest}"));
    page.line(format_args!("kept: {kept}{oldest}"));
    if report.held_back > 0 {
        page.line(format_args!(
            "{} kept only because the journal can't be cut at a later revision",
            count(report.held_back, "revision is", "revisions are")
        ));
    }
}

fn amount(Amount { files, bytes }: Amount) -> String {
    let files = count(files, "file", "files");
    format!("{files}, {}", size(bytes))
}

/// A number of bytes in the largest fitting decimal unit.
fn size(bytes: u64) -> String {
    let units = ["kB", "MB", "GB", "TB"];
    let mut unit = None;
    let (mut whole, mut tenths) = (bytes, 0);
    for next in units {
        if whole < 1000 {
            break;
        }
        (whole, tenths, unit) = (whole / 1000, whole % 1000 / 100, Some(next));
    }
    match unit {
        None => count(bytes, "byte", "bytes"),
        Some(unit) => format!("{whole}.{tenths} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn sizes_use_the_largest_fitting_unit() {
        for (bytes, text) in [
            (0, "0 bytes"),
            (1, "1 byte"),
            (999, "999 bytes"),
            (1_000, "1.0 kB"),
            (65_536, "65.5 kB"),
            (2_340_000, "2.3 MB"),
            (u64::MAX, "18446744.0 TB"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }
}
