//! All secrets of one entry, found together.

use super::cover::{self, Path};
use super::{SecretSpan, SecretStrings, sides, spans};
use crate::entry::Entry;
use crate::json::Properties;

/// The secrets of an entry. [`SecretStrings::of_entry`] and [`covered_spans`](super::covered_spans) of each side yield
/// the same, but follow each marked path twice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EntrySecrets {
    /// The marked strings of both sides.
    pub strings: SecretStrings,
    /// The secret values of the inputs, in document order; empty if the entry has no inputs.
    pub inputs: Vec<SecretSpan>,
    /// The secret values of the outputs, in document order; empty if the entry has no outputs.
    pub outputs: Vec<SecretSpan>,
}

impl EntrySecrets {
    /// Finds the secrets of an entry.
    ///
    /// ```
    /// use state_core::sensitive::EntrySecrets;
    /// use state_core::{Address, Entry, Json, Properties};
    ///
    /// let mut entry = Entry::leaf(Address::new("user.anna")?, "user");
    /// entry.inputs = Properties::new(Json::parse(r#"{"password":"hunter22"}"#)?);
    /// entry.outputs = Properties::new(Json::parse(r#"{"id":7,"url":"hunter22"}"#)?);
    /// entry.sensitive_inputs = vec!["password".to_owned()];
    /// let secrets = EntrySecrets::of(&entry);
    /// assert!(secrets.strings.contains("hunter22"));
    /// assert_eq!(secrets.inputs[0].pointer, "/password");
    /// assert_eq!(secrets.outputs[0].pointer, "/url");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn of(entry: &Entry) -> Self {
        let mut strings = SecretStrings::default();
        let marked = sides(entry).map(|(side, paths)| {
            let root = side.as_ref().map(Properties::view)?;
            let marked = cover::marked(root, &Path::all(paths));
            strings.collect_values(&marked);
            Some((root, marked))
        });
        // A secret of one side also covers its copies in the other one, so all strings are collected first.
        let [inputs, outputs] = marked.map(|side| {
            let found = side.map(|(root, marked)| cover::find(root, &marked, &strings, true));
            spans(found.unwrap_or_default())
        });
        Self {
            strings,
            inputs,
            outputs,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::EntrySecrets;
    use crate::logic::sensitive::{SecretStrings, covered_spans};
    use crate::testkit::run::property_config;
    use crate::testkit::strategy::snapshots;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(property_config())]

        #[test]
        fn secrets_found_together_are_those_found_apart(snapshot in snapshots(6)) {
            for (_, entry) in snapshot.all_entries() {
                let together = EntrySecrets::of(entry);
                prop_assert_eq!(&together.strings, &SecretStrings::of_entry(entry));
                let sides = [
                    (&entry.inputs, &entry.sensitive_inputs, together.inputs),
                    (&entry.outputs, &entry.sensitive_outputs, together.outputs),
                ];
                for (side, paths, found) in sides {
                    let json = side.as_ref().map(|side| side.json());
                    let apart = json.map(|json| covered_spans(json, paths, &together.strings));
                    prop_assert_eq!(found, apart.unwrap_or_default());
                }
            }
        }
    }
}
