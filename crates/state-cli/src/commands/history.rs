//! The command `history`: the revisions of a stack.

use crate::context::{CommandResult, Context};
use crate::error::CliError;
use crate::exit::ExitCode;
use crate::marks::count;
use crate::output::{Report, stream_line};
use crate::reading::lost_before;
use crate::render::time::{Since, age};
use serde::Serialize;
use state_core::{Address, Error, Op, RevisionId, Timestamp, UpdateInfo, UpdateResult};
use state_manager::{Revision, RevisionKind, View};
use std::collections::BTreeMap;

/// List revisions, newest first
///
/// With ADDR, only revisions that changed this resource. `@` marks the current revision. With `--json`, each revision is printed as one JSON document per line.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only list revisions that changed this resource
    ///
    /// Follows the resource back through renames. The address is as printed by `list`; it may also be one of a resource
    /// that was deleted.
    #[arg(value_name = "ADDR")]
    address: Option<Address>,
    /// List at most this many revisions
    #[arg(long, short = 'n', value_name = "N")]
    limit: Option<usize>,
    /// Only list revisions since this time
    ///
    /// A duration before now (`2h`, `7d`), a date (`2026-05-30`), or a date and time (RFC 3339).
    #[arg(long, value_name = "WHEN")]
    since: Option<Since>,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Line {
    id: RevisionId,
    serial: u64,
    kind: String,
    current: bool,
    entries: u64,
    /// The later rollback that undid this revision.
    undone_by: Option<RevisionId>,
    #[serde(flatten)]
    update: Option<Details>,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Details {
    who: String,
    host: String,
    message: String,
    start: Timestamp,
    end: Option<Timestamp>,
    result: Option<UpdateResult>,
    counts: BTreeMap<Op, u64>,
    environment: BTreeMap<String, String>,
    parent: Option<RevisionId>,
    restored: Option<RevisionId>,
    forced: bool,
}

impl From<Revision> for Line {
    fn from(revision: Revision) -> Self {
        let (kind, update) = match revision.kind {
            RevisionKind::Update(info) => (info.kind.to_string(), Some(Details::from(*info))),
            RevisionKind::Detached => ("stored".to_owned(), None),
        };
        Self {
            serial: revision.id.serial().get(),
            id: revision.id,
            kind,
            current: revision.current,
            entries: revision.entries,
            undone_by: None,
            update,
        }
    }
}

impl From<UpdateInfo> for Details {
    fn from(info: UpdateInfo) -> Self {
        Self {
            who: info.who,
            host: info.host,
            message: info.message,
            start: info.start,
            end: info.end,
            result: info.result,
            counts: info.counts,
            environment: info.environment,
            parent: info.parent,
            restored: info.restored,
            forced: info.forced,
        }
    }
}

/// The revisions that changed the resource that the user named, at most `limit`; none if the user named no resource.
async fn changes_of(
    view: &View,
    args: &Args,
    limit: usize,
) -> Result<Option<std::vec::IntoIter<Revision>>, CliError> {
    let Some(address) = &args.address else {
        return Ok(None);
    };
    Ok(Some(view.resource_history(address, limit).await?.into_iter()))
}

/// Runs the command `history` and returns its report.
pub(crate) async fn run(context: &Context, args: &Args) -> CommandResult {
    let now = context.now();
    let since = args.since.as_ref();
    let since = since.map(|since| since.moment("--since", &now)).transpose()?;
    let (view, _) = context.store.read_at(None).await?;
    let mut left = args.limit.unwrap_or(usize::MAX);
    let mut changed = changes_of(&view, args, left).await?;
    let mut revisions = view.revisions();
    let begins = revisions.collected_before();
    let mut lines: Vec<Line> = Vec::new();
    let mut undoing = Undoing::default();
    let mut damaged = None;
    while left > 0 {
        let revision = match &mut changed {
            Some(changed) => changed.next(),
            None => match revisions.next_readable().await {
                Ok(revision) => revision,
                // What is left of the history is listed first.
                Err(error) => {
                    keep_damage(&mut damaged, error)?;
                    continue;
                }
            },
        };
        let Some(revision) = revision else {
            break;
        };
        if is_before(since, &revision) {
            break;
        }
        left -= 1;
        let mut line = Line::from(revision);
        undoing.mark(&mut line);
        if !context.output.json {
            lines.push(line);
        } else if !stream_line("history", &line)? {
            break;
        }
    }
    let damaged = damaged.map(CliError::from).or_else(|| lost_before(&view, begins));
    if context.output.json {
        return damaged.map_or_else(|| Ok(Report::empty()), Err);
    }
    let warnings = damaged.as_ref().map(unlisted).into_iter().collect();
    let report = context.report("history", &lines, warnings, |page| {
        if lines.is_empty() {
            page.line(no_revisions(args));
            return;
        }
        page.table(HEADER, lines.iter().map(|line| row(line, &now)));
        if let Some(begins) = begins.filter(|_| left > 0 && since.is_none() && !view.is_rebuilt()) {
            page.line(format_args!(
                "the history begins with serial {begins}: `gc` or `rekey --forget-history` deleted earlier revisions, or \
                 `salvage` left them out"
            ));
        }
    })?;
    Ok(report.with_code_if(damaged.is_some(), ExitCode::Integrity))
}

fn unlisted(error: &CliError) -> String {
    format!("not all revisions are listed: {}", error.message)
}

/// Keeps the first damage that was found. Returns any other error.
fn keep_damage(damaged: &mut Option<Error>, error: Error) -> Result<(), Error> {
    match error {
        Error::Corrupt { .. } => {
            damaged.get_or_insert(error);
            Ok(())
        }
        other => Err(other),
    }
}

/// The columns of the table.
const HEADER: [&str; 8] = [
    "",
    "REVISION",
    "WHEN",
    "WHO",
    "KIND",
    "STEPS",
    "RESOURCES",
    "MESSAGE",
];

/// The text in place of an empty table.
fn no_revisions(args: &Args) -> String {
    match (&args.address, &args.since) {
        (Some(address), _) => format!("no revision changed {address}"),
        (None, None) => "no revisions yet; run `statectl up` or `statectl import FILE`".to_owned(),
        (None, Some(_)) => "no revisions in this time".to_owned(),
    }
}

/// Finds for each revision the later rollback that undid it, if any. Expects the revisions from the newest to the
/// oldest.
#[derive(Default)]
struct Undoing {
    /// The revision that was restored, and the rollback that restored it; all revisions between the two are undone.
    rollback: Option<(RevisionId, RevisionId)>,
}

impl Undoing {
    fn mark(&mut self, line: &mut Line) {
        let Some(update) = &line.update else {
            return;
        };
        match &self.rollback {
            Some((restored, by)) if line.id > *restored => line.undone_by = Some(by.clone()),
            _ => {
                let restored = update.restored.clone();
                self.rollback = restored.map(|restored| (restored, line.id.clone()));
            }
        }
    }
}

/// Whether a revision was written before a point in time; false if its time is unknown.
fn is_before(since: Option<jiff::Timestamp>, revision: &Revision) -> bool {
    let (Some(since), RevisionKind::Update(update)) = (since, &revision.kind) else {
        return false;
    };
    let ended = update.end.as_ref().unwrap_or(&update.start);
    ended
        .as_str()
        .parse::<jiff::Timestamp>()
        .is_ok_and(|ended| ended < since)
}

fn row(line: &Line, now: &Timestamp) -> [String; 8] {
    let mark = if line.current { "@" } else { "o" };
    let update = line.update.as_ref();
    let when = update.map(|update| age(now, update.end.as_ref().unwrap_or(&update.start)));
    let who = update.map(|update| format!("{}@{}", update.who, update.host));
    [
        mark.to_owned(),
        line.id.to_string(),
        when.unwrap_or_default(),
        who.unwrap_or_default(),
        update.map_or_else(|| line.kind.clone(), |update| kind(&line.kind, update)),
        update.map(|update| steps(&update.counts)).unwrap_or_default(),
        count(line.entries, "resource", "resources"),
        message(line),
    ]
}

/// How many characters of a commit id are printed.
const SHORT_COMMIT: usize = 10;

/// The update's message, the commit and CI run of its program, and whether a later rollback undid it.
fn message(line: &Line) -> String {
    let mut parts = Vec::new();
    if let Some(update) = &line.update {
        parts.push(update.message.clone());
        let from = origin(&update.environment);
        parts.extend((!from.is_empty()).then(|| format!("({from})")));
    }
    if let Some(by) = &line.undone_by {
        parts.push(format!("(undone by {})", by.serial()));
    }
    parts.retain(|part| !part.is_empty());
    parts.join(" ")
}

/// The branch, commit and CI run of an update: `main 0123456789, GitHub Actions 17`.
fn origin(environment: &BTreeMap<String, String>) -> String {
    let value = |name: &str| environment.get(name).map(String::as_str);
    let commit = value("git.commit").map(|commit| commit.get(..SHORT_COMMIT).unwrap_or(commit));
    let pairs = [
        (value("git.branch"), commit),
        (value("ci.system"), value("ci.run")),
    ];
    let pairs = pairs.map(|(one, other)| [one, other].into_iter().flatten().collect::<Vec<_>>().join(" "));
    let parts: Vec<String> = pairs.into_iter().filter(|pair| !pair.is_empty()).collect();
    parts.join(", ")
}

/// The kind of an update, with its result if it didn't succeed.
fn kind(kind: &str, update: &Details) -> String {
    let mut text = kind.to_owned();
    if let Some(restored) = &update.restored {
        text.push_str(&format!(" to {}", restored.serial()));
    }
    if let Some(result @ (UpdateResult::Failed | UpdateResult::Interrupted)) = update.result {
        text.push_str(&format!(", {result}"));
    }
    if update.forced {
        text.push_str(", forced");
    }
    text
}

/// Numbers of created, updated and deleted resources: `+1 ~2 -0`.
fn steps(counts: &BTreeMap<Op, u64>) -> String {
    let sum = |ops: &[Op]| {
        // The counts come from the store, which may be forged, so their sum may exceed the range.
        let counted = ops.iter().filter_map(|op| counts.get(op));
        counted.fold(0, |sum: u64, count| sum.saturating_add(*count))
    };
    let (made, changed, gone) = (
        sum(&[Op::Create, Op::Import]),
        sum(&[Op::Update]),
        sum(&[Op::Delete, Op::Discard]),
    );
    if made == 0 && changed == 0 && gone == 0 {
        return String::new();
    }
    format!("+{made} ~{changed} -{gone}")
}

#[cfg(test)]
mod tests {
    use super::steps;
    use state_core::Op;
    use std::collections::BTreeMap;

    #[test]
    fn forged_counts_beyond_the_range_are_printed_as_the_maximum() {
        let counts = BTreeMap::from([(Op::Create, u64::MAX), (Op::Import, 1), (Op::Update, u64::MAX)]);
        assert_eq!(steps(&counts), format!("+{0} ~{0} -0", u64::MAX));
    }
}
