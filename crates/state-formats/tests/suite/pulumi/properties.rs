//! Properties of generated Pulumi states: a state in Pulumi's layout is rendered without its original text, and a state
//! in any other layout is exported byte for byte until it changes.

use super::generate::document;
use super::support::{export, import, value};
use super::text::{compact, exported, indented, numbered};
use crate::properties::generate::Choices;
use crate::support::{detect, encrypted_secrets, stored};
use proptest::prelude::*;
use state_core::testkit::run::property_config;
use std::sync::Arc;

fn choices() -> impl Strategy<Value = Choices> {
    proptest::collection::vec(any::<u8>(), 0..600).prop_map(Choices::new)
}

/// The resources of a document in any form.
fn resources(document: &mut serde_json::Value) -> Option<&mut Vec<serde_json::Value>> {
    let deployment = if document.get("deployment").is_some() {
        &mut document["deployment"]
    } else if document.get("checkpoint").is_some() {
        &mut document["checkpoint"]["latest"]
    } else {
        &mut document["latest"]
    };
    deployment.get_mut("resources")?.as_array_mut()
}

proptest! {
    #![proptest_config(property_config())]

    #[test]
    fn state_in_pulumi_layout_needs_no_original_text(mut choices in choices()) {
        let document = document(&mut choices);
        for text in [compact(&document), indented(&document), exported(&document)] {
            let snapshot = import(&text).snapshot;
            prop_assert!(snapshot.extensions["pulumi"].view().get("original").is_none(), "{}", text);
            prop_assert_eq!(export(&stored(&snapshot)), text);
        }
    }

    #[test]
    fn state_in_any_layout_roundtrips_byte_for_byte(mut choices in choices()) {
        let document = numbered(&document(&mut choices));
        let sorted = serde_json::to_string(&document).expect("JSON");
        for text in [sorted.clone(), format!("\n {sorted} "), sorted.replace('u', "\\u0075").replace("n\\u0075ll", "null").replace("tr\\u0075e", "true")] {
            prop_assert_eq!(&export(&stored(&import(&text).snapshot)), &text);
        }
    }

    #[test]
    fn edited_state_keeps_all_other_values_and_texts(mut choices in choices()) {
        let mut document = document(&mut choices);
        let at = choices.below(100);
        let mut snapshot = stored(&import(&compact(&document)).snapshot);
        let sorted = serde_json::to_string(&numbered(&document)).expect("JSON");
        let mut from_sorted = stored(&import(&sorted).snapshot);
        let Some(resources) = resources(&mut document).filter(|resources| !resources.is_empty()) else {
            return Ok(());
        };
        let at = at % resources.len();
        resources[at]["id"] = "another".into();
        for snapshot in [&mut snapshot, &mut from_sorted] {
            Arc::make_mut(&mut snapshot.entries[at]).id = Some("another".to_owned());
        }
        prop_assert_eq!(export(&snapshot), compact(&document));
        prop_assert_eq!(value(&export(&from_sorted)), numbered(&document));
    }

    #[test]
    fn debug_output_contains_no_values(mut choices in choices()) {
        let snapshot = import(&compact(&document(&mut choices))).snapshot;
        let shown = format!("{:?}", snapshot.entries);
        prop_assert!(!shown.contains("AAAA") && !shown.contains("DDDD"));
        let secrets: usize = snapshot.entries.iter().map(|entry| entry.sensitive_inputs.len()).sum();
        prop_assert!(encrypted_secrets(&snapshot) >= secrets);
    }

    #[test]
    fn arbitrary_changes_never_panic(mut choices in choices(), cut in 0_usize..4000, byte in any::<u8>()) {
        let mut bytes = compact(&document(&mut choices)).into_bytes();
        let at = cut % bytes.len();
        bytes[at] = byte;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Ok(imported) = super::support::try_import(&text) {
            // An accepted state must be exported byte for byte.
            prop_assert_eq!(export(&imported.snapshot), text);
        }
        prop_assert!(detect(&bytes[..at]).is_err(), "a truncated object isn't a state");
    }
}
