//! Values that the stack has sealed stay sealed at later imports.

use crate::secrets::{shown, state};
use crate::support::{entry, export, import, stored};
use state_core::Snapshot;
use state_core::sensitive::{KeptMarks, Marks, keep_marks};
use state_formats::{add_chosen_marks, mark_secrets};

/// Imports a state with one resource, and seals a field of it as a user does.
fn sealed_by_hand(attributes: &str, pointer: &str) -> Snapshot {
    let mut imported = import(&state(&[("x_thing", "a", attributes)], "{}")).snapshot;
    mark_secrets(&mut imported);
    let marks = Marks {
        outputs: vec![pointer.to_owned()],
        ..Marks::default()
    };
    add_chosen_marks(std::sync::Arc::make_mut(&mut imported.entries[0]), marks);
    imported
}

/// Imports another state over the old one.
fn imported_over(old: &Snapshot, resources: &[(&str, &str, &str)], outputs: &str) -> Snapshot {
    let mut new = import(&state(resources, outputs)).snapshot;
    keep_marks(old, &mut new, KeptMarks::Chosen);
    mark_secrets(&mut new);
    new
}

#[test]
fn sealed_path_stays_marked_at_the_next_import() {
    let old = sealed_by_hand(r#"{"id": "1", "pin": "123"}"#, "/pin");
    let marks = |snapshot: &Snapshot| entry(snapshot, "x_thing.a").sensitive_outputs.clone();
    let new = imported_over(&old, &[("x_thing", "a", r#"{"id": "1", "pin": "456"}"#)], "{}");
    assert_eq!(marks(&new), ["/pin"]);
    assert_eq!(
        export(&stored(&new)),
        state(&[("x_thing", "a", r#"{"id": "1", "pin": "456"}"#)], "{}")
    );
    let without = imported_over(&new, &[("x_thing", "a", r#"{"id": "1"}"#)], "{}");
    assert!(marks(&without).is_empty(), "a missing value covers nothing else");
    let again = imported_over(
        &without,
        &[("x_thing", "a", r#"{"id": "1", "pin": "789"}"#)],
        "{}",
    );
    assert_eq!(marks(&again), ["/pin"]);
    let same = imported_over(&again, &[("x_thing", "a", r#"{"id": "1", "pin": "789"}"#)], "{}");
    assert_eq!(entry(&same, "x_thing.a"), entry(&again, "x_thing.a"));
}

#[test]
fn sealed_value_stays_marked_after_a_move_or_a_reorder() {
    let old = sealed_by_hand(r#"{"id": "1", "keys": ["public", "hunter22x"]}"#, "/keys/1");
    let moved = [(
        "x_thing",
        "b",
        r#"{"id": "1", "keys": ["public", "other-key-9"]}"#,
    )];
    let moved = imported_over(&old, &moved, "{}");
    assert_eq!(entry(&moved, "x_thing.b").sensitive_outputs, ["/keys/1"]);
    let reordered = [("x_thing", "a", r#"{"id": "2", "keys": ["hunter22x", "public"]}"#)];
    let reordered = imported_over(&old, &reordered, "{}");
    assert!(!shown(&reordered).contains("hunter22x"), "{}", shown(&reordered));
    let shorter = [("x_thing", "a", r#"{"id": "2", "keys": ["new-value"]}"#)];
    let shorter = imported_over(&old, &shorter, "{}");
    assert!(!shown(&shorter).contains("new-value"), "{}", shown(&shorter));
    let elsewhere = [("x_other", "c", r#"{"id": "3", "note": "hunter22x"}"#)];
    let elsewhere = imported_over(&old, &elsewhere, "{}");
    assert_eq!(entry(&elsewhere, "x_other.c").sensitive_outputs, ["/note"]);
}

#[test]
fn output_stays_sensitive_after_the_file_declares_it_open() {
    let old = import(&state(
        &[],
        r#"{"o": {"value": "hunter22x", "type": "string", "sensitive": true}}"#,
    ))
    .snapshot;
    let open = r#"{"o": {"value": "other-value", "type": "string"}}"#;
    let new = imported_over(&old, &[], open);
    assert!(!shown(&new).contains("other-value"), "{}", shown(&new));
    let again = imported_over(&new, &[], open);
    assert!(!shown(&again).contains("other-value"), "{}", shown(&again));
    assert_eq!(export(&stored(&again)), state(&[], open));
}
