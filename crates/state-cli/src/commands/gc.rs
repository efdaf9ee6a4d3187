//! `gc`: drop the history that nobody asks for any more, and delete it a grace later.

use crate::context::{CommandResult, Context};
use crate::marks::count;
use crate::render::Page;
use crate::render::time::duration;
use serde::Serialize;
use state_manager::{Amount, CollectionReport, Retention, Session};
use std::time::Duration;

/// Drop old revisions, and delete what was dropped a grace ago.
///
/// A revision is kept if it is young enough or among the last ones; the current one always is. What is dropped is gone
/// from the history at once; the next `gc` after the grace deletes its files.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Keep every revision that is younger than so many days.
    #[arg(long, value_name = "N", default_value_t = 30)]
    keep_days: u32,
    /// Keep so many of the last revisions, however old.
    #[arg(long, value_name = "N", default_value_t = 100)]
    keep_revisions: usize,
    /// How long the files of what was dropped stay for those who are reading: `24h`, `7d`.
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = duration)]
    grace: Duration,
    /// Only tell what would be dropped and deleted.
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
struct Collected {
    stack: String,
    dry_run: bool,
    #[serde(flatten)]
    report: CollectionReport,
}

/// Collects.
pub(crate) async fn run(context: &Context, args: &Args) -> CommandResult {
    let stack = context.store.open_stack().await?;
    let retention = args.retention();
    let planned = stack.plan_collection(&retention).await?;
    let collected = |dry_run, report| Collected {
        stack: stack.name().to_string(),
        dry_run,
        report,
    };
    if args.dry_run || planned.is_idle() {
        return report(context, &collected(args.dry_run, planned), Vec::new());
    }
    let planned = collected(true, planned);
    context.output.announce(|page| tell(page, &planned));
    let object = format!("stack {}", stack.name().short());
    context.prompt.confirm(&object, &question(&object, &planned))?;
    let work = async |session: &Session| Ok(session.collect(&retention).await?);
    let (done, warnings) = context.store.locked(&stack, "gc", work).await?;
    report(context, &collected(false, done), warnings)
}

fn question(object: &str, planned: &Collected) -> String {
    if planned.report.dropped.is_empty() {
        return format!("Delete what {object} doesn't need any more?");
    }
    let dropped = count(planned.report.dropped.len(), "revision", "revisions");
    format!("Drop {dropped} of {object} for good?")
}

fn report(context: &Context, describe: &Collected, warnings: Vec<String>) -> CommandResult {
    context.report("gc", describe, warnings, |page| tell(page, describe))
}

fn tell(page: &mut Page, describe: &Collected) {
    let report = &describe.report;
    let would = if describe.dry_run { "would be " } else { "" };
    if let [first, .., last] = &*report.dropped {
        let dropped = count(report.dropped.len(), "revision", "revisions");
        page.line(format_args!("{would}dropped: {dropped}, {first} to {last}"));
    } else if let [only] = &*report.dropped {
        page.line(format_args!("{would}dropped: revision {only}"));
    }
    if !report.forgotten.is_empty() {
        let forgotten = count(report.forgotten.len(), "deleted revision", "deleted revisions");
        page.line(format_args!("{would}dropped: the files of {forgotten}"));
    }
    if report.deleted.files > 0 {
        page.line(format_args!("{would}deleted: {}", amount(report.deleted)));
    }
    if let Some(waiting) = &report.waiting {
        page.line(format_args!(
            "{} for the grace: {}, to be deleted by a `gc` after {}",
            if describe.dry_run && !report.dropped.is_empty() {
                "would wait"
            } else {
                "waiting"
            },
            amount(waiting.amount),
            waiting.until
        ));
    }
    if report.dropped.is_empty() && report.forgotten.is_empty() && report.deleted.files == 0 {
        page.line("nothing to collect now");
    }
    let kept = count(report.kept, "revision", "revisions");
    let oldest = report.oldest.as_ref();
    let oldest = oldest.map_or_else(String::new, |oldest| format!(", the oldest is {oldest}"));
    page.line(format_args!("kept: {kept}{oldest}"));
    if report.held_back > 0 {
        page.line(format_args!(
            "{} of them only because the journal can't be cut there",
            report.held_back
        ));
    }
}

fn amount(Amount { files, bytes }: Amount) -> String {
    let files = count(files, "file", "files");
    format!("{files}, {}", size(bytes))
}

/// Bytes in the unit in which they are easily read.
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
    fn sizes_are_told_in_a_unit_that_is_easily_read() {
        for (bytes, describe) in [
            (0, "0 bytes"),
            (1, "1 byte"),
            (999, "999 bytes"),
            (1_000, "1.0 kB"),
            (65_536, "65.5 kB"),
            (2_340_000, "2.3 MB"),
            (u64::MAX, "18446744.0 TB"),
        ] {
            assert_eq!(size(bytes), describe);
        }
    }
}
