//! Named values inside of a structured text: JSON, or lines such as `NAME=VALUE` in shell scripts and `name: value` in
//! YAML.

use crate::json::{Json, View};

/// Calls `look` with the name and the text of each value, and returns the first result that is not `None`.
pub(super) fn find_in<T>(text: &str, look: &impl Fn(&str, &str) -> Option<T>) -> Option<T> {
    if text.trim_start().starts_with(['{', '['])
        && let Ok(json) = Json::parse(text)
    {
        return in_json(json.view(), look);
    }
    match text.contains('\n') {
        true => in_lines(text, look),
        false => None,
    }
}

fn in_json<T>(root: View<'_>, look: &impl Fn(&str, &str) -> Option<T>) -> Option<T> {
    let mut open = vec![(String::new(), root)];
    while let Some((name, view)) = open.pop() {
        if let Some(text) = view.as_str() {
            match look(&name, &text) {
                None => continue,
                found => return found,
            }
        }
        // Variables are often written as `{"name": "DB_PASSWORD", "value": "…"}`.
        let variable = view
            .get("name")
            .and_then(|name| Some(name.as_str()?.into_owned()));
        let elements = view.elements().into_iter().flatten();
        open.extend(elements.map(|child| (name.clone(), child)));
        let members = view.members().into_iter().flatten();
        open.extend(members.map(|(key, child)| match &variable {
            Some(variable) if key == "value" => (variable.clone(), child),
            _ => (key.into_owned(), child),
        }));
    }
    None
}

fn in_lines<T>(text: &str, look: &impl Fn(&str, &str) -> Option<T>) -> Option<T> {
    let mut variable = None;
    for (name, value) in text.lines().filter_map(assignment) {
        let named = if name == "value" { variable.take() } else { None };
        if let Some(found) = look(named.unwrap_or(name), value) {
            return Some(found);
        }
        if name == "name" {
            variable = Some(value);
        }
    }
    None
}

/// Splits a line into a name and a value, without quotes; `None` if the line doesn't begin with a name and `:` or `=`.
fn assignment(line: &str) -> Option<(&str, &str)> {
    let line = line.trim();
    let line = ["- ", "export ", "set "].iter().fold(line, |line, prefix| {
        line.strip_prefix(prefix).unwrap_or(line).trim_start()
    });
    let (name, value) = line.split_once([':', '='])?;
    let name = name.trim().trim_matches(['"', '\'']);
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let value = value
        .trim()
        .trim_end_matches([',', ';'])
        .trim_matches(['"', '\'']);
    (!name.is_empty() && name.chars().all(is_name)).then_some((name, value))
}
