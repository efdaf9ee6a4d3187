//! Tests of canonical text, printed text, built text and serde.

use serde::{Deserialize, Serialize};

use super::super::{ArrayWriter, Json, Kind, ObjectWriter, Properties, Style, write, write_string};
use super::document;

fn json(text: &str) -> Json {
    Json::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn written(text: &str, style: Style) -> String {
    let mut out = String::new();
    write(document(text).root(), &style, &mut out);
    out
}

#[test]
fn canonical_text_has_no_space_and_sorted_keys() {
    let text = " { \"b\" : [ 1 , { \"y\" : {} , \"x\" : [ ] } ] , \"a\" : null, \"\\u00e9\": \"\\u0041\", \"Z\": true } ";
    assert_eq!(
        json(text).as_str(),
        r#"{"Z":true,"a":null,"b":[1,{"x":[],"y":{}}],"é":"A"}"#
    );
}

#[test]
fn canonical_keys_sort_by_utf8_bytes_not_by_utf16() {
    // U+FFFD sorts after U+1F600 in UTF-16 code units, before it in UTF-8.
    assert_eq!(
        json("{\"😀\":1,\"\u{fffd}\":2}").as_str(),
        "{\"\u{fffd}\":2,\"😀\":1}"
    );
    // As written, `\u007a` would sort before `a`.
    assert_eq!(
        json(r#"{"\u007a":1,"a":2,"\n":3}"#).as_str(),
        r#"{"\n":3,"a":2,"z":1}"#
    );
}

#[test]
fn canonical_strings_have_minimal_escapes() {
    let text = r#""\u0000\u001F\u0008\u000a\u0022\u005c\u002f\/\u007f\u2028\ud83d\ude00<""#;
    assert_eq!(
        json(text).as_str(),
        "\"\\u0000\\u001f\\b\\n\\\"\\\\//\u{7f}\u{2028}😀<\""
    );
}

#[test]
fn canonical_numbers_are_verbatim() {
    let text = "[1234567890123456789012345678901234567890,1e400,-0,1.0,1,1E5]";
    assert_eq!(json(text).as_str(), text);
    assert_ne!(json("1.0"), json("1"));
}

#[test]
fn control_characters_round_trip() {
    let all: String = ('\0'..='\u{ff}').collect();
    let value = Json::from_string(&all);
    assert_eq!(value.view().as_str().expect("a string"), all);
    assert_eq!(json(value.as_str()), value);
    assert_eq!(
        serde_json::from_str::<String>(value.as_str()).expect("valid"),
        all
    );
}

#[test]
fn pretty_text_is_indented_and_keeps_html_characters() {
    let text = r#"{"b":[],"a":{},"c":[1,{"d":"x\u003c"},[null]],"e":{"f":[{}]}}"#;
    let expected = r#"{
  "b": [],
  "a": {},
  "c": [
    1,
    {
      "d": "x<"
    },
    [
      null
    ]
  ],
  "e": {
    "f": [
      {}
    ]
  }
}"#;
    assert_eq!(written(text, Style::PRETTY), expected);
    assert_eq!(written("{ }", Style::PRETTY), "{}");
    assert_eq!(json(r#"{"b":1,"a":2}"#).pretty(), "{\n  \"a\": 2,\n  \"b\": 1\n}");
}

#[test]
fn html_is_escaped_on_request_in_keys_and_values() {
    let style = Style {
        escape_html: true,
        ..Style::COMPACT
    };
    let text = "{\"<k>\": \"a & b \u{2028}\u{2029} é \\u003C \\\\ \\n\", \"n\": 1.50}";
    assert_eq!(
        written(text, style),
        r#"{"\u003ck\u003e":"a \u0026 b \u2028\u2029 é \u003c \\ \n","n":1.50}"#
    );
    assert_eq!(
        written(text, Style::COMPACT),
        "{\"<k>\":\"a & b \u{2028}\u{2029} é < \\\\ \\n\",\"n\":1.50}"
    );
}

#[test]
fn writers_build_the_expected_text() {
    let mut out = String::from("prefix ");
    let mut object = ObjectWriter::new(&mut out);
    object
        .string("a\"", "x\n")
        .u64("n", u64::MAX)
        .bool("yes", true)
        .bool("no", false)
        .raw("raw", "[1]");
    object.object("o").finish();
    let mut array = object.array("l");
    array.u64(1).string("s").bool(false).raw("null");
    array.array().finish();
    array.object().finish();
    array.finish();
    object.finish();
    let expected = r#"prefix {"a\"":"x\n","n":18446744073709551615,"yes":true,"no":false,"raw":[1],"o":{},"l":[1,"s",false,null,[],{}]}"#;
    assert_eq!(out, expected);
    let mut empty = String::new();
    ArrayWriter::new(&mut empty).finish();
    assert_eq!(empty, "[]");
    write_string(&mut empty, "");
    assert_eq!(empty, "[]\"\"");
}

#[test]
fn properties_accept_only_objects() {
    assert!(Properties::new(json("[]")).is_none());
    assert!(Properties::new(Json::null()).is_none());
    let properties = Properties::new(json(r#"{"b": 2, "a": 1}"#)).expect("an object");
    assert_eq!(properties.json().as_str(), r#"{"a":1,"b":2}"#);
    assert_eq!(properties.get("b").and_then(|value| value.as_u64()), Some(2));
    assert_eq!(properties.len_bytes(), 13);
    assert_eq!(Properties::empty(), Properties::default());
    assert_eq!(Properties::empty().view().kind(), Kind::Object);
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Entry {
    name: String,
    value: Json,
    inputs: Properties,
}

const ENTRY: &str = r#"{"name": "n", "value": 1.00, "inputs": {"b": 1e400, "a": [ ]}}"#;

#[test]
fn serde_embeds_the_text_verbatim() {
    let entry: Entry = serde_json::from_str(ENTRY).expect("well formed");
    assert_eq!(entry.value.as_str(), "1.00");
    let expected = r#"{"name":"n","value":1.00,"inputs":{"a":[],"b":1e400}}"#;
    assert_eq!(serde_json::to_string(&entry).expect("serializable"), expected);
}

#[test]
fn serde_reads_from_str_slice_reader_and_value() {
    let from_str: Entry = serde_json::from_str(ENTRY).expect("str");
    let from_slice: Entry = serde_json::from_slice(ENTRY.as_bytes()).expect("slice");
    let from_reader: Entry = serde_json::from_reader(ENTRY.as_bytes()).expect("reader");
    assert_eq!(from_str, from_slice);
    assert_eq!(from_str, from_reader);
    let value = serde_json::json!({"b": [1], "a": null});
    let from_value: Properties = serde_json::from_value(value).expect("value");
    assert_eq!(from_value.json().as_str(), r#"{"a":null,"b":[1]}"#);
}

#[test]
fn serde_reads_strictly_and_errors_contain_no_value() {
    let error =
        serde_json::from_str::<Vec<Json>>("[1,\n{\"a\":\"hunter2\",\"a\":2}]").expect_err("a duplicate");
    let shown = error.to_string();
    assert!(
        shown.starts_with("in an embedded value, duplicate key at line 1, column 16 ($.a)"),
        "{shown}"
    );
    assert!(!shown.contains("hunter2"), "{shown}");
    let error = serde_json::from_str::<Properties>("\"hunter2\"").expect_err("not an object");
    assert!(
        error
            .to_string()
            .starts_with("expected an object, found a value of kind string"),
        "{error}"
    );
}

#[test]
fn clones_share_their_text() {
    let value = json(r#"{"a":1}"#);
    assert!(std::ptr::eq(value.as_str(), value.clone().as_str()));
    assert!(std::ptr::eq(Json::null().as_str(), Json::null().as_str()));
    assert!(value.is_object() && !Json::null().is_object());
}
