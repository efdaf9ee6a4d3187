//! Hides sensitive values from whoever looks, unless `--show-secrets` was said.
//!
//! A secret is what a sensitive path covers. A path that leads nowhere covers its nearest existing ancestor; a
//! string of six characters or more that equals a secret one is hidden wherever it stands in the same entry.

use state_core::json::{Json, View, write_string};
use state_core::{Entry, Properties};
use std::collections::BTreeSet;

/// What stands in a secret's place.
pub(crate) const HIDDEN: &str = "(sensitive)";

/// Strings shorter than this are too common to be told by their value.
const SHORTEST_TOLD_BY_VALUE: usize = 6;

/// What is secret of an entry, or of a stack's outputs.
#[derive(Debug)]
pub(crate) struct Mask {
    show: bool,
    secrets: BTreeSet<String>,
}

impl Mask {
    /// What is secret of an entry.
    pub(crate) fn of_entry(entry: &Entry, show: bool) -> Self {
        let sides = [
            (&entry.inputs, &entry.sensitive_inputs),
            (&entry.outputs, &entry.sensitive_outputs),
        ];
        let documents = sides
            .into_iter()
            .filter_map(|(side, paths)| Some((side.as_ref()?.view(), paths.as_slice())));
        Self::of(documents, show)
    }

    /// What is secret of some documents, each with its sensitive paths.
    pub(crate) fn of<'a>(documents: impl IntoIterator<Item = (View<'a>, &'a [String])>, show: bool) -> Self {
        let mut secrets = BTreeSet::new();
        if !show {
            for (document, paths) in documents {
                for covered in paths.iter().filter_map(|path| covered(document, path)) {
                    collect(covered, &mut secrets);
                }
            }
        }
        Self { show, secrets }
    }

    /// The properties with everything secret hidden.
    pub(crate) fn properties(&self, properties: &Properties, paths: &[String]) -> Json {
        self.value(properties.view(), paths)
    }

    /// The value with everything secret hidden.
    pub(crate) fn value(&self, value: View<'_>, paths: &[String]) -> Json {
        if self.show {
            return Json::from_view(value);
        }
        let hidden: Vec<_> = paths.iter().filter_map(|path| covered(value, path)).collect();
        let mut text = String::new();
        self.write(value, &hidden, &mut text);
        // What was just written is JSON; if it weren't, nothing of it may show.
        Json::parse(&text).unwrap_or_else(|_| Json::from_string(HIDDEN))
    }

    /// A text beside the properties, such as the provider's id.
    pub(crate) fn text<'a>(&self, text: &'a str) -> &'a str {
        if self.secrets.contains(text) { HIDDEN } else { text }
    }

    fn write(&self, value: View<'_>, hidden: &[View<'_>], out: &mut String) {
        let is_hidden = hidden
            .iter()
            .any(|one| one.offset() == value.offset() && one.text() == value.text());
        let is_secret = value.as_str().is_some_and(|text| self.secrets.contains(&*text));
        if is_hidden || is_secret {
            write_string(out, HIDDEN);
        } else if let Some(members) = value.members() {
            out.push('{');
            for (index, (key, member)) in members.enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_string(out, &key);
                out.push(':');
                self.write(member, hidden, out);
            }
            out.push('}');
        } else if let Some(elements) = value.elements() {
            out.push('[');
            for (index, element) in elements.enumerate() {
                if index > 0 {
                    out.push(',');
                }
                self.write(element, hidden, out);
            }
            out.push(']');
        } else {
            out.push_str(value.text());
        }
    }
}

/// What a path covers in a document: the value that it leads to, or as far as it leads. Nothing, when not even its
/// first step is there.
fn covered<'a>(document: View<'a>, path: &str) -> Option<View<'a>> {
    let steps: Vec<String> = match path.strip_prefix('/') {
        Some(pointer) => pointer
            .split('/')
            .map(|step| step.replace("~1", "/").replace("~0", "~"))
            .collect(),
        None if path.is_empty() => return Some(document),
        None => vec![path.to_owned()],
    };
    let mut steps = steps.iter();
    let mut here = step_into(document, steps.next()?)?;
    for step in steps {
        match step_into(here, step) {
            Some(inner) => here = inner,
            None => break,
        }
    }
    Some(here)
}

fn step_into<'a>(value: View<'a>, step: &str) -> Option<View<'a>> {
    let direct = value
        .get(step)
        .or_else(|| step.parse().ok().and_then(|index| value.index(index)));
    // Terraform writes a value of an open type as `{"value": …, "type": …}`, and its paths don't say so.
    let is_wrapper = |view: &View<'_>| {
        view.members().is_some_and(|members| members.count() == 2) && view.get("type").is_some()
    };
    direct.or_else(|| {
        let inner = Some(value).filter(is_wrapper)?.get("value")?;
        inner
            .get(step)
            .or_else(|| step.parse().ok().and_then(|index| inner.index(index)))
    })
}

fn collect(value: View<'_>, secrets: &mut BTreeSet<String>) {
    if let Some(text) = value.as_str() {
        if text.chars().count() >= SHORTEST_TOLD_BY_VALUE {
            secrets.insert(text.into_owned());
        }
        return;
    }
    for (_, member) in value.members().into_iter().flatten() {
        collect(member, secrets);
    }
    for element in value.elements().into_iter().flatten() {
        collect(element, secrets);
    }
}

#[cfg(test)]
mod tests {
    use super::{HIDDEN, Mask};
    use state_core::json::Json;

    fn masked(document: &str, paths: &[&str]) -> String {
        let document = Json::parse(document).unwrap();
        let paths: Vec<_> = paths.iter().map(|&path| path.to_owned()).collect();
        let mask = Mask::of([(document.view(), &*paths)], false);
        mask.value(document.view(), &paths).as_str().to_owned()
    }

    #[test]
    fn names_and_pointers_are_hidden_and_nothing_else() {
        assert_eq!(
            masked(
                r#"{"a":"secret","b":[1,{"c":"hidden","d":2.50}]}"#,
                &["a", "/b/1/c"]
            ),
            r#"{"a":"(sensitive)","b":[1,{"c":"(sensitive)","d":2.50}]}"#
        );
    }

    #[test]
    fn a_path_goes_through_terraforms_wrapper() {
        assert_eq!(
            masked(
                r#"{"input":{"type":["object",{}],"value":{"pw":"x","user":"y"}}}"#,
                &["/input/pw"]
            ),
            r#"{"input":{"type":["object",{}],"value":{"pw":"(sensitive)","user":"y"}}}"#
        );
    }

    #[test]
    fn a_path_that_ends_nowhere_covers_its_nearest_ancestor() {
        assert_eq!(
            masked(r#"{"a":{"b":{"x":1}},"c":2}"#, &["/a/b/gone/deep"]),
            r#"{"a":{"b":"(sensitive)"},"c":2}"#
        );
        assert_eq!(masked(r#"{"c":2}"#, &["a", "/b/c"]), r#"{"c":2}"#);
    }

    #[test]
    fn a_copy_of_a_secret_is_hidden_too() {
        assert_eq!(
            masked(
                r#"{"copy":["hunter22"],"pw":"hunter22","short":"abc","x":"abc"}"#,
                &["pw", "x"]
            ),
            r#"{"copy":["(sensitive)"],"pw":"(sensitive)","short":"abc","x":"(sensitive)"}"#
        );
    }

    #[test]
    fn with_show_secrets_nothing_is_hidden() {
        let document = Json::parse(r#"{"pw":"hunter22"}"#).unwrap();
        let paths = ["pw".to_owned()];
        let mask = Mask::of([(document.view(), &paths[..])], true);
        assert_eq!(mask.value(document.view(), &paths), document);
        assert_ne!(mask.text("hunter22"), HIDDEN);
    }
}
