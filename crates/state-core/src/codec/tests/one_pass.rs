//! The one-pass decoder of entries agrees with the general decoder.

use super::laws::entry;
use crate::codec::canonical_entry::{self, Scratch};
use crate::codec::reader::{self, Reader, TextPool};
use crate::codec::{entry_text, read};
use crate::testkit::run::property_config;
use crate::{Entry, Json};
use proptest::collection::vec;
use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};
use proptest::sample::{Index, select};

/// Bytes with which a text is damaged: those that have a meaning in JSON.
const BYTES: &[u8] = b"\"\\{}[],:0123456789-+.eEtfnu \t\n\x01a";

fn in_one_pass(text: &str) -> Option<Entry> {
    canonical_entry::entry(text, &mut TextPool::default(), &mut Scratch::default())
}

fn in_general(text: &str) -> Option<Entry> {
    let (document, is_shallow) = reader::parse(text.as_bytes()).ok()?;
    read::entry(&Reader::new(&document, is_shallow), document.root()).ok()
}

/// Whether the one-pass decoder has to decode an entry: it has no unknown fields and no keys with escapes.
fn is_plain(entry: &Entry) -> bool {
    let has_escaped_key = |text: &str| {
        let keys = text.split("\":").filter_map(|before| before.rsplit_once('"'));
        keys.into_iter()
            .any(|(before, key)| key.contains('\\') || before.ends_with('\\'))
    };
    entry.unknown.is_empty() && !has_escaped_key(&entry_text(entry))
}

proptest! {
    #![proptest_config(property_config())]

    #[test]
    fn stored_entry_is_decoded_in_one_pass(entry in entry()) {
        let text = entry_text(&entry);
        let decoded = in_one_pass(&text);
        prop_assert!(decoded.is_some() || !is_plain(&entry), "{text}");
        prop_assert!(decoded.is_none_or(|decoded| decoded == entry), "{text}");
    }

    #[test]
    fn damaged_entry_is_decoded_as_in_general(
        entry in entry(),
        damages in vec((any::<Index>(), any::<Index>(), 0..4_u8, select(BYTES)), 1..4),
    ) {
        let mut text = entry_text(&entry).into_bytes();
        for (at, other, kind, byte) in damages {
            let (at, other) = (at.index(text.len()), other.index(text.len()));
            match kind {
                0 => text[at] = byte,
                1 => text.insert(at, byte),
                2 => drop(text.remove(at)),
                // Repeats or moves a part.
                _ => {
                    let part = text[at.min(other)..at.max(other)].to_vec();
                    text.splice(at..at, part);
                }
            }
        }
        let text = String::from_utf8_lossy(&text);
        if let Some(decoded) = in_one_pass(&text) {
            prop_assert_eq!(Some(decoded), in_general(&text), "{}", text);
        }
    }
}

#[test]
fn entry_with_values_at_the_depth_limit_is_decoded() {
    for depth in [60, 61, 62, 63, 64, 65] {
        let deep = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let text = format!("{{\"address\":\"a\",\"extensions\":{{\"x\":{deep}}},\"type\":\"leaf\"}}");
        let decoded = in_one_pass(&text);
        assert!(decoded.is_none() || decoded == in_general(&text), "{depth}");
        assert_eq!(decoded.is_some(), depth <= 62, "{depth}");
        assert_eq!(in_general(&text).is_some(), depth <= 64, "{depth}");
    }
}

#[test]
fn text_in_another_form_is_left_to_the_general_decoder() {
    let whole = "{\"address\":\"a\",\"inputs\":{\"a\":1,\"b\":[]},\"type\":\"leaf\"}";
    assert!(in_one_pass(whole).is_some());
    for (from, to) in [
        ("\"type\"", " \"type\""),
        (",\"type\":\"leaf\"", ""),
        ("\"a\":1,\"b\":[]", "\"b\":[],\"a\":1"),
        ("\"a\":1,\"b\":[]", "\"a\":1,\"a\":[]"),
        ("\"a\":1", "\"a\":01"),
        ("\"a\":1", "\"a\":-"),
        ("\"a\":1", "\"a\":1e"),
        ("\"a\":1", "\"a\":\"\\/\""),
        ("\"a\":1", "\"a\":\"\\u0041\""),
        ("\"a\":1", "\"a\":nul"),
        ("{\"a\":1,\"b\":[]}", "1"),
        ("leaf\"}", "leaf\"},"),
        ("leaf\"}", "leaf\""),
        ("leaf", "bush"),
        ("\"address\":\"a\"", "\"address\":\"\""),
    ] {
        let text = whole.replacen(from, to, 1);
        assert_ne!(text, whole);
        assert!(in_one_pass(&text).is_none(), "{text}");
        for end in 0..text.len() {
            assert!(in_one_pass(&text[..end]).is_none_or(|entry| Some(entry) == in_general(&text[..end])));
        }
    }
}

#[test]
fn values_are_the_canonical_ones() {
    let text =
        "{\"address\":\"a\",\"inputs\":{\"n\":-0.10e+5,\"s\":\"\\n\\u001f\u{e9}\"},\"type\":\"action\"}";
    let entry = in_one_pass(text).expect("the text is canonical");
    let inputs = Json::parse("{\"s\": \"\\u000a\\u001F\\u00e9\", \"n\": -0.10e+5}").unwrap();
    assert_eq!(entry.inputs.map(|inputs| inputs.json().clone()), Some(inputs));
}
