//! The name of a stack.

use super::ParseIdError;
use std::fmt;
use std::str::FromStr;

/// `project/stack`; each part matches `[A-Za-z0-9][A-Za-z0-9._-]{0,99}`. A name without a project is in project
/// `default`.
///
/// Names that some filesystem can't store are invalid: names that end in a dot, and Windows device names (`con`,
/// `nul`, `com1`, ...), also with an extension. Names that differ only in case collide, so a store uses
/// [`StackName::folded`] as the key.
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
    /// The project of names without a project part.
    pub const DEFAULT_PROJECT: &'static str = "default";

    /// Validates and joins the two parts.
    ///
    /// # Errors
    /// If a part has other characters or another length, ends in a dot, or is the name of a Windows device.
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

    /// Project and stack in lower case: two names collide exactly when their lower-case forms are equal.
    pub fn folded(&self) -> (String, String) {
        (self.project.to_ascii_lowercase(), self.stack.to_ascii_lowercase())
    }

    /// The name without the project if that is the default project, and the full name otherwise.
    pub fn short(&self) -> String {
        if self.project == Self::DEFAULT_PROJECT {
            self.stack.clone()
        } else {
            self.to_string()
        }
    }
}

/// Base names that Windows reserves for devices, in any case and also before an extension. `com1` to `com9` and
/// `lpt1` to `lpt9` are reserved too.
const DEVICES: [&str; 4] = ["con", "prn", "aux", "nul"];

fn check_part(part: &str) -> Result<(), ParseIdError> {
    let mut bytes = part.bytes();
    let head = bytes.next().is_some_and(|b| b.is_ascii_alphanumeric());
    let tail = bytes.all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'));
    // Names become file names. A stack keeps its name when it is copied to another store, so a name that some
    // filesystem can't store is refused everywhere.
    let reason = if !head || !tail || part.len() > 100 {
        "project and stack are 1 to 100 characters of A-Z, a-z, 0-9, `.`, `_`, `-`, and begin with a letter or digit"
    } else if part.ends_with('.') {
        "project and stack must not end in a dot: Windows drops it from file names"
    } else if is_device(part) {
        "Windows reserves this name for a device, with or without an extension: choose another one"
    } else {
        return Ok(());
    };
    Err(ParseIdError::of_text("stack name", part, reason))
}

fn is_device(part: &str) -> bool {
    let base = part.split('.').next().unwrap_or_default().to_ascii_lowercase();
    let numbered = base.strip_prefix("com").or_else(|| base.strip_prefix("lpt"));
    DEVICES.contains(&base.as_str())
        || numbered.is_some_and(|number| matches!(number.as_bytes(), [b'1'..=b'9']))
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

serde_as_text!(StackName);

#[cfg(test)]
mod tests {
    use super::StackName;

    fn reason(text: &str) -> &'static str {
        text.parse::<StackName>().unwrap_err().reason
    }

    #[test]
    fn device_names_are_refused_in_both_parts() {
        let numbered = (1..=9).flat_map(|number| [format!("com{number}"), format!("lpt{number}")]);
        let devices = ["con", "prn", "aux", "nul"].map(str::to_owned);
        for device in numbered.chain(devices) {
            for part in [
                device.clone(),
                device.to_uppercase(),
                format!("{device}.json"),
                format!("{device}.a.b"),
            ] {
                for name in [part.clone(), format!("{part}/stack"), format!("project/{part}")] {
                    assert!(reason(&name).contains("device"), "{name}");
                }
            }
        }
    }

    #[test]
    fn names_that_end_in_a_dot_are_refused() {
        for name in ["prod.", "a..", "shop./prod", "shop/prod."] {
            assert!(reason(name).contains("dot"), "{name}");
        }
    }

    #[test]
    fn names_that_resemble_devices_are_accepted() {
        for name in [
            "console",
            "con-1",
            "com",
            "com0",
            "com10",
            "lpt",
            "a.con",
            "nul_",
            "auxiliary/x.nul",
        ] {
            let parsed: StackName = name.parse().unwrap();
            assert!(parsed.to_string().ends_with(name), "{name}");
        }
    }
}
