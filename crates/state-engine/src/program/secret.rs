//! Finds the secret parts of a value from marks and from known secrets. A mark is the name of a top-level member, which
//! is secret as a whole, or a JSON pointer to a secret value.

use state_core::json::Json;
use state_core::sensitive::{SecretStrings, covered_pointers};
use std::borrow::Cow;

/// The top-level name of a mark: the name itself, or the first token of a JSON pointer.
pub(super) fn top_level(mark: &str) -> String {
    match mark.strip_prefix('/') {
        Some(pointer) => {
            let first = pointer.split('/').next().unwrap_or_default();
            first.replace("~1", "/").replace("~0", "~")
        }
        None => mark.to_owned(),
    }
}

/// Escapes a name as a token of a JSON pointer.
pub(super) fn token(name: &str) -> Cow<'_, str> {
    match name.contains(['~', '/']) {
        true => name.replace('~', "~0").replace('/', "~1").into(),
        false => name.into(),
    }
}

/// Returns JSON pointers to the secret parts of the value at `place` in `object`, relative to `place`. `marks` contains
/// the marks of `object`. A part without a mark is secret if it repeats a secret string of `also`. An empty pointer
/// marks the whole value.
pub(super) fn below(object: &Json, marks: &[String], also: &SecretStrings, place: &str) -> Vec<String> {
    if marks.is_empty() && also.is_empty() {
        return Vec::new();
    }
    let covered = covered_pointers(object, marks, also);
    let below = covered.iter().filter_map(|secret| {
        if leads_to(place, secret) {
            return Some(String::new());
        }
        leads_to(secret, place).then(|| secret[place.len()..].to_owned())
    });
    below.collect()
}

/// Whether `pointer` points to the value at `before` or to a part of that value.
fn leads_to(pointer: &str, before: &str) -> bool {
    pointer
        .strip_prefix(before)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::{below, top_level};
    use state_core::sensitive::SecretStrings;
    use state_core::{Entry, Json, Properties};

    #[test]
    fn secret_pointers_are_relative_to_the_place() {
        let object = Json::parse(r#"{"a":{"b":"x","b2":"y"},"c":["z"]}"#).unwrap();
        let also = SecretStrings::default();
        let secret = |mark: &str, place: &str| below(&object, &[mark.to_owned()], &also, place);
        assert_eq!(secret("/a/b", "/a"), ["/b"]);
        assert_eq!(secret("/a/b", "/a/b"), [""]);
        assert_eq!(secret("a", "/a/b"), [""]);
        assert_eq!(secret("/a/b", "/a/b2"), [""; 0]);
        assert_eq!(secret("c", "/a"), [""; 0]);
        assert_eq!(secret("/c/0", "/c"), ["/0"]);
    }

    #[test]
    fn unmarked_copy_of_a_secret_is_secret() {
        let mut entry = Entry::leaf("a".parse().unwrap(), "directory");
        entry.inputs = Properties::new(Json::parse(r#"{"path":"/hunter2/x"}"#).unwrap());
        entry.sensitive_inputs = vec!["path".to_owned()];
        let outputs = Json::parse(r#"{"path":"/hunter2/x","mode":"0755"}"#).unwrap();
        let also = SecretStrings::of_entry(&entry);
        assert_eq!(below(&outputs, &[], &also, "/path"), [""]);
        assert_eq!(below(&outputs, &[], &also, "/mode"), [""; 0]);
    }

    #[test]
    fn mark_belongs_to_one_top_level_name() {
        assert_eq!(top_level("content"), "content");
        assert_eq!(top_level("/content/a"), "content");
        assert_eq!(top_level("/a~1b~0c/d"), "a/b~c");
    }
}
