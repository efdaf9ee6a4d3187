//! What people call a stack.

use super::ParseIdError;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;
use std::str::FromStr;

/// `project/stack`; each part matches `[A-Za-z0-9][A-Za-z0-9._-]{0,99}`. A bare name is project `default`.
///
/// Names that differ only in case collide: [`StackName::folded`] is what a store keys by.
///
/// ```
/// use state_core::StackName;
/// let name: StackName = "Shop".parse()?;
/// assert_eq!(name.to_string(), "default/Shop");
/// assert_eq!(name.folded(), ("default".to_owned(), "shop".to_owned()));
/// # Ok::<(), state_core::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StackName {
    project: String,
    stack: String,
}

impl StackName {
    /// The project of bare names.
    pub const DEFAULT_PROJECT: &'static str = "default";

    /// Checks and joins the two parts.
    ///
    /// # Errors
    /// When a part breaks the grammar.
    pub fn new(project: &str, stack: &str) -> Result<Self, ParseIdError> {
        for part in [project, stack] {
            check_part(part)?;
        }
        Ok(Self {
            project: project.to_owned(),
            stack: stack.to_owned(),
        })
    }

    /// The part before the slash.
    pub fn project(&self) -> &str {
        &self.project
    }

    /// The part after the slash.
    pub fn stack(&self) -> &str {
        &self.stack
    }

    /// Project and stack in lower case: two names collide exactly when these are equal.
    pub fn folded(&self) -> (String, String) {
        (self.project.to_ascii_lowercase(), self.stack.to_ascii_lowercase())
    }

    /// As people write it: without the project when it is the default one.
    pub fn short(&self) -> String {
        if self.project == Self::DEFAULT_PROJECT {
            self.stack.clone()
        } else {
            self.to_string()
        }
    }
}

fn check_part(part: &str) -> Result<(), ParseIdError> {
    let mut bytes = part.bytes();
    let head = bytes.next().is_some_and(|b| b.is_ascii_alphanumeric());
    let tail = bytes.all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'));
    if head && tail && part.len() <= 100 {
        return Ok(());
    }
    Err(ParseIdError::of_text(
        "stack name",
        part,
        "project and stack are 1 to 100 characters of A-Z, a-z, 0-9, `.`, `_`, `-`, and begin with a letter or digit",
    ))
}

impl fmt::Display for StackName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.project, self.stack)
    }
}

impl fmt::Debug for StackName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StackName({self})")
    }
}

impl FromStr for StackName {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (project, stack) = text.split_once('/').unwrap_or((Self::DEFAULT_PROJECT, text));
        Self::new(project, stack)
    }
}

impl Serialize for StackName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for StackName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}
