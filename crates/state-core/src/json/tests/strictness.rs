//! Tests of the errors for invalid texts, and of their positions.

use super::super::{Document, Json, Limits};
use super::parse;

/// Checks that the parser refuses a text with this error.
#[track_caller]
fn refused(text: &str, expected: &str) {
    match parse(text) {
        Ok(_) => panic!("accepted {text}"),
        Err(error) => assert_eq!(error.to_string(), expected, "{text}"),
    }
}

/// Checks that the parser refuses bytes, which needn't be UTF-8, with this error.
#[track_caller]
fn refused_bytes(bytes: &[u8], expected: &str) {
    let error = Document::parse(bytes, &Limits::default()).expect_err("must be refused");
    assert_eq!(error.to_string(), expected);
}

#[test]
fn empty_and_blank_texts_have_distinct_errors() {
    refused("", "the text is empty at line 1, column 1 ($)");
    refused(
        " \n\t",
        "the text contains only white space at line 2, column 2 ($)",
    );
}

#[test]
fn byte_order_mark_error_names_the_encoding() {
    refused(
        "\u{feff}{}",
        "a byte order mark; save the text without it at line 1, column 1 ($)",
    );
    refused_bytes(
        b"\xff\xfe{\0}\0",
        "UTF-16; save the text as UTF-8 at line 1, column 1 ($)",
    );
}

#[test]
fn text_after_the_value_is_refused() {
    refused("{} x", "more text follows the value at line 1, column 4 ($)");
    refused("1 2", "more text follows the value at line 1, column 3 ($)");
    refused("truex", "more text follows the value at line 1, column 5 ($)");
    refused("[]]", "more text follows the value at line 1, column 3 ($)");
}

#[test]
fn duplicate_key_error_points_at_the_second_key() {
    refused(
        "{\"a\": 1,\n  \"a\": 2}",
        "duplicate key at line 2, column 3 ($.a)",
    );
    refused(
        r#"{"a": 1, "\u0061": 2}"#,
        "duplicate key at line 1, column 10 ($.a)",
    );
    refused(
        r#"{"x": [{"": 1, "": 1}]}"#,
        r#"duplicate key at line 1, column 16 ($.x[0][""])"#,
    );
    parse(r#"{"a": {"a": {"a": 1}}, "b": {"a": 1}, "A": 2}"#).expect("the same key in different objects");
}

#[test]
fn duplicate_keys_are_found_in_objects_of_any_size() {
    for count in [2, 15, 16, 17, 18, 40, 1000] {
        let members: Vec<String> = (0..count).map(|key| format!(r#""k{key}":{{"k0":1}}"#)).collect();
        parse(&format!("{{{}}}", members.join(","))).expect("distinct keys");
        for again in [0, count / 2, count - 1] {
            let text = format!(r#"{{{},"\u006b{again}":1}}"#, members.join(","));
            let error = parse(&text).expect_err("a duplicate");
            assert_eq!(error.message(), "duplicate key");
            assert_eq!(error.path(), format!("$.k{again}"));
            assert_eq!(
                error.position().offset,
                text.rfind("\"\\u006b").expect("the second key")
            );
        }
    }
}

#[test]
fn keys_of_a_closed_object_may_be_reused() {
    parse(r#"[{"a":1},{"a":1},{"b":{"c":1},"c":{"b":1}}]"#).expect("no duplicates");
    refused(
        r#"{"a":{"b":1},"a":1}"#,
        "duplicate key at line 1, column 14 ($.a)",
    );
}

#[test]
fn depth_limit_is_exact() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    parse(&nested(64)).expect("64 levels");
    let error = parse(&nested(65)).expect_err("65 levels");
    assert_eq!(error.message(), "nested deeper than 64 levels");
    assert_eq!(error.position().column, 65);
    let none = Limits {
        max_depth: 0,
        ..Limits::default()
    };
    Document::parse(b"1", &none).expect("a scalar has no depth");
    Document::parse(b"[]", &none).expect_err("an array has depth 1");
}

#[test]
fn deep_nesting_uses_no_recursion() {
    let limits = Limits {
        max_depth: usize::MAX,
        ..Limits::default()
    };
    let text = format!("{}1{}", r#"{"b":[ "#.repeat(20_000), "]}".repeat(20_000));
    let document = Document::parse(text.as_bytes(), &limits).expect("deep but well formed");
    let mut compact = String::new();
    super::super::write(document.root(), &super::super::Style::COMPACT, &mut compact);
    assert_eq!(compact, text.replace(' ', ""));
    let cut = Document::parse(&text.as_bytes()[..100_000], &limits).expect_err("cut short");
    assert!(
        cut.path().ends_with('…') && cut.path().len() < 300,
        "{}",
        cut.path()
    );
}

#[test]
fn size_limits_are_exact() {
    let limits = Limits {
        max_bytes: 10,
        max_string_bytes: 4,
        ..Limits::default()
    };
    Document::parse(br#"["abcd"]"#, &limits).expect("a string of 4 bytes");
    let error = Document::parse(br#"["abcde"]"#, &limits).expect_err("a string of 5 bytes");
    assert_eq!(
        error.to_string(),
        "a string of 5 bytes, more than the limit of 4 at line 1, column 2 ($[0])"
    );
    Document::parse(
        br#"{"abcde":1}"#,
        &Limits {
            max_bytes: 99,
            ..limits
        },
    )
    .expect_err("a key of 5 bytes");
    Document::parse(b"1234567890", &limits).expect("10 bytes");
    let error = Document::parse(b"12345678901", &limits).expect_err("11 bytes");
    assert_eq!(error.message(), "a text of 11 bytes, more than the limit of 10");
}

#[test]
fn unpaired_surrogates_are_refused() {
    for half in [
        r"\ud800",
        r"\udfff",
        r"\ud83dx",
        r"\ud83d\n",
        r"\ud83d\ud83d",
        r"\ude00\ud83d",
        r"\ud83d\u0041",
    ] {
        refused(
            &format!("[\"é{half}\"]"),
            "an unpaired surrogate at line 1, column 4 ($[0])",
        );
    }
    parse(r#""\ud83d\ude00""#).expect("a whole pair");
    refused(
        r#""\ud83d\u00""#,
        r"four hexadecimal digits must follow `\u` at line 1, column 8 ($)",
    );
}

#[test]
fn control_characters_in_strings_are_refused() {
    for control in 0..0x20_u8 {
        let text = format!("[1, \"a{}b\"]", char::from(control));
        refused(
            &text,
            "a control character in a string must be escaped at line 1, column 7 ($[1])",
        );
    }
    parse("\"\u{7f}\u{80}\"").expect("DEL and C1 controls are allowed");
}

#[test]
fn unknown_escapes_are_refused() {
    refused(r#""\x41""#, "an unknown escape sequence at line 1, column 2 ($)");
    refused(
        r#""\U0041""#,
        "an unknown escape sequence at line 1, column 2 ($)",
    );
    refused(
        r#""\u00g0""#,
        r"four hexadecimal digits must follow `\u` at line 1, column 2 ($)",
    );
    refused(
        r#""\u+041""#,
        r"four hexadecimal digits must follow `\u` at line 1, column 2 ($)",
    );
    refused(
        r#"["abc\"]"#,
        "a string without a closing quote at line 1, column 2 ($[0])",
    );
}

#[test]
fn numbers_follow_the_grammar() {
    let good = [
        "0", "-0", "1", "10", "1.0", "0.10", "1e5", "1E+5", "1e-05", "-1.5e400", "0e0",
    ];
    for number in good {
        assert_eq!(parse(number).expect(number).root().number(), Some(number));
    }
    refused("01", "a number with a leading zero at line 1, column 1 ($)");
    refused("-00.5", "a number with a leading zero at line 1, column 1 ($)");
    refused("+1", "a number must not start with `+` at line 1, column 1 ($)");
    refused(
        ".5",
        "a digit must precede the decimal point at line 1, column 1 ($)",
    );
    refused(
        "[1.]",
        "a digit must follow the decimal point at line 1, column 4 ($[0])",
    );
    refused(
        "1e",
        "a digit must follow the exponent mark at line 1, column 3 ($)",
    );
    refused(
        "1e+",
        "a digit must follow the exponent mark at line 1, column 4 ($)",
    );
    refused("-", "a digit must follow `-` at line 1, column 2 ($)");
    refused(
        "NaN",
        "expected a value (JSON has no NaN and no Infinity) at line 1, column 1 ($)",
    );
    refused("-Infinity", "a digit must follow `-` at line 1, column 2 ($)");
    refused("0x10", "more text follows the value at line 1, column 2 ($)");
}

#[test]
fn misplaced_punctuation_is_refused() {
    refused(
        "[1,]",
        "a comma before the end of an array at line 1, column 3 ($[0])",
    );
    refused(
        r#"{"a":1 , }"#,
        "a comma before the end of an object at line 1, column 8 ($.a)",
    );
    refused("[1 2]", "expected `,` or `]` at line 1, column 4 ($[0])");
    refused("[1}", "expected `,` or `]` at line 1, column 3 ($[0])");
    refused(r#"{"a":1]"#, "expected `,` or `}` at line 1, column 7 ($.a)");
    refused(r#"{"a" 1}"#, "expected `:` after a key at line 1, column 6 ($.a)");
    refused("{a:1}", "expected a key in double quotes at line 1, column 2 ($)");
    refused("[,1]", "expected a value at line 1, column 2 ($[0])");
    refused(
        "['a']",
        "a string must be in double quotes at line 1, column 2 ($[0])",
    );
    refused(
        "[/**/]",
        "expected a value (JSON has no comments) at line 1, column 2 ($[0])",
    );
    refused("[\u{a0}1]", "expected a value at line 1, column 2 ($[0])");
}

#[test]
fn truncated_text_error_names_the_open_container() {
    refused("[1", "the text ends inside an array at line 1, column 3 ($[0])");
    refused(
        "[",
        "the text ends where a value is expected at line 1, column 2 ($[0])",
    );
    refused(
        "{",
        "the text ends where a key is expected at line 1, column 2 ($)",
    );
    refused(
        "{\"a\"\n",
        "the text ends where `:` is expected at line 2, column 1 ($.a)",
    );
    refused(
        r#"{"a":1"#,
        "the text ends inside an object at line 1, column 7 ($.a)",
    );
    refused(
        "[\"abc\n",
        "a control character in a string must be escaped at line 1, column 6 ($[0])",
    );
}

#[test]
fn invalid_utf8_is_refused_at_its_position() {
    refused_bytes(
        b"{\"a\":\n[1,\"\xc3\xa9\xff\"]}",
        "not UTF-8 at line 2, column 6 ($.a[1])",
    );
    refused_bytes(b"\xff", "not UTF-8 at line 1, column 1 ($)");
    refused_bytes(b"\"\x80\"", "not UTF-8 at line 1, column 2 ($)");
    refused_bytes(b"\"\xed\xa0\x80\"", "not UTF-8 at line 1, column 2 ($)");
    refused_bytes(
        b"[1 2 \"\xff\"]",
        "expected `,` or `]` at line 1, column 4 ($[0])",
    );
}

#[test]
fn paths_quote_odd_keys_and_truncate_long_ones() {
    let text = r#"{"format-version": 1, "resources": [0, {"a b": {"é\n\"": {"1": ?}}}]}"#;
    assert_eq!(
        parse(text).expect_err("`?`").path(),
        r#"$.resources[1]["a b"]["é\n\""]["1"]"#
    );
    let long = "k".repeat(61);
    let error = parse(&format!(r#"{{"{long}": ?}}"#)).map(drop).expect_err("`?`");
    assert_eq!(error.path(), format!("$.{}…", &long[..60]));
}

#[test]
fn errors_and_debug_contain_no_values() {
    let secret = "hunter2";
    for text in [
        "[\"hunter2",
        "[hunter2]",
        "[\"\\xhunter2\"]",
        "{\"a\":\"hunter2\" \"b\"}",
        "[\"hunter2\", nul]",
    ] {
        let error = parse(text).expect_err("malformed");
        assert!(!format!("{error} {error:?}").contains(secret), "{error:?}");
    }
    let text = r#"{"password": "hunter2"}"#;
    let document = parse(text).expect("well formed");
    assert_eq!(format!("{document:?}"), "Document(object, 23 bytes)");
    assert_eq!(
        format!("{:?}", document.root().get("password")),
        "Some(View(string, 9 bytes at 13))"
    );
    let json = Json::parse(text).expect("well formed");
    assert_eq!(format!("{json:?}"), "Json(object, 22 bytes)");
    let properties = super::super::Properties::new(json).expect("an object");
    assert_eq!(format!("{properties:?}"), "Properties(22 bytes)");
}
