//! Property tests of the two readers of program documents: the JSON reader and the YAML reader build the same tree from
//! JSON, and no input makes a reader panic.

use super::parse;
use crate::program::node::{Node, Place, Value};
use crate::program::problem::Problems;
use crate::program::{Program, document, yaml};
use proptest::prelude::*;
use state_core::json::{Json, write_string};
use state_core::testkit::run::scaled;

/// A document that uses every feature. A property test edits it at random.
const SAMPLE: &str = r#"
# A comment.
name: sample
config:
  dir: { type: string, default: ./site, description: "where \u00e9 goes" }
  many: { type: any, default: [1, 2.50, { a: ~ }] }
  salt: { type: string, sealed: 'v1:x''y' }
resources:
  page:
    kind: file
    inputs: { path: "${config.dir}/index.html", size: 0x1F, empty: , list: [a, "b", 'c'] }
  other:
    kind: file
    inputs:
      text: |+
        first $${literal}
         ${page.path} and ${page.content.member[0]["any key"]}

      folded: >-
        one
        two
    options:
      depends_on:
      - page
      protect: false
      timeout: 5m
outputs:
  url: file://${page.path}
  page: { value: { a: "${page.id}" }, sensitive: true }
"#;

/// Writes the positions and values of the tree as text. `down` is subtracted from every line number.
fn drawn(node: &Node, down: u64) -> String {
    fn draw(node: &Node, down: u64, out: &mut String) {
        let place = |place: Place| format!("{}:{} ", place.line - down, place.column);
        out.push_str(&place(node.place));
        match &node.value {
            Value::List(elements) => {
                out.push('[');
                elements.iter().for_each(|element| draw(element, down, out));
                out.push(']');
            }
            Value::Map(members) => {
                out.push('{');
                for member in members {
                    out.push_str(&place(member.place));
                    write_string(out, &member.name);
                    draw(&member.value, down, out);
                }
                out.push('}');
            }
            Value::Text(text) => {
                out.push_str(&node.json());
                text.openings
                    .iter()
                    .for_each(|opening| out.push_str(&place(*opening)));
            }
            _ => out.push_str(&node.json()),
        }
        out.push('\n');
    }
    let mut out = String::new();
    draw(node, down, &mut out);
    out
}

/// Generates arbitrary JSON values.
fn any_json() -> impl Strategy<Value = String> {
    let text = prop_oneof![
        4 => "[a-z${}.\\[\\]\"\\\\/:# \n\té😀-]{0,12}",
        1 => any::<String>(),
        1 => Just("${a.b}".to_owned()),
        1 => Just("yes".to_owned()),
        1 => Just("0644".to_owned()),
    ]
    .prop_map(|text| {
        let mut json = String::new();
        write_string(&mut json, &text);
        json
    });
    let number = prop_oneof![
        any::<i128>().prop_map(|number| number.to_string()),
        any::<f64>()
            .prop_filter("finite", |number| number.is_finite())
            .prop_map(|number| format!("{number:?}")),
        "-?(0|[1-9][0-9]{0,40})(\\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?",
    ];
    let scalar = prop_oneof![
        4 => text.clone(),
        2 => number,
        1 => prop_oneof![Just("true"), Just("false"), Just("null")].prop_map(str::to_owned),
    ];
    scalar.prop_recursive(5, 60, 6, move |inner| {
        let list = proptest::collection::vec(inner.clone(), 0..6);
        let map = proptest::collection::btree_map(text.clone(), inner, 0..6);
        prop_oneof![
            list.prop_map(|elements| format!("[{}]", elements.join(","))),
            map.prop_map(|members| {
                let members: Vec<String> = members
                    .iter()
                    .map(|(key, value)| format!("{key}:{value}"))
                    .collect();
                format!("{{{}}}", members.join(","))
            }),
        ]
    })
}

/// Runs the stages of a program that need no engine: parsing, configuration and the conversion to a source.
fn digest(bytes: &[u8]) {
    let Ok(program) = Program::parse("p", bytes) else {
        return;
    };
    assert!(!format!("{program:?}").is_empty());
    let given = program
        .declared()
        .map(|setting| (setting.name.clone(), "1".to_owned()))
        .collect();
    if let Ok(configured) = crate::program::tests::settings::now(program.configure(given, None)) {
        drop(configured.into_source());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: scaled(1_000), failure_persistence: None, ..ProptestConfig::default() })]

    /// JSON is valid YAML, so the YAML reader must build the same tree. The comment line makes the document invalid
    /// JSON and moves every position down by one line.
    #[test]
    fn both_readers_build_the_same_tree_from_json(value in any_json(), pretty in any::<bool>()) {
        let mut text = format!("{{\"a\": {value}}}");
        if pretty {
            text = Json::parse(&text).unwrap().pretty();
        }
        prop_assume!(!text.contains('\u{feff}'));
        let json = document::json(&text).unwrap();
        let below = format!("# As YAML.\n{text}");
        match yaml::read(&below) {
            Ok(yaml) => prop_assert_eq!(drawn(&json, 0), drawn(&yaml, 1)),
            Err(problem) => prop_assert!(false, "{}: {}", problem, text),
        }
    }

    #[test]
    fn reader_never_panics_on_random_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        digest(&bytes);
    }

    #[test]
    fn reader_never_panics_on_yaml_characters(text in "[-?:,\\[\\]{}#&*!|>'\"%@`<$ \t\r\na0.~=]{0,60}") {
        digest(text.as_bytes());
        digest(format!("resources:\n  a: {{kind: f, inputs: {{x: {text}}}}}\n").as_bytes());
        digest(format!("resources:\n  a:\n    kind: f\n    inputs:\n      x: {text}\n").as_bytes());
    }

    #[test]
    fn reader_never_panics_on_edited_documents(
        slips in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..3_u8), 1..6),
    ) {
        let mut bytes = SAMPLE.as_bytes().to_vec();
        for (at, other, how) in slips {
            let (at, other) = (at.index(bytes.len()), other.index(bytes.len()));
            match how {
                0 => bytes[at] = bytes[other],
                1 => drop(bytes.drain(at.min(other)..at.max(other).min(at.min(other) + 20))),
                _ => {
                    let piece = bytes[at.min(other)..at.max(other).min(at.min(other) + 20)].to_vec();
                    drop(bytes.splice(at..at, piece));
                }
            }
        }
        digest(&bytes);
    }
}

#[test]
fn unmodified_sample_is_valid() {
    assert_eq!(super::messages(SAMPLE), [""; 0]);
    let crlf = SAMPLE.replace('\n', "\r\n");
    assert_eq!(super::messages(&crlf), [""; 0]);
    assert_eq!(parse(SAMPLE).unwrap().title(), Some("sample"));
}

#[test]
fn json_escapes_are_decoded() {
    let text = r#"{"a": "\ud83d\ude00\/", "b": 1}"#;
    let Value::Map(members) = document::json(text).unwrap().value else {
        panic!("the document must be a mapping");
    };
    let Value::Text(text) = &members[0].value.value else {
        panic!("the value of `a` must be a string");
    };
    assert_eq!(text.text, "😀/");
}

#[test]
fn duplicate_json_key_is_a_problem() {
    let mut problems = Problems::default();
    let twice = document::read(br#"{"a": 1, "a": 2}"#, &mut problems);
    assert!(twice.is_some() && !problems.is_empty());
}
