//! `history`: the revisions of a stack.

use crate::context::{CommandResult, Context};
use crate::marks::count;
use crate::output::{Report, stream_line};
use crate::render::time::{Since, age};
use serde::Serialize;
use state_core::{Op, RevisionId, Timestamp, UpdateInfo, UpdateResult};
use state_manager::{Revision, RevisionKind};
use std::collections::BTreeMap;

/// List the revisions, newest first. `@` marks the current one. With `--json` each is a line of its own.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// At most so many.
    #[arg(long, short = 'n', value_name = "N")]
    limit: Option<usize>,
    /// Only those since then: a span back from now (`2h`, `7d`), a day (`2026-05-30`) or a moment (RFC 3339).
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
    /// The later revision that brought back one from before this.
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

/// Lists.
pub(crate) async fn run(context: &Context, args: &Args) -> CommandResult {
    let now = context.now();
    let since = args.since.as_ref();
    let since = since.map(|since| since.moment("--since", &now)).transpose()?;
    let stack = context.store.open_stack().await?;
    let begins = stack.collected_before().await?;
    let mut revisions = stack.revisions().await?;
    let mut lines: Vec<Line> = Vec::new();
    let mut undoing = Undoing::default();
    let mut left = args.limit.unwrap_or(usize::MAX);
    while left > 0 {
        let Some(revision) = revisions.next().await? else {
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
    if context.output.json {
        return Ok(Report::empty());
    }
    context.report("history", &lines, Vec::new(), |page| {
        if lines.is_empty() {
            page.line(if since.is_none() {
                "no revisions yet: `statectl import FILE` makes the first"
            } else {
                "no revisions since then"
            });
            return;
        }
        let rows = lines.iter().map(|line| row(line, &now));
        let header = [
            "", "REVISION", "WHEN", "WHO", "KIND", "STEPS", "ENTRIES", "MESSAGE",
        ];
        page.table(header, rows);
        if let Some(begins) = begins.filter(|_| left > 0 && since.is_none()) {
            page.line(format_args!("what was before serial {begins} was collected"));
        }
    })
}

/// Which later revision, if any, undid what comes next in a walk from the newest to the oldest.
#[derive(Default)]
struct Undoing {
    /// What was brought back, and by what; everything between the two is undone.
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

/// Whether an update ended before a moment. Only those that say when they did.
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
        count(line.entries, "entry", "entries"),
        message(line),
    ]
}

/// How much of a commit's id is told.
const SHORT_COMMIT: usize = 10;

/// Why it was made, from what, and whether it still counts.
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

/// The commit, the branch and the CI run that it came from: `main 0123456789, GitHub Actions 17`.
fn origin(environment: &BTreeMap<String, String>) -> String {
    let describe = |name: &str| environment.get(name).map(String::as_str);
    let commit = describe("git.commit").map(|commit| commit.get(..SHORT_COMMIT).unwrap_or(commit));
    let pairs = [
        (describe("git.branch"), commit),
        (describe("ci.system"), describe("ci.run")),
    ];
    let pairs = pairs.map(|(one, other)| [one, other].into_iter().flatten().collect::<Vec<_>>().join(" "));
    let describe: Vec<String> = pairs.into_iter().filter(|pair| !pair.is_empty()).collect();
    describe.join(", ")
}

/// What an update did, and how it ended where that isn't what one expects.
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

/// Made, changed and deleted.
fn steps(counts: &BTreeMap<Op, u64>) -> String {
    let sum = |ops: &[Op]| ops.iter().filter_map(|op| counts.get(op)).sum::<u64>();
    let (made, changed, gone) = (
        sum(&[Op::Create, Op::Import]),
        sum(&[Op::Update]),
        sum(&[Op::Delete, Op::Discard]),
    );
    if made + changed + gone == 0 {
        return String::new();
    }
    format!("+{made} ~{changed} -{gone}")
}
