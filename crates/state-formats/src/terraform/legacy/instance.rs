//! Upgrades the objects of one resource. Their attributes are a flat map of strings: `tags.%` is the size of a map,
//! `tags.Name` one of its members, `rules.#` the length of a list.

use crate::error::Result;
use crate::fields::Fields;
use crate::terraform::address::Key;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use state_core::json::{self, Document, Kind, ObjectWriter, Style, View};
use std::collections::BTreeMap;

/// Reads the instances of a resource. Returns the deposed key of each, and the instance as JSON of version 4. The
/// deposed key of the live instance is empty.
pub(super) fn read_all<'a>(
    document: Document<'a>,
    fields: &mut Fields<'a>,
    index: Option<&Key>,
    version: u64,
) -> Result<Vec<(String, String)>> {
    let mut read = Vec::new();
    let mut push = |view: View<'a>, deposed: String, is_tainted: bool| -> Result<()> {
        let mut object = Object::read(document, view, version)?;
        object.is_tainted |= is_tainted;
        let text = object.text(index, &deposed);
        read.push((deposed, text));
        Ok(())
    };
    if let Some(primary) = fields.take("primary") {
        push(primary, String::new(), false)?;
    }
    // Version 1 kept objects that await replacement in the separate list `tainted`. Terraform drops this list, but the
    // objects may still exist and cost money, so they are imported as deposed objects.
    let lists = [("deposed", false), ("tainted", true)];
    let mut count = 0;
    for (name, is_tainted) in lists {
        for view in fields.elements(name)? {
            count += 1;
            push(view, format!("{count:08x}"), is_tainted)?;
        }
    }
    Ok(read)
}

/// One object with the field names of version 4.
struct Object {
    is_tainted: bool,
    schema_version: u64,
    attributes: BTreeMap<String, String>,
    private: Option<String>,
}

impl Object {
    fn read<'a>(document: Document<'a>, view: View<'a>, version: u64) -> Result<Self> {
        let mut fields = Fields::of(document, view, "an instance")?;
        let id = fields.string("id")?.map(|(id, _)| id);
        let attributes = read_attributes(&mut fields, id.as_deref().unwrap_or_default(), version)?;
        let is_tainted = fields.bool("tainted")?.unwrap_or_default();
        let (schema_version, private) = read_meta(document, &mut fields)?;
        Ok(Self {
            is_tainted,
            schema_version,
            attributes,
            private,
        })
    }

    fn text(&self, index: Option<&Key>, deposed: &str) -> String {
        let mut text = String::new();
        let mut object = ObjectWriter::new(&mut text);
        if let Some(Key::Number(number)) = index {
            object.raw("index_key", &number.to_string());
        }
        if self.is_tainted {
            object.string("status", "tainted");
        }
        if !deposed.is_empty() {
            object.string("deposed", deposed);
        }
        object.u64("schema_version", self.schema_version);
        let mut flat = object.object("attributes_flat");
        for (key, value) in &self.attributes {
            flat.string(key, value);
        }
        flat.finish();
        object.array("sensitive_attributes").finish();
        if let Some(private) = &self.private {
            object.string("private", private);
        }
        object.finish();
        text
    }
}

/// Reads the schema version and the provider's private data, which becomes base64 of JSON as Go writes it.
fn read_meta<'a>(document: Document<'a>, fields: &mut Fields<'a>) -> Result<(u64, Option<String>)> {
    let Some(meta) = fields.take_kind("meta", Kind::Object)? else {
        return Ok((0, None));
    };
    let mut meta = Fields::of(document, meta, "the meta map")?;
    let schema_version = match meta.take("schema_version") {
        None => 0,
        Some(view) => {
            let number = view.as_u64().or_else(|| view.as_str()?.parse().ok());
            let message = "`schema_version` must be a whole number that isn't negative";
            number.ok_or_else(|| meta.error_at(&view, message))?
        }
    };
    let private = meta.rest()?.map(|rest| {
        let style = Style {
            indent: None,
            escape_html: true,
        };
        let mut text = String::new();
        json::write(rest.view(), &style, &mut text);
        STANDARD.encode(text)
    });
    Ok((schema_version, private))
}

/// Reads the attributes of an instance, and adds the id, which is a separate field of the instance.
fn read_attributes(fields: &mut Fields<'_>, id: &str, version: u64) -> Result<BTreeMap<String, String>> {
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

/// Renames the counts of maps: until version 2, maps had a count `x.#` as lists have. A collection with a key that
/// isn't a number is a map. An empty collection is dropped, because it could be a list or a map.
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
    fn map_counts_are_renamed_and_empty_collections_dropped() {
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
