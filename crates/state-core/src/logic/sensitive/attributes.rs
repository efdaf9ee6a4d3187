//! Selection of values by a JSON pointer with wildcards, as in tables of the known secret attributes of resource types.

use crate::json::{Json, Kind, View, child_pointer};

/// Returns pointers to the values that a pattern selects. A pattern is a JSON pointer in which `*` matches any element
/// of a list and any member of an object. Values that can't hold a secret are left out: null, booleans, and empty
/// strings, lists and objects.
///
/// Terraform 0.11 stored nested attributes as fields such as `data.password`. If the value has no field with the first
/// name of the pattern, the pattern selects all fields whose names begin with this name and a dot.
///
/// ```
/// use state_core::{Json, sensitive::matching_pointers};
///
/// let user = Json::parse(r#"{"user":[{"name":"a","password":"x"},{"name":"b","password":""}]}"#)?;
/// assert_eq!(matching_pointers(&user, "/user/*/password"), ["/user/0/password"]);
/// # Ok::<(), state_core::json::JsonError>(())
/// ```
pub fn matching_pointers(value: &Json, pattern: &str) -> Vec<String> {
    let mut found = vec![(String::new(), value.view())];
    let mut steps = pattern.split('/').skip(1);
    if let Some(first) = steps.next() {
        found = fields(value.view(), first);
    }
    for step in steps {
        found = found
            .into_iter()
            .flat_map(|(pointer, view)| children(&pointer, view, step))
            .collect();
    }
    let with_content = found.into_iter().filter(|(_, view)| has_content(*view));
    with_content.map(|(pointer, _)| pointer).collect()
}

/// Returns the values that the first step of a pattern selects, with their pointers. Handles the flat fields of
/// Terraform 0.11.
fn fields<'a>(root: View<'a>, name: &str) -> Vec<(String, View<'a>)> {
    let named = children("", root, name);
    if !named.is_empty() {
        return named;
    }
    let members = root.members().into_iter().flatten();
    let is_flat = |key: &str| key.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'));
    let flat = members.filter(|(key, _)| is_flat(key));
    flat.map(|(key, view)| (child_pointer("", &key), view)).collect()
}

fn children<'a>(pointer: &str, view: View<'a>, step: &str) -> Vec<(String, View<'a>)> {
    let is_any = step == "*";
    let elements = view.elements().into_iter().flatten().enumerate();
    let elements = elements.map(|(index, element)| (index.to_string(), element));
    let members = view.members().into_iter().flatten();
    let members = members.map(|(key, member)| (key.into_owned(), member));
    elements
        .chain(members)
        .filter(|(key, _)| is_any || key == step)
        .map(|(key, child)| (child_pointer(pointer, &key), child))
        .collect()
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
}
