//! Problems of a program and their positions.

use super::node::{Path, Place};
use crate::error::EngineError;
use state_core::nearest;
use std::fmt;

/// All problems of a program, in document order.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProgramError {
    /// Name of the document.
    pub name: String,
    /// The problems; never empty.
    pub problems: Vec<Problem>,
}

/// One line per problem: `site.yaml:12:5: resources.page.inputs.content: problem; hint`.
impl fmt::Display for ProgramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (count, problem) in self.problems.iter().enumerate() {
            if count > 0 {
                f.write_str("\n")?;
            }
            f.write_str(&self.name)?;
            if problem.line > 0 {
                write!(f, ":{}:{}", problem.line, problem.column)?;
            }
            write!(f, ": {problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ProgramError {}

/// Converts problems that a program finds during a run into the error of its [`Source`](crate::Source). The error
/// describes the first problem and counts the others.
impl From<ProgramError> for EngineError {
    fn from(error: ProgramError) -> Self {
        let ProgramError { name, problems } = error;
        let more = problems.len().saturating_sub(1);
        let Some(problem) = problems.into_iter().next() else {
            return Self::Source {
                object: name,
                reason: "the program is invalid".to_owned(),
            };
        };
        let mut object = format!("{name}:{}:{}", problem.line, problem.column);
        if !problem.path.is_empty() {
            object.push_str(": ");
            object.push_str(&problem.path);
        }
        let path = String::new();
        let mut reason = Problem { path, ..problem }.to_string();
        if more > 0 {
            reason.push_str(&format!(" (and {more} more)"));
        }
        Self::Source { object, reason }
    }
}

/// One problem of a program. It quotes names, but never the value of a secret.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Problem {
    /// Line, counted from 1; 0 if the problem has no position in the document.
    pub line: u64,
    /// Column in characters, counted from 1; 0 if the problem has no position in the document.
    pub column: u64,
    /// Path of the member, such as `resources.page.inputs.content`; empty for the whole document.
    pub path: String,
    /// Description of the problem.
    pub reason: String,
    /// A suggestion for fixing the problem.
    pub hint: Option<String>,
}

impl Problem {
    pub(super) fn at(place: Place, path: &Path<'_>, reason: impl Into<String>) -> Self {
        Self::of(place, path.to_string(), reason)
    }

    /// Creates a problem with a path in text form.
    pub(super) fn of(place: Place, path: String, reason: impl Into<String>) -> Self {
        Self {
            line: place.line,
            column: place.column,
            path,
            reason: reason.into(),
            hint: None,
        }
    }

    pub(super) fn with_hint(self, hint: impl Into<String>) -> Self {
        Self {
            hint: Some(hint.into()),
            ..self
        }
    }
}

/// Joins names for a message, and abbreviates long lists.
pub(super) fn listed(names: &[&str]) -> String {
    match names.len().checked_sub(MAX_NAMES) {
        None | Some(0) => names.join(", "),
        Some(more) => format!("{} and {more} more", names[..MAX_NAMES].join(", ")),
    }
}

/// Maximum number of listed names.
const MAX_NAMES: usize = 12;

/// Number of problems after which no similar names are suggested. The search compares a wrong name with all valid
/// names, which is slow in a large document with many wrong names.
const MAX_HINTS: usize = 100;

/// The problem without its position.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.reason)?;
        match &self.hint {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

/// Collects the problems of a program.
#[derive(Default)]
pub(super) struct Problems(Vec<Problem>);

impl Problems {
    pub(super) fn add(&mut self, problem: Problem) {
        self.0.push(problem);
    }

    /// Adds a problem that says that `wanted` isn't one of `names`. The hint suggests the most similar name, or lists
    /// the first names if none is similar. After `MAX_HINTS` problems, no hint is added.
    pub(super) fn add_named<'n>(
        &mut self,
        problem: Problem,
        wanted: &str,
        names: impl IntoIterator<Item = &'n str>,
    ) {
        if self.0.len() >= MAX_HINTS {
            return self.add(problem);
        }
        let names: Vec<&str> = names.into_iter().collect();
        self.add(match nearest(wanted, names.iter().copied()) {
            Some(near) => problem.with_hint(format!("did you mean `{near}`?")),
            None if names.is_empty() => problem,
            None => problem.with_hint(format!("expected one of: {}", listed(&names))),
        });
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns `made` if no problem was found. Otherwise, returns all problems of the document `name`, sorted by
    /// position.
    pub(super) fn none_in<T>(self, name: &str, made: T) -> Result<T, ProgramError> {
        let Self(mut problems) = self;
        if problems.is_empty() {
            return Ok(made);
        }
        problems.sort();
        problems.dedup();
        Err(ProgramError {
            name: name.to_owned(),
            problems,
        })
    }
}
