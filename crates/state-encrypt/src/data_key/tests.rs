//! Tests of the text form of a data key, and of its `Debug` output.

use super::*;
use proptest::prelude::*;
use state_core::testkit::clock::SeededEntropy;
use state_core::testkit::run::property_config;

fn refusal(text: &str) -> &'static str {
    DataKey::from_text(text.as_bytes()).unwrap_err()
}

proptest! {
    #![proptest_config(property_config())]

    #[test]
    fn key_text_round_trips_with_its_id(bytes: [u8; 32]) {
        let key = DataKey::from_bytes(&bytes);
        let (read, id) = DataKey::from_text(key.to_text().as_bytes()).unwrap();
        prop_assert!(read == key);
        prop_assert_eq!(id, key.id());
    }

    #[test]
    fn distinct_keys_have_distinct_ids(one: [u8; 32], other: [u8; 32]) {
        prop_assume!(one != other);
        prop_assert_ne!(DataKey::from_bytes(&one).id(), DataKey::from_bytes(&other).id());
    }

    #[test]
    fn parsing_arbitrary_key_text_fails_without_panic(text: Vec<u8>) {
        prop_assert!(DataKey::from_text(&text).is_err());
    }
}

#[test]
fn text_of_a_key_is_three_readable_lines() {
    let text = DataKey::from_bytes(&[0xab; 32]).to_text();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "state-data-key: 1");
    assert_eq!(lines[2], format!("key: {}", "ab".repeat(32)));
    assert_eq!(lines.len(), 3);
    assert!(text.ends_with('\n'));
}

#[test]
fn error_for_a_key_text_names_the_fault() {
    let good = DataKey::from_bytes(&[7; 32]).to_text();
    assert!(refusal("hello").contains("no data key"));
    assert!(refusal(&good.replace("key: 1\n", "key: 2\n")).contains("version"));
    assert!(refusal(&good.replace("key-id: ", "id: ")).contains("missing line"));
    assert!(refusal(&format!("{}more\n", *good)).contains("too many"));
    assert!(refusal(&good.replace("0707", "07g7")).contains("64 lower-case"));
    assert!(refusal(&good.trim_end().replace("0707", "07")).contains("64 lower-case"));
}

#[test]
fn every_purpose_derives_a_distinct_key() {
    use std::collections::BTreeSet;
    let key = DataKey::from_bytes(&[1; 32]);
    let purposes = [
        Purpose::Commitment,
        Purpose::Values,
        Purpose::Nonces,
        Purpose::Mac,
        Purpose::Endorsement,
        Purpose::ConfigValues,
    ];
    let keys: BTreeSet<[u8; 32]> = purposes.iter().map(|purpose| *key.derive(*purpose)).collect();
    assert_eq!(keys.len(), purposes.len());
}

#[test]
fn debug_shows_only_the_key_id() {
    let key = DataKey::generate(&SeededEntropy::new(3));
    assert_eq!(format!("{key:?}"), format!("DataKey({})", key.id()));
    let hex = key.to_text().lines().nth(2).unwrap()[5..].to_owned();
    assert!(!format!("{key:?}").contains(&hex[..16]));
}
