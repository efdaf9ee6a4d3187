//! Properties of generated version 4 states: a state in Terraform's layout is rendered without its original text, and a
//! state in any other layout is exported byte for byte until it changes.

pub(crate) mod generate;
mod node;

use crate::support::{assert_topological, export, extension, import, stored};
use generate::{Choices, state};
use proptest::prelude::*;
use state_core::testkit::run::property_config;
use state_core::{Json, Serial};

/// The random choices of a generator; proptest shrinks them to zeros.
fn choices() -> impl Strategy<Value = Choices> {
    proptest::collection::vec(any::<u8>(), 0..600).prop_map(Choices::new)
}

proptest! {
    #![proptest_config(property_config())]

    #[test]
    fn state_in_terraform_layout_needs_no_original_text(mut choices in choices()) {
        let state = state(&mut choices);
        for text in [state.indented(), state.compact(), state.compact() + "\n"] {
            let snapshot = import(&text).snapshot;
            prop_assert!(extension(&snapshot).view().get("original").is_none(), "{}", text);
            prop_assert_eq!(export(&stored(&snapshot)), text);
            assert_topological(&snapshot);
        }
    }

    #[test]
    fn state_in_any_layout_roundtrips_byte_for_byte(mut choices in choices()) {
        let mut state = state(&mut choices);
        state.shuffle(&mut choices);
        for text in [state.indented(), state.compact(), format!("\n {} ", state.compact())] {
            prop_assert_eq!(&export(&stored(&import(&text).snapshot)), &text);
        }
    }

    #[test]
    fn edited_state_keeps_all_other_values(mut choices in choices()) {
        let state = state(&mut choices);
        let mut shuffled = state.clone();
        shuffled.shuffle(&mut choices);
        let mut snapshot = stored(&import(&shuffled.indented()).snapshot);
        snapshot.serial = Some(Serial(1));
        let bumped = state.indented().replacen("\"serial\": 7", "\"serial\": 8", 1);
        let (written, expected) = (export(&snapshot), bumped);
        prop_assert_eq!(Json::parse(&written).expect("JSON").pretty(), Json::parse(&expected).expect("JSON").pretty());
    }
}
