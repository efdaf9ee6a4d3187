//! Tests of detection and masking of secrets.

use super::{
    Marks, SecretStrings, covered_pointers, find_copies, has_sensitive, mask, mask_entry, mask_outputs,
};
use crate::testkit::run::property_config;
use crate::{Address, Entry, FactoryInfo, Json, Properties, Snapshot, Timestamp};
use proptest::collection::{btree_map, vec};
use proptest::prelude::{Just, Strategy, prop_assert, prop_assert_eq, prop_oneof, proptest};

fn json(text: &str) -> Json {
    Json::parse(text).unwrap()
}

fn properties(text: &str) -> Option<Properties> {
    Properties::new(json(text))
}

fn strings(paths: &[&str]) -> Vec<String> {
    paths.iter().map(|&path| path.to_owned()).collect()
}

fn pointers(value: &str, paths: &[&str]) -> Vec<String> {
    covered_pointers(&json(value), &strings(paths), &SecretStrings::default())
}

fn masked(value: &str, paths: &[&str]) -> String {
    let masked = mask(&json(value), &strings(paths), &SecretStrings::default(), "***");
    masked.as_str().to_owned()
}

#[test]
fn field_name_covers_the_whole_field() {
    let value = r#"{"a":{"b":[1,2]},"a/b":3,"c":4}"#;
    assert_eq!(masked(value, &["a"]), r#"{"a":"***","a/b":3,"c":4}"#);
    assert_eq!(pointers(value, &["a/b"]), ["/a~1b"]);
}

#[test]
fn pointer_covers_its_target() {
    let value = r#"{"a":{"b":[1,{"x~y":2}]},"c":4}"#;
    assert_eq!(
        masked(value, &["/a/b/0"]),
        r#"{"a":{"b":["***",{"x~y":2}]},"c":4}"#
    );
    assert_eq!(pointers(value, &["/a/b/1/x~0y"]), ["/a/b/1/x~0y"]);
}

#[test]
fn missing_path_covers_its_nearest_ancestor() {
    let value = r#"{"a":{"b":[1,2],"s":"t"},"c":4}"#;
    for (path, covers) in [
        ("/a/b/2", "/a/b"),
        ("/a/b/-", "/a/b"),
        ("/a/b/01", "/a/b"),
        ("/a/b/x/y", "/a/b"),
        ("/a/x/y", "/a"),
        ("/a/s/t", "/a/s"),
        ("/a/~2", "/a"),
        ("/x", ""),
        ("x", ""),
    ] {
        assert_eq!(pointers(value, &[path]), [covers], "{path}");
    }
    assert_eq!(masked(value, &["x"]), "\"***\"");
}

#[test]
fn path_passes_through_dynamic_value_wrappers() {
    let value = r#"{"a":{"type":"x","value":{"p":{"type":"y","value":[7,8]},"q":1}},"b":{"value":{"p":1}}}"#;
    assert_eq!(pointers(value, &["/a/p"]), ["/a/value/p"]);
    assert_eq!(pointers(value, &["/a/p/1"]), ["/a/value/p/value/1"]);
    assert_eq!(pointers(value, &["/a/value/q"]), ["/a/value/q"]);
    assert_eq!(pointers(value, &["/a/z"]), ["/a"]);
    assert_eq!(
        pointers(value, &["/b/p"]),
        ["/b"],
        "an object without a type is not a wrapper"
    );
}

#[test]
fn overlapping_paths_are_reduced_to_the_outermost() {
    let value = r#"{"a":{"b":{"c":1}},"d":2,"e":3}"#;
    assert_eq!(pointers(value, &["d", "/a/b/c", "/a/b", "/d"]), ["/a/b", "/d"]);
    assert!(pointers(value, &[]).is_empty());
}

#[test]
fn copies_of_a_long_secret_are_masked_in_the_whole_entry() {
    let mut entry = Entry::leaf(Address::new("db").unwrap(), "db");
    entry.inputs =
        properties(r#"{"password":{"v":"hunter22","pin":"12345"},"copy":["hunter22","x"],"n":"12345"}"#);
    entry.outputs = properties(r#"{"url":"hunter22","n":"12345","map":{"hunter22":true},"hunter22":1}"#);
    entry.sensitive_inputs = strings(&["password"]);
    let (inputs, outputs) = mask_entry(&entry, "***");
    assert_eq!(
        inputs.unwrap().json().as_str(),
        r#"{"copy":["***","x"],"n":"12345","password":"***"}"#
    );
    assert_eq!(
        outputs.unwrap().json().as_str(),
        r#"{"hunter22":1,"map":"***","n":"12345","url":"***"}"#
    );
}

#[test]
fn copies_of_marked_values_are_found_except_of_common_values() {
    let mut database = Entry::leaf(Address::new("db").unwrap(), "db");
    database.inputs = properties(r#"{"password":"hunter2-staple","region":"eu-central-1"}"#);
    database.sensitive_inputs = strings(&["password", "region"]);
    let mut server = Entry::leaf(Address::new("server").unwrap(), "server");
    server.inputs =
        properties(r#"{"url":"db://root:hunter2-staple@host","zone":"eu-central-1","size":"small"}"#);
    let mut snapshot = Snapshot::new(FactoryInfo::default(), "app", Timestamp::new("t"));
    snapshot.entries = vec![database.into(), server.into()];
    snapshot
        .outputs
        .insert("login".to_owned(), json(r#""hunter2-staple""#));
    let copies = find_copies(&snapshot, &|_| Marks::default());
    let found: Vec<_> = copies.entries.iter().map(|(_, marks)| &marks.inputs).collect();
    assert_eq!(found, [&["/url"]]);
    assert_eq!(copies.outputs, ["/login"]);
}

#[test]
fn object_covered_as_a_whole_keeps_its_field_names() {
    let mut entry = Entry::leaf(Address::new("db").unwrap(), "db");
    entry.outputs = properties(r#"{"a":"secret1","b":[2]}"#);
    entry.sensitive_outputs = strings(&["/gone/x"]);
    let (inputs, outputs) = mask_entry(&entry, "***");
    assert_eq!(inputs, None);
    assert_eq!(outputs.unwrap().json().as_str(), r#"{"a":"***","b":"***"}"#);
}

fn with_outputs(outputs: &str, paths: &[&str]) -> Snapshot {
    let mut snapshot = Snapshot::new(FactoryInfo::default(), "s", Timestamp::new("t"));
    for (name, value) in json(outputs).view().members().unwrap() {
        snapshot.outputs.insert(name.into_owned(), Json::from_view(value));
    }
    snapshot.sensitive_outputs = strings(paths);
    snapshot
}

fn shown(outputs: &str, paths: &[&str]) -> Vec<String> {
    let masked = mask_outputs(&with_outputs(outputs, paths), "***");
    masked.values().map(|json| json.as_str().to_owned()).collect()
}

#[test]
fn outputs_are_marked_by_name_and_by_pointer() {
    let outputs =
        r#"{"a":{"type":"t","value":{"k":"hunter22","l":1}},"b":"hunter22","c":2,"d":{"hunter22":1}}"#;
    assert_eq!(
        shown(outputs, &["/a/k"]),
        [
            r#"{"type":"t","value":{"k":"***","l":1}}"#,
            r#""***""#,
            "2",
            r#""***""#
        ]
    );
    assert_eq!(
        shown(outputs, &["c"]),
        [
            r#"{"type":"t","value":{"k":"hunter22","l":1}}"#,
            r#""hunter22""#,
            r#""***""#,
            r#"{"hunter22":1}"#
        ]
    );
    assert_eq!(shown(outputs, &["gone"]), [r#""***""#; 4]);
}

#[test]
fn only_existing_values_count_as_sensitive() {
    assert!(!has_sensitive(&with_outputs("{}", &["a"])));
    assert!(!has_sensitive(&with_outputs(r#"{"a":1}"#, &[])));
    assert!(has_sensitive(&with_outputs(r#"{"a":1}"#, &["a"])));
    let mut snapshot = with_outputs("{}", &[]);
    let mut entry = Entry::leaf(Address::new("a").unwrap(), "k");
    entry.sensitive_inputs = strings(&["a"]);
    snapshot.entries.push(entry.clone().into());
    assert!(!has_sensitive(&snapshot));
    entry.inputs = properties(r#"{"a":1}"#);
    snapshot.entries.push(entry.into());
    assert!(has_sensitive(&snapshot));
}

#[test]
fn debug_shows_no_secret() {
    let mut secrets = SecretStrings::default();
    secrets.collect(&json(r#"{"a":"hunter22"}"#), &strings(&["a"]));
    assert!(secrets.contains("hunter22"));
    assert_eq!(format!("{secrets:?}"), "SecretStrings(1)");
}

/// Generates strings with delimiters, so that no string is a part of another one.
fn token() -> impl Strategy<Value = String> {
    "<[a-d]{5}>"
}

fn value() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("7".to_owned()),
        Just("\"short\"".to_owned()),
        token().prop_map(|token| format!("\"{token}\"")),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let key = prop_oneof![3 => "[a-c]", 1 => Just("value".to_owned()), 1 => Just("type".to_owned()), 1 => token()];
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(","))),
            btree_map(key, inner, 0..4).prop_map(|members| object(&members)),
        ]
    })
}

fn object(members: &std::collections::BTreeMap<String, String>) -> String {
    let members: Vec<String> = members
        .iter()
        .map(|(key, value)| format!("\"{key}\":{value}"))
        .collect();
    format!("{{{}}}", members.join(","))
}

fn fields() -> impl Strategy<Value = Option<Properties>> {
    btree_map("[a-c]", value(), 0..4).prop_map(|members| properties(&object(&members)))
}

fn paths() -> impl Strategy<Value = Vec<String>> {
    vec(
        prop_oneof!["[a-d]", "(/([a-c]|[0-2]|value)){1,4}", "[/~a01]{0,5}"],
        0..3,
    )
}

proptest! {
    #![proptest_config(property_config())]

    #[test]
    fn masked_entry_contains_no_marked_string(
        inputs in fields(),
        outputs in fields(),
        sensitive_inputs in paths(),
        sensitive_outputs in paths(),
    ) {
        let mut entry = Entry::leaf(Address::new("a").unwrap(), "k");
        (entry.inputs, entry.outputs) = (inputs, outputs);
        (entry.sensitive_inputs, entry.sensitive_outputs) = (sensitive_inputs, sensitive_outputs);
        let secrets = SecretStrings::of_entry(&entry);
        let (inputs, outputs) = mask_entry(&entry, "***");
        for (before, after) in [(&entry.inputs, inputs.unwrap()), (&entry.outputs, outputs.unwrap())] {
            for secret in &secrets.strings {
                prop_assert!(!after.json().as_str().contains(secret.as_str()));
            }
            let names = |side: &Properties| -> Vec<String> {
                side.view().members().unwrap().map(|(key, _)| key.into_owned()).collect()
            };
            prop_assert_eq!(names(before.as_ref().unwrap()), names(&after));
            let canonical = Json::parse(after.json().as_str()).unwrap();
            prop_assert_eq!(&canonical, after.json());
        }
    }

    #[test]
    fn covered_pointers_match_the_masked_values(side in fields(), marked in paths()) {
        let value = side.unwrap().json().clone();
        let mut secrets = SecretStrings::default();
        secrets.collect(&value, &marked);
        let masked = mask(&value, &marked, &secrets, "***");
        let covered = covered_pointers(&value, &marked, &secrets);
        prop_assert_eq!(covered.is_empty(), marked.is_empty());
        for pointer in &covered {
            prop_assert!(value.view().pointer(pointer).is_some());
            let there = masked.view().pointer(pointer).map(|view| view.text().to_owned());
            prop_assert_eq!(there.as_deref(), Some("\"***\""));
        }
        prop_assert_eq!(masked.as_str().matches("***").count(), covered.len());
    }
}

#[test]
fn many_missing_marks_cost_no_quadratic_time() {
    // Each of these marks selects the whole list, which must not be read for each of them.
    let elements: Vec<String> = (0..20_000).map(|n| format!("\"element-{n}\"")).collect();
    let value = Json::parse(&format!(r#"{{"list":[{}]}}"#, elements.join(","))).unwrap();
    let paths: Vec<String> = (0..20_000).map(|n| format!("/list/{}", 20_000 + n)).collect();
    let mut secrets = SecretStrings::default();
    secrets.collect(&value, &paths);
    assert!(secrets.contains("element-0") && secrets.contains("element-19999"));
}
