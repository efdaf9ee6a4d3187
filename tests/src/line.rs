//! The lines that a worker process prints for its test. A worker reports an attempt before the attempt begins, and an
//! acknowledgement after it received the acknowledgement.

use state_core::{Error, ErrorKind, MutationId, Op, RevisionId};
use std::fmt;
use std::io::Write;
use std::str::FromStr;

/// How a worker ends a mutation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Ends the mutation as succeeded.
    Succeed,
    /// Ends the mutation as failed, without a change.
    Fail,
    /// Drops the `Mutation` without an end, so that the operation stays pending.
    Drop,
}

/// A mutation that a worker is about to begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The operation to perform.
    pub op: Op,
    /// The address of the resource.
    pub address: String,
    /// The tag of the entry, from which its content follows (see [`outputs`](crate::workload::outputs)).
    pub tag: String,
    /// How the mutation will end.
    pub ending: Ending,
}

/// One event that a worker reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// The worker holds the writer lock.
    Locked,
    /// The task with this number is about to begin a mutation.
    Trying(u64, Plan),
    /// The begin of the task's mutation was acknowledged.
    Begun(u64, MutationId),
    /// The end of the task's mutation was acknowledged.
    Acked(u64),
    /// A pending operation is about to be resolved: as done with an entry of this tag, or as not done (`None`).
    Resolving(MutationId, Option<String>),
    /// The resolution was acknowledged.
    Resolved(MutationId),
    /// An update ended with this revision.
    Finished(RevisionId),
    /// The session was closed and its lock released.
    Closed,
    /// The worker `count` committed this value of the counter.
    Counted(u64),
    /// The worker `move` reached this step and blocks there until it is killed.
    Blocked(u64),
    /// Another process holds the lock. The value is the process id that the error names, 0 if the error names none.
    LockedBy(u32),
    /// An operation failed: number of the task (`u64::MAX` for the worker itself), kind of error, whether the operation
    /// may have taken effect, message.
    Failed(u64, String, bool, String),
}

impl Line {
    /// Writes the line to standard output.
    ///
    /// # Errors
    /// The I/O error if standard output can't be written.
    pub fn emit(&self) -> std::io::Result<()> {
        let mut out = std::io::stdout().lock();
        out.write_all(format!("{self}\n").as_bytes())?;
        out.flush()
    }

    /// Returns the line that reports the error of a task.
    pub fn failed(task: u64, error: &Error) -> Self {
        let kind = format!("{:?}", error.kind());
        let indeterminate = match error {
            Error::Fenced { indeterminate, .. } => *indeterminate,
            other => matches!(other.kind(), ErrorKind::Indeterminate | ErrorKind::Closed),
        };
        Self::Failed(task, kind, indeterminate, error.to_string().replace('\n', " "))
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
            Self::Blocked(step) => write!(f, "blocked {step}"),
            Self::LockedBy(process) => write!(f, "locked-by {process}"),
            Self::Failed(task, kind, indeterminate, text) => {
                write!(f, "failed {task} {kind} {indeterminate} {text}")
            }
        }
    }
}

/// The text of a line that can't be parsed as a [`Line`].
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
        ["blocked", step] => Line::Blocked(step.parse().ok()?),
        ["locked-by", process] => Line::LockedBy(process.parse().ok()?),
        ["failed", task, kind, indeterminate, ref text @ ..] => Line::Failed(
            task.parse().ok()?,
            kind.to_owned(),
            indeterminate.parse().ok()?,
            text.join(" "),
        ),
        _ => return None,
    })
}
