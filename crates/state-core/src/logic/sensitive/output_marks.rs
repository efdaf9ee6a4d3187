//! The marked paths of a map of outputs, by output.

use super::cover::{Path, covered_below};
use super::{SecretSpan, SecretStrings, spans};
use crate::json::Json;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

/// The marked paths of a map of outputs, grouped by the output that each concerns. A state may mark each of many
/// outputs, so the paths are grouped once instead of being compared with the name of every output.
///
/// ```
/// use state_core::sensitive::{OutputMarks, SecretStrings};
/// use state_core::Json;
///
/// let outputs = [("a", r#"{"key":"x"}"#), ("b", "1")];
/// let outputs = outputs.map(|(name, json)| Ok((name.to_owned(), Json::parse(json)?)));
/// let outputs = outputs.into_iter().collect::<Result<_, state_core::json::JsonError>>()?;
/// let sensitive = ["/a/key".to_owned()];
/// let marks = OutputMarks::of(&outputs, &sensitive);
/// assert_eq!(marks.spans("a", &SecretStrings::default())[0].pointer, "/key");
/// assert!(marks.spans("b", &SecretStrings::default()).is_empty());
/// # Ok::<(), state_core::json::JsonError>(())
/// ```
#[derive(Debug)]
pub struct OutputMarks<'m> {
    outputs: &'m BTreeMap<String, Json>,
    by_output: HashMap<Cow<'m, str>, Vec<(&'m String, Path<'m>)>>,
    /// A path to a missing output, which covers every output. One such path has the effect of all.
    everywhere: Option<&'m String>,
}

impl<'m> OutputMarks<'m> {
    /// Groups the paths. `sensitive` contains names of outputs or pointers into the map.
    pub fn of(outputs: &'m BTreeMap<String, Json>, sensitive: &'m [String]) -> Self {
        let mut marks = Self {
            outputs,
            by_output: HashMap::new(),
            everywhere: None,
        };
        for path in sensitive {
            let (first, rest) = Path::new(path).split();
            if outputs.contains_key(&*first) {
                marks.by_output.entry(first).or_default().push((path, rest));
            } else {
                marks.everywhere = Some(path);
            }
        }
        marks
    }

    /// Returns the paths that concern an output, as they were given.
    pub fn of_output(&self, name: &str) -> Vec<String> {
        let own = self.by_output.get(name).into_iter().flatten();
        let own = own.map(|(path, _)| *path);
        own.chain(self.everywhere).cloned().collect()
    }

    /// Returns the spans of the secret values in an output, or none if there is no such output.
    pub fn spans(&self, name: &str, also: &SecretStrings) -> Vec<SecretSpan> {
        let Some(value) = self.outputs.get(name) else {
            return Vec::new();
        };
        spans(covered_below(value.view(), &self.inside(name), also))
    }

    /// Returns the paths within one output. A path to a missing output covers the whole map, hence every output.
    pub(super) fn inside(&self, name: &str) -> Vec<Path<'m>> {
        let own = self.by_output.get(name).into_iter().flatten();
        let own = own.map(|(_, rest)| *rest);
        own.chain(self.everywhere.map(|_| Path::default())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::OutputMarks;
    use crate::Json;
    use crate::sensitive::SecretStrings;
    use std::collections::BTreeMap;

    fn outputs(count: usize) -> BTreeMap<String, Json> {
        let json = |n| Json::parse(&format!(r#"{{"key":"value-{n}"}}"#)).unwrap();
        (0..count).map(|n| (format!("o{n}"), json(n))).collect()
    }

    #[test]
    fn path_to_a_missing_output_covers_every_output() {
        let (outputs, none) = (outputs(2), SecretStrings::default());
        let paths = ["/o0/key".to_owned(), "missing".to_owned()];
        let marks = OutputMarks::of(&outputs, &paths);
        assert_eq!(marks.of_output("o0"), paths);
        assert_eq!(marks.of_output("o1"), paths[1..]);
        for name in ["o0", "o1"] {
            assert_eq!(marks.spans(name, &none)[0].pointer, "");
        }
        assert!(marks.spans("missing", &none).is_empty());
    }

    #[test]
    fn each_output_gets_only_its_own_paths() {
        // Before, each of 100,000 outputs was compared with each of 100,000 paths.
        let outputs = outputs(100_000);
        let paths: Vec<String> = outputs.keys().map(|name| format!("/{name}/key")).collect();
        let marks = OutputMarks::of(&outputs, &paths);
        let paths = outputs.keys().map(|name| marks.inside(name).len());
        assert_eq!(paths.sum::<usize>(), outputs.len());
        assert_eq!(
            SecretStrings::of_output_map(&outputs, &marks.of_output("o7"))
                .strings
                .len(),
            1
        );
    }
}
