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
        Path::new(path).steps().any(|step| self.contain(&step))
    }

    /// Returns the name, or the placeholder if the name contains a secret.
    pub fn masked<'n>(&self, name: &'n str, placeholder: &'n str) -> &'n str {
        if self.contain(name) { placeholder } else { name }
    }

    /// Returns an address with the placeholder in place of quoted keys that contain a secret; only the placeholder if
    /// another part of the address contains one.
    pub fn masked_address(&self, address: &str, placeholder: &str) -> String {
        let (mut masked, mut key, mut is_escaped) = (String::new(), None::<String>, false);
        for character in address.chars() {
            match &mut key {
                Some(text) if character == '"' && !is_escaped => {
                    masked.push_str(match self.secrets.cover(text) {
                        true => placeholder,
                        false => text,
                    });
                    masked.push('"');
                    key = None;
                }
                Some(text) => {
                    is_escaped = character == '\\' && !is_escaped;
                    text.push(character);
                }
                None => {
                    masked.push(character);
                    key = (character == '"').then(String::new);
                }
            }
        }
        masked.push_str(key.as_deref().unwrap_or_default());
        match self.secrets.cover(&masked) {
            true => placeholder.to_owned(),
            false => masked,
        }
    }

    /// Returns a JSON pointer with the placeholder in place of names that contain a secret.
    pub fn masked_pointer(&self, pointer: &str, placeholder: &str) -> String {
        let steps = Path::new(pointer).steps().filter(|_| !pointer.is_empty());
        steps.fold(String::new(), |masked, step| {
            child_pointer(&masked, self.masked(&step, placeholder))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::SecretNames;
    use crate::sensitive::SecretStrings;

    #[test]
    fn keys_with_a_secret_are_masked_in_addresses() {
        let mut secrets = SecretStrings::default();
        secrets.add("hunter22-hunter22");
        let names = SecretNames::of(secrets);
        for (address, masked) in [
            ("null_resource.b", "null_resource.b"),
            (r#"a["hunter22-hunter22"].b["x"]"#, r#"a["***"].b["x"]"#),
            (r#"a["\"hunter22-hunter22"]"#, r#"a["***"]"#),
            (r#"a["x\\"].b["hunter22-hunter22"]"#, r#"a["x\\"].b["***"]"#),
            ("a.hunter22-hunter22", "***"),
            (r#"a["hunter22-hunter22"#, "***"),
        ] {
            assert_eq!(names.masked_address(address, "***"), masked);
        }
    }

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
