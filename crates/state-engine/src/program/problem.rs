//! What is wrong with a program, and where.

use super::node::{Path, Place};
use crate::error::EngineError;
use state_core::nearest;
use std::fmt;

/// All that is wrong with a program, in the order of the document.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProgramError {
    /// What the document is called.
    pub name: String,
    /// What is wrong; never empty.
    pub problems: Vec<Problem>,
}

/// A line for each problem: `site.yaml:12:5: resources.page.inputs.content: what is wrong; what to do`.
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

/// What a source says that finds it while a run goes on.
impl From<ProgramError> for EngineError {
    fn from(error: ProgramError) -> Self {
        let ProgramError { name, problems } = error;
        let more = problems.len().saturating_sub(1);
        let Some(problem) = problems.into_iter().next() else {
            return Self::Source {
                object: name,
                reason: "the program is wrong".to_owned(),
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

/// One thing that is wrong. It quotes names, never the value of a secret.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Problem {
    /// The line, from 1; 0 for what stands nowhere in the document.
    pub line: u64,
    /// The column, from 1, in characters; 0 for what stands nowhere in the document.
    pub column: u64,
    /// The member that is concerned, such as `resources.page.inputs.content`; empty for the whole document.
    pub path: String,
    /// What is wrong.
    pub reason: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl Problem {
    pub(super) fn at(place: Place, path: &Path<'_>, reason: impl Into<String>) -> Self {
        Self::of(place, path.to_string(), reason)
    }

    /// The same where the path is known as text.
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

/// Names for people.
pub(super) fn listed(names: &[&str]) -> String {
    match names.len().checked_sub(MOST_NAMES) {
        None | Some(0) => names.join(", "),
        Some(more) => format!("{} and {more} more", names[..MOST_NAMES].join(", ")),
    }
}

/// More names aren't listed.
const MOST_NAMES: usize = 12;

/// With that many problems names aren't looked for any more: it would take long, and nobody reads it.
const MOST_HINTS: usize = 100;

/// Without the place.
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

/// Problems as they are found.
#[derive(Default)]
pub(super) struct Problems(Vec<Problem>);

impl Problems {
    pub(super) fn add(&mut self, problem: Problem) {
        self.0.push(problem);
    }

    /// With the name that was meant, or else with all that there are.
    pub(super) fn add_named<'n>(
        &mut self,
        problem: Problem,
        wanted: &str,
        names: impl IntoIterator<Item = &'n str>,
    ) {
        if self.0.len() >= MOST_HINTS {
            return self.add(problem);
        }
        let names: Vec<&str> = names.into_iter().collect();
        self.add(match nearest(wanted, names.iter().copied()) {
            Some(near) => problem.with_hint(format!("did you mean `{near}`?")),
            None if names.is_empty() => problem,
            None => problem.with_hint(format!("there are: {}", listed(&names))),
        });
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What was made, if nothing is wrong with it.
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
