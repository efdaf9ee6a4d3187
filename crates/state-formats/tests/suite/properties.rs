//! Every version 4 state, whatever its fields, comes back: as Terraform lays it out from the model alone, and in any
//! other layout byte for byte until it changes.

pub(crate) mod generate;
mod node;

use crate::given::{assert_topological, export, extension, import, stored};
use generate::{Choices, state};
use proptest::prelude::*;
use state_core::testkit::run::scaled;
use state_core::{Json, Serial};

/// Decisions that a generator draws from; proptest shrinks them to zeros.
fn choices() -> impl Strategy<Value = Choices> {
    proptest::collection::vec(any::<u8>(), 0..600).prop_map(Choices::new)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(scaled(300)))]

    #[test]
    fn a_state_in_terraforms_layout_is_rendered_from_the_model_alone(mut choices in choices()) {
        let state = state(&mut choices);
        for text in [state.indented(), state.compact(), state.compact() + "\n"] {
            let snapshot = import(&text).snapshot;
            prop_assert!(extension(&snapshot).view().get("original").is_none(), "{}", text);
            prop_assert_eq!(export(&stored(&snapshot)), text);
            assert_topological(&snapshot);
        }
    }

    #[test]
    fn a_state_in_any_layout_comes_back_byte_for_byte(mut choices in choices()) {
        let mut state = state(&mut choices);
        state.shuffle(&mut choices);
        for text in [state.indented(), state.compact(), format!("\n {} ", state.compact())] {
            prop_assert_eq!(&export(&stored(&import(&text).snapshot)), &text);
        }
    }

    #[test]
    fn an_edited_state_keeps_every_value(mut choices in choices()) {
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
