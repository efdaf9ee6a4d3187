//! Tests of reading values through views.

use std::borrow::Cow;

use super::super::{Kind, View};
use super::{document, parse};

#[test]
fn view_reports_kind_text_and_range() {
    let text = " [ null , true,false, -1.50 ,\"é\", { } ,[\t] ] ";
    let kinds = |view: View<'static>| (view.kind(), view.text());
    let values: Vec<_> = document(text)
        .root()
        .elements()
        .expect("an array")
        .map(kinds)
        .collect();
    let expected = [
        (Kind::Null, "null"),
        (Kind::Bool, "true"),
        (Kind::Bool, "false"),
        (Kind::Number, "-1.50"),
        (Kind::String, "\"é\""),
        (Kind::Object, "{ }"),
        (Kind::Array, "[\t]"),
    ];
    assert_eq!(values, expected);
    let root = document(text).root();
    assert_eq!((root.offset(), root.text()), (1, text.trim()));
    for value in root.elements().expect("an array") {
        assert!(text[value.offset()..].starts_with(value.text()));
    }
    assert_eq!(document(text).text(), text);
}

#[test]
fn numbers_keep_every_digit() {
    for number in [
        "1234567890123456789012345678901234567890",
        "1e400",
        "-0",
        "1.0",
        "1",
        "0.1000",
        "1E+2",
    ] {
        assert_eq!(document(number).root().number(), Some(number));
    }
    assert_eq!(document("\"1\"").root().number(), None);
}

#[test]
fn only_plain_digits_in_range_are_read_as_integers() {
    let u64_of = |text: &'static str| document(text).root().as_u64();
    let i64_of = |text: &'static str| document(text).root().as_i64();
    assert_eq!(u64_of("18446744073709551615"), Some(u64::MAX));
    assert_eq!(i64_of("-9223372036854775808"), Some(i64::MIN));
    for text in ["18446744073709551616", "-1", "-0", "1.0", "1e2", "\"1\"", "null"] {
        assert_eq!(u64_of(text), None, "{text}");
    }
    for text in ["9223372036854775808", "1.0", "1e2", "true"] {
        assert_eq!(i64_of(text), None, "{text}");
    }
}

#[test]
fn booleans_and_null_are_not_converted() {
    assert_eq!(document("true").root().as_bool(), Some(true));
    assert_eq!(document("false").root().as_bool(), Some(false));
    assert_eq!(document("null").root().as_bool(), None);
    assert_eq!(document("\"true\"").root().as_bool(), None);
    assert!(document("null").root().is_null());
    assert!(!document("0").root().is_null());
}

#[test]
fn strings_are_unescaped_and_borrowed_where_possible() {
    let text = r#""\"\\\/\b\f\n\r\t\u00e9\u20AC\ud83d\uDE00é\u0000""#;
    assert_eq!(
        document(text).root().as_str().expect("a string"),
        "\"\\/\u{8}\u{c}\n\r\té€😀é\0"
    );
    assert!(matches!(
        document("\"plain é\"").root().as_str(),
        Some(Cow::Borrowed("plain é"))
    ));
    assert_eq!(document("\"\"").root().as_str().as_deref(), Some(""));
    assert_eq!(document("1").root().as_str(), None);
}

#[test]
fn members_are_returned_in_text_order() {
    let text = r#"{ "b" : {"x": "}\"]"} , "\u0061":[1,[2,{"y":"]"}]], "":null }"#;
    let members: Vec<_> = document(text)
        .root()
        .members()
        .expect("an object")
        .map(|(key, value)| (key, value.text()))
        .collect();
    let expected = [
        ("b", r#"{"x": "}\"]"}"#),
        ("a", r#"[1,[2,{"y":"]"}]]"#),
        ("", "null"),
    ];
    assert_eq!(members, expected.map(|(key, value)| (Cow::Borrowed(key), value)));
    let root = document(text).root();
    assert_eq!(
        root.get("a").map(|value| value.text()),
        Some(r#"[1,[2,{"y":"]"}]]"#)
    );
    assert!(root.get("").expect("the empty key").is_null());
    assert!(root.get("x").is_none() && root.get(r"\u0061").is_none());
    assert!(root.elements().is_none() && root.index(0).is_none());
}

#[test]
fn container_iterators_are_fused() {
    for text in ["{}", "{ \n}"] {
        let mut members = document(text).root().members().expect("an object");
        assert!(members.next().is_none() && members.next().is_none());
    }
    let mut elements = document("[ 1 ]").root().elements().expect("an array");
    assert_eq!(elements.next().and_then(|value| value.as_u64()), Some(1));
    assert!(elements.next().is_none() && elements.next().is_none());
}

#[test]
fn pointers_follow_rfc_6901() {
    // The example document of section 5 of the RFC.
    let text = r#"{"foo": ["bar", "baz"], "": 0, "a/b": 1, "c%d": 2, "e^f": 3, "g|h": 4, "i\\j": 5, "k\"l": 6, " ": 7, "m~n": 8}"#;
    let root = document(text).root();
    let at = |pointer: &str| root.pointer(pointer).map(|value| value.text());
    assert_eq!(at(""), Some(text));
    assert_eq!(at("/foo"), Some(r#"["bar", "baz"]"#));
    assert_eq!(at("/foo/0"), Some("\"bar\""));
    for (pointer, value) in [
        ("/", "0"),
        ("/a~1b", "1"),
        ("/c%d", "2"),
        ("/e^f", "3"),
        ("/g|h", "4"),
    ] {
        assert_eq!(at(pointer), Some(value), "{pointer}");
    }
    for (pointer, value) in [("/i\\j", "5"), ("/k\"l", "6"), ("/ ", "7"), ("/m~0n", "8")] {
        assert_eq!(at(pointer), Some(value), "{pointer}");
    }
    for pointer in [
        "foo", "/foo/2", "/foo/-", "/foo/00", "/foo/+1", "/foo/", "/m~n", "/m~2n", "/m~", "/foo/0/x", "/x",
    ] {
        assert_eq!(at(pointer), None, "{pointer}");
    }
    assert_eq!(
        document(r#"{"~1":1}"#)
            .root()
            .pointer("/~01")
            .and_then(|value| value.as_u64()),
        Some(1)
    );
}

#[test]
fn positions_count_lines_and_characters() {
    let text = "{\"é😀\":\r\n [1,\n\"ü\", 2]}";
    let document = document(text);
    let of = |needle: &str| {
        let position = document.position(text.find(needle).expect("in the text"));
        (position.line, position.column)
    };
    assert_eq!(of("{"), (1, 1));
    assert_eq!(of(":"), (1, 6));
    assert_eq!(of("[1"), (2, 2));
    assert_eq!(of("\"ü"), (3, 1));
    assert_eq!(of("2]"), (3, 6));
    let inside_e = text.find('é').expect("in the text") + 1;
    assert_eq!(document.position(inside_e).offset, inside_e - 1);
    assert_eq!(document.position(usize::MAX).offset, text.len());
    assert_eq!(document.position(3).to_string(), "line 1, column 3");
}

#[test]
fn error_at_a_view_names_its_path() {
    let text = "{\"resources\": [{}, {\"instances\": [\n {\"na me\": 1, \"name\": [2]}]}]}";
    let document = document(text);
    let view = document
        .root()
        .pointer("/resources/1/instances/0/name")
        .expect("the value exists");
    let error = document.error_at(&view, "expected a string");
    assert_eq!(
        error.to_string(),
        "expected a string at line 2, column 23 ($.resources[1].instances[0].name)"
    );
    let view = document
        .root()
        .pointer("/resources/1/instances/0/na me")
        .expect("the value exists");
    assert_eq!(
        document.error_at(&view, "x").path(),
        r#"$.resources[1].instances[0]["na me"]"#
    );
    assert_eq!(
        document.error_at(&document.root(), "x").to_string(),
        "x at line 1, column 1 ($)"
    );
    let view = document.root().pointer("/resources").expect("the value exists");
    assert_eq!(document.error_at(&view, "x").path(), "$.resources");
    let other_document = parse("[0, 1]").expect("well formed");
    assert_eq!(other_document.error_at(&view, "x").position().offset, 6);
}
