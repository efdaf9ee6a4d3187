//! The laws at the codec: an encoded state decodes to the same entries in the same order.

use super::ACTIONS;
use super::core_laws::Bench;
use super::strategies::histories;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use state_core::testkit::oracle;
use state_core::testkit::run::property_config;
use state_core::{Json, Snapshot, Timestamp, codec};

/// Decodes a snapshot, and asserts the topological law.
fn read_back(bytes: &[u8]) -> Result<Snapshot, TestCaseError> {
    let decoded = codec::decode("snapshot", bytes).map_err(|error| TestCaseError::fail(error.to_string()))?;
    prop_assert!(oracle::is_topological(&decoded.entries));
    Ok(decoded)
}

proptest! {
    #![proptest_config(property_config())]

    #[test]
    fn encoded_state_decodes_in_the_same_order(history in histories(ACTIONS)) {
        let mut bench = Bench::new();
        for action in &history {
            bench.act(action)?;
            let mut snapshot = bench.state().snapshot("s", Timestamp::new("2026-01-01T00:00:00Z"));
            let pretty = codec::encode_pretty(&snapshot);
            prop_assert_eq!(&read_back(pretty.as_bytes())?, &snapshot);
            snapshot.continuation = Some(bench.state().continuation());
            let stored = codec::encode_stored(&snapshot);
            prop_assert_eq!(&read_back(&stored)?, &snapshot);
        }
    }

    #[test]
    fn stored_form_is_canonical_with_one_entry_per_line(history in histories(ACTIONS)) {
        let mut bench = Bench::new();
        for action in &history {
            bench.act(action)?;
        }
        let snapshot = bench.state().snapshot("s", Timestamp::new("2026-01-01T00:00:00Z"));
        let stored = codec::encode_stored(&snapshot);
        let again = codec::encode_stored(&read_back(&stored)?);
        prop_assert_eq!(&again, &stored, "a decoded snapshot must encode to the same bytes");
        let pretty = codec::encode_pretty(&snapshot);
        let again = codec::encode_stored(&read_back(pretty.as_bytes())?);
        prop_assert_eq!(&again, &stored, "a snapshot decoded from the pretty form must encode to the same bytes");
        let text = String::from_utf8(stored).map_err(|error| TestCaseError::fail(error.to_string()))?;
        let lines: Vec<&str> = text.lines().collect();
        for (line, entry) in lines[1..].iter().zip(&snapshot.entries) {
            let line = line.strip_suffix(',').unwrap_or(line);
            prop_assert_eq!(line, codec::entry_text(entry));
            // The line must be canonical: the JSON parser, which sorts keys, must reproduce its text.
            let json = Json::parse(line).map_err(|error| TestCaseError::fail(error.to_string()))?;
            prop_assert_eq!(json.as_str(), line);
        }
        prop_assert_eq!(lines.len(), snapshot.entries.len() + 2);
    }
}
