//! Tests with real checkpoints from `shared/data/pulumi`, a folder next to the repository.

use super::support::{export, import, repaired, shared, try_import, value};
use crate::support::{detect, stored};
use state_core::verify::{self, Rule};
use state_formats::Error;

#[test]
fn real_checkpoint_roundtrips_byte_for_byte() {
    for name in ["checkpoint-v1.json", "checkpoint-v3.json"] {
        let Some(text) = shared(name) else { return };
        assert_eq!(detect(text.as_bytes()).expect("a state"), "pulumi");
        let imported = import(&text);
        assert_eq!(imported.snapshot.entries.len(), 30);
        assert!(export(&imported.snapshot) == text, "{name}");
        assert!(
            export(&stored(&imported.snapshot)) == text,
            "{name} after being stored"
        );
    }
}

#[test]
fn changed_real_checkpoint_differs_only_in_the_changed_field() {
    for name in ["checkpoint-v1.json", "checkpoint-v3.json"] {
        let Some(text) = shared(name) else { return };
        let mut snapshot = import(&text).snapshot;
        let protected = snapshot.entries[3].address.clone();
        std::sync::Arc::make_mut(&mut snapshot.entries[3]).protect = true;
        let mut expected = value(&text);
        let resources = expected["checkpoint"]["latest"]["resources"]
            .as_array_mut()
            .expect("a list");
        let changed = resources
            .iter_mut()
            .find(|resource| resource["urn"] == protected.as_str());
        changed.expect("it is there")["protect"] = true.into();
        assert_eq!(value(&export(&stored(&snapshot))), expected, "{name}");
    }
}

#[test]
fn violations_of_real_checkpoints_are_repaired() {
    for name in ["checkpoint-v1.json", "checkpoint-v3.json"] {
        let Some(text) = shared(name) else { return };
        let snapshot = import(&text).snapshot;
        let violations = verify::verify(&snapshot).violations;
        let late = violations
            .iter()
            .filter(|found| found.rule == Rule::ReferenceEarlier);
        assert!(late.count() >= 20, "{name}: {violations:#?}");
        let repaired = repaired(&snapshot);
        assert_eq!(repaired.snapshot.entries.len(), 30);
        let again = import(&export(&repaired.snapshot)).snapshot;
        assert!(verify::verify(&again).is_valid());
    }
}

#[test]
fn unknown_feature_error_names_the_feature() {
    let Some(text) = shared("checkpoint-v4-unsupported-feature.json") else {
        return;
    };
    let error = try_import(&text).expect_err("an unknown feature");
    assert!(matches!(error, Error::Unreadable { .. }), "{error:?}");
    assert!(error.to_string().contains("`unsupported-feature`"), "{error}");
    let known = text.replace("unsupported-feature", "refreshBeforeUpdate");
    assert!(export(&import(&known).snapshot) == known);
}
