//! Property tests on random texts, compared with `serde_json` where possible.

use crate::testkit::run::property_config;
use std::collections::BTreeSet;
use std::fmt::{self, Write as _};

use proptest::prelude::*;
use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use super::super::{Document, Json, Kind, Limits, Style, View, canonical, write};

/// A value that is printed with random white space and escapes.
#[derive(Debug, Clone)]
enum Tree {
    Scalar(String),
    Text(String),
    List(Vec<Tree>),
    Map(Vec<(String, Tree)>),
}

fn tree() -> impl Strategy<Value = Tree> {
    let number = "-?(0|[1-9][0-9]{0,40})(\\.[0-9]{1,5})?([eE][+-]?[0-9]{1,3})?";
    let literal = prop_oneof![Just("null"), Just("true"), Just("false")].prop_map(String::from);
    let leaf = prop_oneof![
        number.prop_map(Tree::Scalar),
        literal.prop_map(Tree::Scalar),
        any::<String>().prop_map(Tree::Text),
        "[a-c\"\\\\\n<\u{1}\u{8}\u{1f}é😀]{0,12}".prop_map(Tree::Text),
    ];
    leaf.prop_recursive(5, 60, 24, |inner| {
        let key = prop_oneof!["[a-d\"\\\\\té😀\u{fffd}]{0,3}", any::<String>()];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Tree::List),
            prop::collection::btree_map(key, inner, 0..24)
                .prop_map(|map| map.into_iter().collect::<Vec<_>>())
                .prop_shuffle()
                .prop_map(Tree::Map),
        ]
    })
}

/// Generates noise for the printer. A single zero prints a compact text that is canonical except for the order of its
/// keys.
fn noise() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![Just(vec![0]), prop::collection::vec(any::<u8>(), 1..40)]
}

/// Prints a tree; the bytes of `noise` decide on white space and superfluous escapes.
struct Printer<'n> {
    out: String,
    noise: std::iter::Cycle<std::slice::Iter<'n, u8>>,
}

impl Printer<'_> {
    fn print(tree: &Tree, noise: &[u8]) -> String {
        let mut printer = Printer {
            out: String::new(),
            noise: noise.iter().cycle(),
        };
        printer.tree(tree);
        printer.out
    }

    fn noise(&mut self) -> u8 {
        self.noise.next().copied().unwrap_or(0)
    }

    fn token(&mut self, token: &str) {
        self.space();
        self.out.push_str(token);
        self.space();
    }

    fn space(&mut self) {
        let spaces = ["", "", "", " ", "\n", "\t\r\n  "];
        let space = spaces[usize::from(self.noise()) % spaces.len()];
        self.out.push_str(space);
    }

    fn tree(&mut self, tree: &Tree) {
        match tree {
            Tree::Scalar(text) => self.token(text),
            Tree::Text(text) => self.string(text),
            Tree::List(elements) => {
                self.token("[");
                for (index, element) in elements.iter().enumerate() {
                    self.token(if index == 0 { "" } else { "," });
                    self.tree(element);
                }
                self.token("]");
            }
            Tree::Map(members) => {
                self.token("{");
                for (index, (key, value)) in members.iter().enumerate() {
                    self.token(if index == 0 { "" } else { "," });
                    self.string(key);
                    self.token(":");
                    self.tree(value);
                }
                self.token("}");
            }
        }
    }

    fn string(&mut self, text: &str) {
        self.space();
        self.out.push('"');
        for character in text.chars() {
            let must = character < ' ' || matches!(character, '"' | '\\');
            if must || self.noise() % 8 == 7 {
                let mut units = [0; 2];
                for unit in character.encode_utf16(&mut units) {
                    write!(self.out, "\\u{unit:04X}").expect("writing to a string can't fail");
                }
            } else {
                self.out.push(character);
            }
        }
        self.out.push('"');
    }
}

/// Computes the canonical text of a tree without the code under test.
fn expected_canonical(tree: &Tree) -> String {
    let string = |text: &String| serde_json::to_string(text).expect("strings serialize");
    match tree {
        Tree::Scalar(text) => text.clone(),
        Tree::Text(text) => string(text),
        Tree::List(elements) => {
            let elements: Vec<_> = elements.iter().map(expected_canonical).collect();
            format!("[{}]", elements.join(","))
        }
        Tree::Map(members) => {
            let mut sorted: Vec<_> = members.iter().collect();
            sorted.sort_by_key(|(key, _)| key.as_bytes());
            let member =
                |(key, value): &(String, Tree)| format!("{}:{}", string(key), expected_canonical(value));
            let members: Vec<_> = sorted.into_iter().map(member).collect();
            format!("{{{}}}", members.join(","))
        }
    }
}

/// Reads a view value by value into a tree.
fn read(view: View<'_>) -> Tree {
    match view.kind() {
        Kind::Array => Tree::List(view.elements().expect("an array").map(read).collect()),
        Kind::Object => {
            let members = view.members().expect("an object");
            Tree::Map(
                members
                    .map(|(key, value)| (key.into_owned(), read(value)))
                    .collect(),
            )
        }
        Kind::String => Tree::Text(view.as_str().expect("a string").into_owned()),
        _ => Tree::Scalar(view.text().to_owned()),
    }
}

/// The reference parser: `serde_json`'s own grammar and surrogate rules, and no duplicate keys.
struct Strict;

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Strict)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Strict;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }
    fn visit_bool<E>(self, _: bool) -> Result<Strict, E> {
        Ok(Strict)
    }
    fn visit_i64<E>(self, _: i64) -> Result<Strict, E> {
        Ok(Strict)
    }
    fn visit_u64<E>(self, _: u64) -> Result<Strict, E> {
        Ok(Strict)
    }
    fn visit_f64<E>(self, _: f64) -> Result<Strict, E> {
        Ok(Strict)
    }
    fn visit_str<E>(self, _: &str) -> Result<Strict, E> {
        Ok(Strict)
    }
    fn visit_unit<E>(self) -> Result<Strict, E> {
        Ok(Strict)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Strict, A::Error> {
        while seq.next_element::<Strict>()?.is_some() {}
        Ok(Strict)
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Strict, A::Error> {
        let mut keys = BTreeSet::new();
        while let Some(key) = map.next_key::<String>()? {
            map.next_value::<Strict>()?;
            if !keys.insert(key) {
                return Err(de::Error::custom("duplicate"));
            }
        }
        Ok(Strict)
    }
}

/// Asks `serde_json` whether it accepts a text; returns `None` for numbers beyond its limit of 1e308.
fn oracle(bytes: &[u8]) -> Option<bool> {
    match serde_json::from_slice::<Strict>(bytes) {
        Ok(Strict) => Some(true),
        Err(error) if error.to_string().starts_with("number out of range") => None,
        Err(_) => Some(false),
    }
}

/// Checks that [`Document::parse`] accepts the same texts as the oracle, and that its results are plausible.
fn agrees_with_the_oracle(bytes: &[u8]) -> Result<(), TestCaseError> {
    let ours = Document::parse(bytes, &Limits::default());
    match oracle(bytes) {
        Some(accepted) => prop_assert_eq!(ours.is_ok(), accepted, "{:?}", ours.err()),
        // The text has a number beyond the limit of serde_json. If our parser accepts the text, serde_json must accept
        // it when it skips all values.
        None if ours.is_ok() => prop_assert!(serde_json::from_slice::<de::IgnoredAny>(bytes).is_ok()),
        None => {}
    }
    match ours {
        Ok(document) => {
            let again = Json::from_view(document.root());
            prop_assert!(again.as_str().len() <= document.root().text().len());
        }
        Err(error) => {
            let position = error.position();
            prop_assert!(position.offset <= bytes.len() && position.line >= 1 && position.column >= 1);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(property_config())]

    #[test]
    fn canonical_text_matches_the_naive_oracle(tree in tree(), noise in noise()) {
        let text = Printer::print(&tree, &noise);
        let json = Json::parse(&text).map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(json.as_str(), expected_canonical(&tree));
    }

    #[test]
    fn canonical_text_is_a_fixed_point(tree in tree(), noise in noise()) {
        let json = Json::parse(&Printer::print(&tree, &noise)).expect("well formed");
        let again = Json::parse(json.as_str()).expect("well formed");
        prop_assert_eq!(&again, &json);
        let mut appended = String::from("[");
        canonical(again.view(), &mut appended);
        prop_assert_eq!(&appended[1..], json.as_str());
    }

    #[test]
    fn views_read_the_printed_tree(tree in tree(), noise in noise()) {
        let text = Printer::print(&tree, &noise);
        let document = Document::parse(text.as_bytes(), &Limits::default()).expect("well formed");
        prop_assert_eq!(format!("{:?}", read(document.root())), format!("{tree:?}"));
    }

    #[test]
    fn printing_changes_only_the_layout(
        tree in tree(),
        noise in noise(),
        indent in prop_oneof![Just(None), Just(Some("  ")), Just(Some("\t"))],
        escape_html: bool,
    ) {
        let text = Printer::print(&tree, &noise);
        let document = Document::parse(text.as_bytes(), &Limits::default()).expect("well formed");
        let mut printed = String::new();
        write(document.root(), &Style { indent, escape_html }, &mut printed);
        let again = Document::parse(printed.as_bytes(), &Limits::default()).expect("well formed");
        prop_assert_eq!(format!("{:?}", read(again.root())), format!("{tree:?}"));
        if escape_html {
            let is_unsafe = printed.contains(['<', '>', '&', '\u{2028}', '\u{2029}']);
            prop_assert!(!is_unsafe);
        }
    }

    #[test]
    fn parser_agrees_with_serde_json_on_mutated_texts(
        tree in tree(),
        noise in noise(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..4_u8), 0..4),
    ) {
        let mut bytes = Printer::print(&tree, &noise).into_bytes();
        let alphabet = b"{}[],:\"\\/ \n\t0123456789.-+eEutrfalsn\x00\x1f\x7f\x80\xc3\xa9\xff";
        for (place, byte, action) in edits {
            let at = place.index(bytes.len() + 1);
            let symbol = alphabet[usize::from(byte) % alphabet.len()];
            match action {
                0 => bytes.insert(at, symbol),
                1 if at < bytes.len() => bytes[at] = symbol,
                2 if at < bytes.len() => drop(bytes.remove(at)),
                3 => bytes.truncate(at),
                _ => {}
            }
        }
        agrees_with_the_oracle(&bytes)?;
    }

    #[test]
    fn parser_agrees_with_serde_json_on_random_tokens(
        symbols in prop::collection::vec(prop::sample::select(vec![
            "{", "}", "[", "]", ",", ":", "\"a\"", "\"b\"", "\"\\u0061\"", "\"", "\\", "\\ud83d", "\\ude00", "\\n",
            "0", "1", "-", ".", "e", "+", "true", "null", " ", "\n", "tru", "\"a\":1", "{}", "[]",
        ]), 0..14),
    ) {
        agrees_with_the_oracle(symbols.concat().as_bytes())?;
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        agrees_with_the_oracle(&bytes)?;
    }

    #[test]
    fn pointers_and_keys_never_panic(tree in tree(), pointer in "(/|~|[0-9a-d]|\\PC){0,12}", offset: usize) {
        let text = Printer::print(&tree, &[0]);
        let document = Document::parse(text.as_bytes(), &Limits::default()).expect("well formed");
        let found = document.root().pointer(&pointer);
        if let Some(found) = found {
            let error = document.error_at(&found, "here");
            prop_assert_eq!(error.position().offset, found.offset());
        }
        prop_assert!(document.position(offset % (text.len() + 2)).offset <= text.len());
    }
}
