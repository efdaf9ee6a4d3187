//! The text of a data key, and what shows of it.

use super::*;
use proptest::prelude::*;
use state_core::testkit::clock::SeededEntropy;

fn refusal(text: &str) -> &'static str {
    DataKey::from_text(text.as_bytes()).unwrap_err()
}

proptest! {
    #[test]
    fn the_text_of_a_key_gives_the_key_and_its_id(bytes: [u8; 32]) {
        let key = DataKey::from_bytes(&bytes);
        let (read, id) = DataKey::from_text(key.to_text().as_bytes()).unwrap();
        prop_assert!(read == key);
        prop_assert_eq!(id, key.id());
    }

    #[test]
    fn other_keys_have_other_ids(one: [u8; 32], other: [u8; 32]) {
        prop_assume!(one != other);
        prop_assert_ne!(DataKey::from_bytes(&one).id(), DataKey::from_bytes(&other).id());
    }

    #[test]
    fn what_is_not_the_text_of_a_key_is_refused_without_a_panic(text: Vec<u8>) {
        prop_assert!(DataKey::from_text(&text).is_err());
    }
}

#[test]
fn the_text_is_three_lines_for_people() {
    let text = DataKey::from_bytes(&[0xab; 32]).to_text();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "state-data-key: 1");
    assert_eq!(lines[2], format!("key: {}", "ab".repeat(32)));
    assert_eq!(lines.len(), 3);
    assert!(text.ends_with('\n'));
}

#[test]
fn each_fault_of_a_text_has_its_own_words() {
    let good = DataKey::from_bytes(&[7; 32]).to_text();
    assert!(refusal("hello").contains("no data key"));
    assert!(refusal(&good.replace("key: 1\n", "key: 2\n")).contains("version"));
    assert!(refusal(&good.replace("key-id: ", "id: ")).contains("lacks a line"));
    assert!(refusal(&format!("{}more\n", *good)).contains("one more"));
    assert!(refusal(&good.replace("0707", "07g7")).contains("64 lower-case"));
    assert!(refusal(&good.trim_end().replace("0707", "07")).contains("64 lower-case"));
}

#[test]
fn every_purpose_has_a_key_of_its_own() {
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
fn debug_shows_the_id_alone() {
    let key = DataKey::generate(&SeededEntropy::new(3));
    assert_eq!(format!("{key:?}"), format!("DataKey({})", key.id()));
    let hex = key.to_text().lines().nth(2).unwrap()[5..].to_owned();
    assert!(!format!("{key:?}").contains(&hex[..16]));
}
