//! Generates JSON values, including unusual ones: long numbers, escapes, and keys that a JSON pointer must escape.

use crate::json::{Json, Properties};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Generates any value: numbers of every length, every kind of text, a few levels of arrays and objects.
pub fn json_values() -> BoxedStrategy<Json> {
    texts().prop_map(|text| parsed(&text)).boxed()
}

/// Generates any object, with the names of its members.
pub fn json_objects() -> BoxedStrategy<(Properties, Vec<String>)> {
    btree_map(keys(), texts(), 0..4)
        .prop_map(|members| {
            let names = members.keys().cloned().collect();
            let object = Properties::new(parsed(&object(&members)));
            (object.expect("the text is an object"), names)
        })
        .boxed()
}

fn parsed(text: &str) -> Json {
    Json::parse(text).expect("the text is built as JSON")
}

/// Generates names of members: plain ones, and ones that a JSON pointer must escape.
pub(super) fn keys() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => "[a-d]{1,2}",
        1 => prop::sample::select(vec!["", "/", "a/b", "m~n", "~1", "\u{e9}", "\u{1f600}", "\"", "\\", "__proto__"])
            .prop_map(str::to_owned),
    ]
}

fn texts() -> BoxedStrategy<String> {
    let leaf = prop_oneof![
        prop::sample::select(vec!["null", "true", "false", "{}", "[]"]).prop_map(str::to_owned),
        numbers(),
        strings(),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(", "))),
            btree_map(keys(), inner, 0..4).prop_map(|members| object(&members)),
        ]
    })
    .boxed()
}

fn object(members: &BTreeMap<String, String>) -> String {
    let members: Vec<String> = members
        .iter()
        .map(|(key, value)| format!("{}:{value}", Json::from_string(key).as_str()))
        .collect();
    format!("{{{}}}", members.join(","))
}

fn numbers() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<i64>().prop_map(|number| number.to_string()),
        "-?(0|[1-9][0-9]{0,39})",
        r"-?(0|[1-9][0-9]{0,3})\.[0-9]{1,30}",
        "-?[1-9](\\.[0-9]{1,3})?[eE][+-]?[0-9]{1,3}",
        prop::sample::select(vec!["-0", "0.0", "1.0", "1e400", "9007199254740993"]).prop_map(str::to_owned),
    ]
}

fn strings() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => "[ -~]{0,12}".prop_map(|text| Json::from_string(&text).as_str().to_owned()),
        1 => any::<String>().prop_map(|text| Json::from_string(&text).as_str().to_owned()),
        1 => prop::sample::select(vec![
            r#""\u0000""#,
            r#""\u001f\u007f""#,
            r#""\/\b\f\n\r\t\"\\""#,
            r#""\ud83d\ude00""#,
            "\"\u{2028}\u{feff}\u{fffd}\"",
            "\"line\\nbreak\"",
        ])
        .prop_map(str::to_owned),
    ]
}
