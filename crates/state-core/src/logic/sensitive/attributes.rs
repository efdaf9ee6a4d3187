//! Selection of values by a JSON pointer with wildcards, as in tables of the known secret attributes of resource types.

use crate::json::{Json, Kind, View, child_pointer};

/// Returns pointers to the values that a pattern selects. A pattern is a JSON pointer in which `*` matches any element
/// of a list and any member of an object. Values that can't hold a secret are left out: null, booleans, and empty
/// strings, lists and objects.
///
/// Terraform 0.11 stored nested attributes as fields such as `data.password` or `user.123.password`, where `123` is the
/// index of a list or the hash of an element of a set. If an object has no member with the name of a step, the steps
/// are compared with the parts of such names. Then `*` may match several parts, because the key of a map may contain a
/// dot.
///
/// ```
/// use state_core::{Json, sensitive::matching_pointers};
///
/// let user = Json::parse(r#"{"user":[{"name":"a","password":"x"},{"name":"b","password":""}]}"#)?;
/// assert_eq!(matching_pointers(&user, "/user/*/password"), ["/user/0/password"]);
/// # Ok::<(), state_core::json::JsonError>(())
/// ```
pub fn matching_pointers(value: &Json, pattern: &str) -> Vec<String> {
    let steps: Vec<&str> = pattern.split('/').skip(1).collect();
    let mut found = Vec::new();
    select(String::new(), value.view(), &steps, &mut found);
    found
}

/// Adds pointers to the values that the steps select. Recursive, to the number of steps.
fn select(pointer: String, view: View<'_>, steps: &[&str], found: &mut Vec<String>) {
    let Some((&step, rest)) = steps.split_first() else {
        if has_content(view) {
            found.push(pointer);
        }
        return;
    };
    let is_any = step == "*";
    for (index, element) in view.elements().into_iter().flatten().enumerate() {
        let index = index.to_string();
        if is_any || index == step {
            select(child_pointer(&pointer, &index), element, rest, found);
        }
    }
    let is_flat = is_any && !rest.is_empty() || !is_any && view.get(step).is_none();
    for (key, member) in view.members().into_iter().flatten() {
        if is_any || key == step {
            select(child_pointer(&pointer, &key), member, rest, found);
        }
        if is_flat && key.contains('.') {
            let parts: Vec<&str> = key.split('.').collect();
            if let Some(rest) = after_flat(&parts, steps) {
                select(child_pointer(&pointer, &key), member, rest, found);
            }
        }
    }
}

/// The maximum number of parts of a name that a `*` matches.
const MAX_PARTS: usize = 8;

/// Returns the steps that remain after the parts of a flat name; none of them if the steps select an object that the
/// name lies in. `None` if the name doesn't match.
fn after_flat<'s>(parts: &[&str], steps: &'s [&'s str]) -> Option<&'s [&'s str]> {
    let (Some((part, parts)), Some((step, rest))) = (parts.split_first(), steps.split_first()) else {
        return Some(steps);
    };
    if *step != "*" {
        return if part == step {
            after_flat(parts, rest)
        } else {
            None
        };
    }
    let mut matches = (0..=parts.len().min(MAX_PARTS)).filter_map(|more| after_flat(&parts[more..], rest));
    let first = matches.next()?;
    if first.is_empty() {
        return Some(first);
    }
    Some(matches.find(|steps| steps.is_empty()).unwrap_or(first))
}

fn has_content(view: View<'_>) -> bool {
    match view.kind() {
        Kind::Null | Kind::Bool => false,
        Kind::String => view.as_str().is_some_and(|text| !text.is_empty()),
        Kind::Number => true,
        Kind::Array => view.elements().is_some_and(|mut all| all.next().is_some()),
        Kind::Object => view.members().is_some_and(|mut all| all.next().is_some()),
    }
}

#[cfg(test)]
mod tests {
    use super::matching_pointers;
    use crate::Json;

    fn pointers(value: &str, pattern: &str) -> Vec<String> {
        matching_pointers(&Json::parse(value).unwrap(), pattern)
    }

    #[test]
    fn star_selects_every_element_and_member() {
        let value = r#"{"a":[{"p":"x"},{"p":"y"},{"q":"z"}],"m":{"k/1":{"p":1}}}"#;
        assert_eq!(pointers(value, "/a/*/p"), ["/a/0/p", "/a/1/p"]);
        assert_eq!(pointers(value, "/m/*/p"), ["/m/k~11/p"]);
        assert_eq!(pointers(value, "/m"), ["/m"]);
        assert!(pointers(value, "/missing/*").is_empty());
    }

    #[test]
    fn values_without_content_are_not_selected() {
        for empty in ["null", "true", "\"\"", "[]", "{}"] {
            assert!(
                pointers(&format!(r#"{{"p":{empty}}}"#), "/p").is_empty(),
                "{empty}"
            );
        }
    }

    #[test]
    fn flat_attributes_are_selected_by_their_prefix() {
        let value = r#"{"data.%":"1","data.key":"x","database":"y"}"#;
        assert_eq!(pointers(value, "/data"), ["/data.%", "/data.key"]);
    }

    #[test]
    fn flat_elements_of_sets_and_lists_are_selected() {
        let value = r##"{"user.#":"2","user.0.password":"x","user.123.password":"y","user.123.name":"z","users":"w"}"##;
        let passwords = ["/user.0.password", "/user.123.password"];
        assert_eq!(pointers(value, "/user/*/password"), passwords);
        assert_eq!(pointers(value, "/user/*").len(), 4);
        assert!(pointers(value, "/user/*/password/inner").is_empty());
        let nested = r#"{"a":{"b.1.c":"x"},"d":[{"7.c":"y","e.f.c":"z"}]}"#;
        assert_eq!(pointers(nested, "/a/b/*/c"), ["/a/b.1.c"]);
        assert_eq!(pointers(nested, "/d/*/*/c"), ["/d/0/7.c", "/d/0/e.f.c"]);
    }
}
