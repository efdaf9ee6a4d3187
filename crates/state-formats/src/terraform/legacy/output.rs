//! Outputs of the root module.

use crate::error::{Error, Result};
use crate::terraform::cty;
use crate::terraform::fields::Fields;
use state_core::json::{Document, Json, Kind, ObjectWriter, View};

/// An output of version 4 as JSON. The type comes from the value: what was stored beside it says too little.
pub(super) fn read(document: Document<'_>, view: View<'_>, version: u64) -> Result<String> {
    let (value, is_sensitive) = if version == 1 {
        if view.kind() != Kind::String {
            let message = format!("an output of version 1 is a string, found {}", view.kind());
            return Err(Error::at(&document, &view, message));
        }
        (Json::from_view(view), false)
    } else {
        let mut fields = Fields::of(document, view, "an output")?;
        fields.take_kind("type", Kind::String)?;
        let value = fields.take("value").map_or_else(Json::null, Json::from_view);
        (value, fields.bool("sensitive")? == Some(true))
    };
    let mut text = String::new();
    let mut output = ObjectWriter::new(&mut text);
    output
        .raw("value", value.as_str())
        .raw("type", &cty::collection_type_of(&value.view()));
    if is_sensitive {
        output.bool("sensitive", true);
    }
    output.finish();
    Ok(text)
}
