//! Attributes as a flat map of strings: `tags.%` counts a map, `tags.Name` is a member, `rules.#` counts a list.

use crate::error::Result;
use crate::terraform::fields::Fields;
use state_core::json::Kind;
use std::collections::BTreeMap;

/// The attributes of an instance, with the id that stands beside them.
pub(super) fn read(fields: &mut Fields<'_>, id: &str, version: u64) -> Result<BTreeMap<String, String>> {
    let mut attributes = BTreeMap::new();
    let given = fields.take_kind("attributes", Kind::Object)?;
    for (key, value) in given.and_then(|all| all.members()).into_iter().flatten() {
        let Some(text) = value.as_str() else {
            let message = format!(
                "the values of `attributes` must be strings, found {}",
                value.kind()
            );
            return Err(fields.error_at(&value, message));
        };
        attributes.insert(key.into_owned(), text.into_owned());
    }
    if version < 3 {
        count_maps(&mut attributes);
    }
    if !id.is_empty() {
        attributes.entry("id".to_owned()).or_insert_with(|| id.to_owned());
    }
    Ok(attributes)
}

/// Until version 2 maps were counted like lists: `x.#`. What has members that aren't called by numbers is a map; what
/// has no members goes, for nothing says what it was.
fn count_maps(attributes: &mut BTreeMap<String, String>) {
    let counts: Vec<String> = attributes
        .keys()
        .filter(|key| key.ends_with(".#"))
        .cloned()
        .collect();
    for count in counts {
        let prefix = count.trim_end_matches('#');
        let mut members = attributes
            .range(prefix.to_owned()..)
            .map(|(key, _)| key)
            .take_while(|key| key.starts_with(prefix))
            .map(|key| key[prefix.len()..].split('.').next().unwrap_or_default())
            .filter(|member| *member != "#")
            .peekable();
        let is_empty = members.peek().is_none();
        let is_map = members.any(|member| member.parse::<i64>().is_err());
        if !is_empty && !is_map {
            continue;
        }
        let value = attributes.remove(&count);
        if let Some(value) = value.filter(|_| is_map) {
            attributes.insert(format!("{prefix}%"), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_get_their_own_count_and_empty_collections_go() {
        let mut attributes: BTreeMap<String, String> = [
            ("tags.#", "1"),
            ("tags.Name", "x"),
            ("list.#", "2"),
            ("list.0", "a"),
            ("list.1", "b"),
            ("list.1.#", "0"),
            ("set.#", "1"),
            ("set.-12", "a"),
            ("empty.#", "0"),
            ("deep.0.map.#", "1"),
            ("deep.0.map.k.z", "v"),
            ("done.%", "0"),
        ]
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
        count_maps(&mut attributes);
        let keys: Vec<_> = attributes.keys().map(String::as_str).collect();
        assert_eq!(
            keys,
            [
                "deep.0.map.%",
                "deep.0.map.k.z",
                "done.%",
                "list.#",
                "list.0",
                "list.1",
                "set.#",
                "set.-12",
                "tags.%",
                "tags.Name"
            ]
        );
    }
}
