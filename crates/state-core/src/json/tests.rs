//! Tests of the JSON module.

mod laws;
mod reading;
mod strictness;
mod writing;

use super::{Document, JsonError, Limits};
use proptest::prelude::*;

fn parse(text: &str) -> Result<Document<'_>, JsonError> {
    Document::parse(text.as_bytes(), &Limits::default())
}

fn document(text: &str) -> Document<'_> {
    parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Text of a value of any depth, whose strings and keys contain brackets, escapes and quotes. Some of its containers are
/// short, and some longer than any block of a search.
pub(super) fn nested_value() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("1".to_owned()),
        Just("{}".to_owned()),
        "[a-z{}\\[\\] ,:]{0,90}".prop_map(|text| format!("\"{text}\"")),
        "([a-z]|\\\\\\\\|\\\\\"|\\\\n|[{}\\[\\]]){0,40}".prop_map(|text| format!("\"{text}\"")),
    ];
    leaf.prop_recursive(5, 80, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6)
                .prop_map(|values| format!("[ {} ]", values.join(" , "))),
            prop::collection::vec(inner, 0..6).prop_map(|values| {
                let members = values.iter().enumerate();
                let members: Vec<_> = members
                    .map(|(at, value)| format!("\"k\\\"{{{at}\": {value}"))
                    .collect();
                format!("{{\n{}\n}}", members.join(",\n  "))
            }),
        ]
    })
}
