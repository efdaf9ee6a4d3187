//! Recognition of secrets in names: keys of objects, fields and outputs. Sealing hides values, not names.

use super::SecretStrings;
use super::cover::Path;
use crate::json::child_pointer;
use crate::logic::suspects::suspicion;

/// Minimum length of a name that is searched for the look of a secret, in bytes. Almost all names of fields are
/// shorter, and no token of a known service is.
const MIN_TOKEN: usize = 15;

/// Recognises names that contain a secret, and masks them.
#[derive(Clone, Debug, Default)]
pub struct SecretNames {
    secrets: SecretStrings,
}

impl SecretNames {
    /// Creates the recognition of names that contain one of these secrets, or that look like a secret.
    pub const fn of(secrets: SecretStrings) -> Self {
        Self { secrets }
    }

    /// Whether a name contains a secret.
    pub fn contain(&self, name: &str) -> bool {
        self.secrets.cover(name) || (name.len() >= MIN_TOKEN && suspicion("", name).is_some())
    }

    /// Whether a name on a marked path contains a secret.
    pub fn occur_in_path(&self, path: &str) -> bool {
        Path::new(path).steps().any(|step| self.contain(step))
    }

    /// Returns the name, or the placeholder if the name contains a secret.
    pub fn masked<'n>(&self, name: &'n str, placeholder: &'n str) -> &'n str {
        if self.contain(name) { placeholder } else { name }
    }

    /// Returns a JSON pointer with the placeholder in place of names that contain a secret.
    pub fn masked_pointer(&self, pointer: &str, placeholder: &str) -> String {
        let path = Path::new(pointer);
        let steps = path.steps().filter(|_| !pointer.is_empty());
        steps.fold(String::new(), |masked, step| {
            child_pointer(&masked, self.masked(step, placeholder))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::SecretNames;
    use crate::sensitive::SecretStrings;

    #[test]
    fn names_with_a_secret_are_masked_in_pointers() {
        let mut secrets = SecretStrings::default();
        secrets.add("hunter22-hunter22");
        let names = SecretNames::of(secrets);
        for (pointer, masked) in [
            ("", ""),
            ("/a/hunter22-hunter22/0", "/a/***/0"),
            ("/x~1hunter22-hunter22", "/***"),
            ("/a~1b/AKIAIOSFODNN7EXAMPLE", "/a~1b/***"),
            ("/password/db", "/password/db"),
        ] {
            assert_eq!(names.masked_pointer(pointer, "***"), masked);
        }
    }
}
