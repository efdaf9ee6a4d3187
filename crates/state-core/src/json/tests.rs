//! Tests of the JSON module.

mod laws;
mod reading;
mod strictness;
mod writing;

use super::{Document, JsonError, Limits};

fn parse(text: &str) -> Result<Document<'_>, JsonError> {
    Document::parse(text.as_bytes(), &Limits::default())
}

fn document(text: &str) -> Document<'_> {
    parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}
