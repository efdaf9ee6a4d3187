//! The objects of one resource.

use super::attributes;
use crate::error::Result;
use crate::terraform::address::Key;
use crate::terraform::fields::Fields;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use state_core::json::{self, Document, Json, Kind, ObjectWriter, Style, View};
use std::collections::BTreeMap;

/// The instances of version 4, each with its deposed key, which is empty for the live one.
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
    // Version 1 kept objects that were to be replaced apart. Terraform drops them; they may still be there and cost.
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

/// One object, by version 4's names.
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
        let attributes = attributes::read(&mut fields, id.as_deref().unwrap_or_default(), version)?;
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

/// The version of the schema, and what the provider kept beside it: base64 of JSON as Go writes it.
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
    let private = meta.rest()?.map(|rest| STANDARD.encode(as_go_writes(&rest)));
    Ok((schema_version, private))
}

fn as_go_writes(json: &Json) -> String {
    let style = Style {
        indent: None,
        escape_html: true,
    };
    let mut text = String::new();
    json::write(json.view(), &style, &mut text);
    text
}
