//! The command `diff`: compares two revisions, resource by resource and property by property.

use crate::context::{CommandResult, Context};
use crate::error::CliError;
use crate::exit::ExitCode;
use crate::reading::opened;
use crate::render::Page;
use crate::render::time::Since;
use serde::Serialize;
use state_core::diff::{MaskedDiff, diff};
use state_core::{RevisionId, Snapshot, Timestamp};
use state_manager::{RevisionSpec, View};
use std::collections::BTreeMap;

/// Show changes between two revisions
///
/// Long values are shortened; `--json` prints them in full.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The old revision [default: the one before the latest state]
    ///
    /// A revision is named by its id, a prefix of its id, its serial, `@` (current) or `@-` (the one before).
    #[arg(value_name = "OLD")]
    old: Option<RevisionSpec>,
    /// The new revision [default: the latest state]
    #[arg(value_name = "NEW", requires = "old")]
    new: Option<RevisionSpec>,
    /// Compare the latest state with the one at this time
    ///
    /// A duration before now (`2h`, `7d`), a date (`2026-05-30`), or a date and time (RFC 3339).
    #[arg(long, value_name = "WHEN", conflicts_with = "old")]
    since: Option<Since>,
    /// Exit with code 3 if there are differences
    #[arg(long)]
    detailed_exitcode: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct DiffReport {
    stack: String,
    /// The old revision; none means the empty state before the first revision.
    old: Option<RevisionId>,
    /// The new revision; none means the latest state, if no revision holds it yet.
    new: Option<RevisionId>,
    #[serde(flatten)]
    diff: MaskedDiff,
}

/// Runs the command `diff` and returns its report.
pub(crate) async fn run(context: &Context, args: &Args) -> CommandResult {
    let compared = match (latest_view(context).await, &args.old, &args.new) {
        (Ok(view), ..) => compared(context, args, view).await?,
        // The latest state isn't needed, so each revision is read by itself.
        (Err(refused), Some(old), Some(new)) if refused.code == ExitCode::Integrity => {
            let (_, old) = context.store.read_at(Some(old)).await?;
            let (view, new) = context.store.read_at(Some(new)).await?;
            let [Some(old), Some(new)] = [old, new] else {
                return Err(refused);
            };
            let [old, new] = [old, new].map(|(id, snapshot)| (Some(id), snapshot));
            Comparison { view, old, new }
        }
        (Err(refused), ..) => return Err(refused),
    };
    print_comparison(context, args, compared).await
}

/// The latest state, also beside damage that it doesn't need.
async fn latest_view(context: &Context) -> Result<View, CliError> {
    Ok(context.store.read_at(None).await?.0)
}

/// Two snapshots to compare.
struct Comparison {
    /// The stack, whose keys open the values of both.
    view: View,
    old: RevisionSnapshot,
    new: RevisionSnapshot,
}

/// Reads the two snapshots that the arguments name.
async fn compared(context: &Context, args: &Args, view: View) -> Result<Comparison, CliError> {
    let settled = settled(context, &view).await?;
    let latest = || (settled.clone(), view.snapshot());
    let (old, new) = if let Some(since) = &args.since {
        let since = since.moment("--since", &context.now())?;
        let old = before(&view, since).await?;
        (old.as_ref().map(RevisionSpec::of), latest())
    } else {
        let new = match &args.new {
            Some(wanted) => read(context, &view, wanted).await?,
            None => latest(),
        };
        let old = match &args.old {
            Some(wanted) => Some(wanted.clone()),
            None if settled.is_none() => view.state.current().map(RevisionSpec::of),
            // In a rebuilt history, the one before may be lost.
            None if view.is_rebuilt() => Some(RevisionSpec::previous()),
            None => view.previous_update().await??.as_ref().map(RevisionSpec::of),
        };
        (old, new)
    };
    let old = match old {
        Some(wanted) => read(context, &view, &wanted).await?,
        None => (None, empty_snapshot(&new.1)),
    };
    Ok(Comparison { view, old, new })
}

async fn print_comparison(context: &Context, args: &Args, compared: Comparison) -> CommandResult {
    let Comparison { view, old, new } = compared;
    let ((old, old_snapshot), (new, new_snapshot)) = (old, new);
    // Different data keys encrypt the same value to different bytes: compare decrypted values where possible.
    let open = async |snapshot| match context.settings.show_secrets {
        true => view.reveal(snapshot).await,
        false => opened(&view, snapshot).await,
    };
    let opened = (
        open(old_snapshot.clone()).await?,
        open(new_snapshot.clone()).await?,
    );
    // Under the policy `all`, values are sealed that no mark covers.
    let diff = diff(&opened.0, &opened.1).with_sealed(&old_snapshot, &new_snapshot);
    let compared = DiffReport {
        stack: view.name.to_string(),
        old,
        new,
        diff: diff.masked(context.settings.mask()),
    };
    let report = context.report("diff", &compared, Vec::new(), |page| print(page, &compared))?;
    let differs = args.detailed_exitcode && !compared.diff.identical;
    Ok(report.with_code_if(differs, ExitCode::Differences))
}

/// The revision that was current at a time; `None` before the first one.
///
/// # Errors
/// If the history of that time was deleted.
async fn before(view: &View, since: jiff::Timestamp) -> Result<Option<RevisionId>, CliError> {
    let mut revisions = view.revisions();
    if let Some(revision) = revisions.next_before(&Timestamp::new(since.to_string())).await? {
        return Ok(Some(revision));
    }
    match revisions.collected_before() {
        None => Ok(None),
        Some(begins) => {
            let reason = format!("history begins at serial {begins}, after this time");
            Err(CliError::usage("--since", &reason))
        }
    }
}

/// A snapshot and the revision that holds it.
type RevisionSnapshot = (Option<RevisionId>, Snapshot);

async fn read(context: &Context, view: &View, wanted: &RevisionSpec) -> Result<RevisionSnapshot, CliError> {
    let (id, snapshot) = context.store.revision(view, wanted).await?;
    Ok((Some(id), snapshot))
}

/// The current revision, if it holds the latest state. `None` while an update is open, or if a pending operation was
/// resolved after the revision was written.
async fn settled(context: &Context, view: &View) -> Result<Option<RevisionId>, CliError> {
    let Some(current) = view.state.current().filter(|_| !view.update_open()) else {
        return Ok(None);
    };
    let (_, committed) = context.store.revision(view, &RevisionSpec::of(current)).await?;
    let tip = view.snapshot();
    let is_settled = tip.entries == committed.entries && tip.outputs == committed.outputs;
    Ok(is_settled.then(|| current.clone()))
}

/// The empty state before the first revision.
fn empty_snapshot(snapshot: &Snapshot) -> Snapshot {
    Snapshot {
        entries: Vec::new(),
        outputs: BTreeMap::new(),
        ..snapshot.clone()
    }
}

fn print(page: &mut Page, compared: &DiffReport) {
    let named =
        |id: &Option<RevisionId>, none: &str| id.as_ref().map_or(none.to_owned(), ToString::to_string);
    page.heading(&format!(
        "{} → {}",
        named(&compared.old, "nothing"),
        named(&compared.new, "latest state (not in a revision yet)")
    ));
    for line in compared.diff.lines() {
        page.diff_line(&line);
    }
    page.line(summary(&compared.diff));
}

fn summary(diff: &MaskedDiff) -> String {
    if diff.identical {
        return "no differences".to_owned();
    }
    let mut text = format!(
        "{} added, {} changed, {} moved, {} removed",
        diff.added.len(),
        diff.changed.len(),
        diff.moved.len(),
        diff.removed.len()
    );
    if !diff.outputs.is_empty() {
        text.push_str("; outputs changed");
    }
    text
}
