//! Tests of locating sealed values, and of splitting long tokens.

use super::*;
use crate::fixtures::json;

fn pointers(text: &str) -> Vec<String> {
    let json = json(text);
    let found = with_member(&json);
    found.into_iter().map(|(span, _)| span.pointer).collect()
}

#[test]
fn outermost_objects_with_reserved_member_are_located() {
    assert_eq!(pointers(r#"{"a":1,"b":"$sealed"}"#), Vec::<String>::new());
    assert_eq!(pointers(r#"{"$sealed":{"$sealed":1}}"#), [""]);
    assert_eq!(
        pointers(r#"{"a":[1,{"x~/":{"$sealed":2}}],"b":{"!":{"$sealed":1},"$sealed":{"$sealed":3}}}"#),
        ["/a/1/x~0~1", "/b"]
    );
}

#[test]
fn united_spans_do_not_contain_each_other() {
    let json = json(r#"{"a":{"b":{"c":1}},"d":2}"#);
    let at = |pointer: &str| SecretSpan::of(pointer.to_owned(), json.view().pointer(pointer).unwrap());
    let united = united(
        &json,
        vec![at("/d"), at("/a/b/c"), at("/a/b"), at("/a/b"), at("/d")],
    );
    assert_eq!(united, [at("/a/b"), at("/d")]);
}

#[test]
fn too_deep_value_is_sealed_with_its_container() {
    let depth = 64;
    let text = format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
    let json = json(&text);
    let pointer = "/0".repeat(depth);
    let deep = SecretSpan::of(pointer.clone(), json.view().pointer(&pointer).unwrap());
    let united = united(&json, vec![deep]);
    assert_eq!(united[0].pointer, "/0".repeat(MAX_STEPS));
    assert_eq!(&text[united[0].range.clone()], "[[[[1]]]]");
}

#[test]
fn long_tokens_are_split_below_the_string_limit() {
    for bytes in [
        1,
        MAX_STRING / 2 - 1,
        MAX_STRING / 2,
        MAX_STRING,
        3 * MAX_STRING / 2,
    ] {
        let begin = sealed::begin("0123456789abcdef");
        let mut text = Vec::new();
        push_sealed(&mut text, &begin, &vec![7; bytes]);
        let text = String::from_utf8(text).unwrap();
        let sealed = json(&text);
        assert_eq!(sealed.as_str(), text, "the sealed value is canonical");
        let mut expected = Vec::new();
        push_token(&mut expected, &begin, &vec![7; bytes]);
        assert!(
            token(sealed.view()).is_some_and(|token| token.as_bytes() == expected),
            "{bytes}"
        );
        assert_eq!(sealed::key_of(sealed.view()).as_deref(), Some("0123456789abcdef"));
    }
}

#[test]
fn only_the_form_that_sealing_writes_is_a_token() {
    let good = "v1:0123456789abcdef:AAAA";
    let is_token = |text: &str| token(json(text).view()).is_some();
    assert!(is_token(&format!(r#"{{"$sealed":"{good}"}}"#)));
    for other in [
        format!(r#"{{"$sealed":["{good}"]}}"#),
        format!(r#"{{"$sealed":["{good}","AAAA"]}}"#),
        r#"{"$sealed":[]}"#.to_owned(),
        format!(r#"{{"$sealed":"{good}","a":1}}"#),
        format!(r#"{{"sealed":"{good}"}}"#),
        r#"{"$sealed":"v2:0123456789abcdef:AAAA"}"#.to_owned(),
        r#"{"$sealed":"v1:0123456789ABCDEF:AAAA"}"#.to_owned(),
        r#"{"$sealed":"v1:0123:AAAA"}"#.to_owned(),
        r#"{"$sealed":7}"#.to_owned(),
        format!("\"{good}\""),
    ] {
        assert!(!is_token(&other), "{other}");
    }
}
