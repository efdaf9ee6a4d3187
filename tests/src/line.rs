//! What a worker tells the test that started it: one line for each thing, written after it is certain.

use state_core::{Error, ErrorKind, MutationId, Op, RevisionId};
use std::fmt;
use std::io::Write;
use std::str::FromStr;

/// How a worker means to end a mutation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It succeeds.
    Succeed,
    /// It fails: nothing changed.
    Fail,
    /// Its guard is dropped: it stays pending.
    Drop,
}

/// A mutation that a worker is about to begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What it does.
    pub op: Op,
    /// To which address.
    pub address: String,
    /// What the entry will hold.
    pub tag: String,
    /// How it will end.
    pub ending: Ending,
}

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// The writer lock is ours.
    Locked,
    /// A task is about to begin a mutation.
    Trying(u64, Plan),
    /// The begin was acknowledged.
    Begun(u64, MutationId),
    /// The end was acknowledged.
    Acked(u64),
    /// A pending operation is about to be resolved, as done with this tag or as not done.
    Resolving(MutationId, Option<String>),
    /// That was acknowledged.
    Resolved(MutationId),
    /// An update ended with this revision.
    Finished(RevisionId),
    /// The lock was freed after a clean close.
    Closed,
    /// A counter has this value now, and we made it so.
    Counted(u64),
    /// The lock is held by another: the process that is named.
    LockedBy(u32),
    /// Something failed: its kind, whether it may have had an effect, the text.
    Failed(u64, String, bool, String),
}

impl Line {
    /// Tells the test.
    ///
    /// # Errors
    /// When nobody listens.
    pub fn say(&self) -> std::io::Result<()> {
        let mut out = std::io::stdout().lock();
        out.write_all(format!("{self}\n").as_bytes())?;
        out.flush()
    }

    /// The line about the failure of a task.
    pub fn failed(task: u64, error: &Error) -> Self {
        let kind = format!("{:?}", error.kind());
        let unsure = match error {
            Error::Fenced { indeterminate, .. } => *indeterminate,
            other => matches!(other.kind(), ErrorKind::Indeterminate | ErrorKind::Closed),
        };
        Self::Failed(task, kind, unsure, error.to_string().replace('\n', " "))
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Locked => f.write_str("locked"),
            Self::Trying(task, plan) => {
                let Plan {
                    op,
                    address,
                    tag,
                    ending,
                } = plan;
                write!(f, "trying {task} {op} {address} {tag} {ending:?}")
            }
            Self::Begun(task, id) => write!(f, "begun {task} {id}"),
            Self::Acked(task) => write!(f, "acked {task}"),
            Self::Resolving(id, Some(tag)) => write!(f, "resolving {id} {tag}"),
            Self::Resolving(id, None) => write!(f, "resolving {id}"),
            Self::Resolved(id) => write!(f, "resolved {id}"),
            Self::Finished(revision) => write!(f, "finished {revision}"),
            Self::Closed => f.write_str("closed"),
            Self::Counted(value) => write!(f, "counted {value}"),
            Self::LockedBy(process) => write!(f, "locked-by {process}"),
            Self::Failed(task, kind, unsure, text) => write!(f, "failed {task} {kind} {unsure} {text}"),
        }
    }
}

/// A line that no worker writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable(pub String);

impl FromStr for Line {
    type Err = Unreadable;

    fn from_str(text: &str) -> Result<Self, Unreadable> {
        let words: Vec<&str> = text.splitn(6, ' ').collect();
        read(&words).ok_or_else(|| Unreadable(text.to_owned()))
    }
}

fn read(words: &[&str]) -> Option<Line> {
    Some(match *words {
        ["locked"] => Line::Locked,
        ["closed"] => Line::Closed,
        ["trying", task, op, address, tag, ending] => Line::Trying(
            task.parse().ok()?,
            Plan {
                op: Op::ALL.into_iter().find(|known| known.name() == op)?,
                address: address.to_owned(),
                tag: tag.to_owned(),
                ending: [Ending::Succeed, Ending::Fail, Ending::Drop]
                    .into_iter()
                    .find(|known| format!("{known:?}") == ending)?,
            },
        ),
        ["begun", task, id] => Line::Begun(task.parse().ok()?, id.parse().ok()?),
        ["acked", task] => Line::Acked(task.parse().ok()?),
        ["resolving", id] => Line::Resolving(id.parse().ok()?, None),
        ["resolving", id, tag] => Line::Resolving(id.parse().ok()?, Some(tag.to_owned())),
        ["resolved", id] => Line::Resolved(id.parse().ok()?),
        ["finished", revision] => Line::Finished(revision.parse().ok()?),
        ["counted", value] => Line::Counted(value.parse().ok()?),
        ["locked-by", process] => Line::LockedBy(process.parse().ok()?),
        ["failed", task, kind, unsure, ref text @ ..] => Line::Failed(
            task.parse().ok()?,
            kind.to_owned(),
            unsure.parse().ok()?,
            text.join(" "),
        ),
        _ => return None,
    })
}
