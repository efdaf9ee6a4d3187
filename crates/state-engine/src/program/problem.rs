//! What is wrong with a program, and where.

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

impl ProgramError {
    pub(super) fn not_built_yet(name: &str) -> Self {
        let problem = Problem {
            line: 1,
            column: 1,
            path: String::new(),
            reason: "programs aren't read yet".to_owned(),
            hint: None,
        };
        Self {
            name: name.to_owned(),
            problems: vec![problem],
        }
    }
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
