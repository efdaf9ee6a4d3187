//! Decisions whether an imported state may replace the state of a stack.

use crate::support::{check_import, import, with_instance};
use state_core::{Snapshot, Timestamp};
use state_formats::{ImportVerdict, Imported, Refusal};

fn state(lineage: &str, serial: u64, status: &str) -> Imported {
    let text = with_instance(&format!("{{\"status\": \"{status}\"}}"));
    let text = text.replace("\"serial\": 7", &format!("\"serial\": {serial}"));
    import(&text.replace("\"lineage\": \"l\"", &format!("\"lineage\": \"{lineage}\"")))
}

fn verdict(existing: &Imported, new: &Imported) -> ImportVerdict {
    check_import(Some(&existing.snapshot), new).expect("comparable states")
}

fn refused(refusal: Refusal) -> ImportVerdict {
    ImportVerdict::Refused(refusal)
}

#[test]
fn empty_stack_accepts_any_state() {
    let new = state("l", 3, "");
    assert_eq!(
        check_import(None, &new).expect("comparable"),
        ImportVerdict::Accepted
    );
    let empty = Snapshot::new(
        new.snapshot.factory.clone(),
        "s",
        Timestamp::new("2026-05-30T12:00:00Z"),
    );
    assert_eq!(
        check_import(Some(&empty), &new).expect("comparable"),
        ImportVerdict::Accepted
    );
}

#[test]
fn higher_serial_is_accepted_and_lower_is_refused() {
    let existing = state("l", 5, "");
    assert_eq!(
        verdict(&existing, &state("l", 6, "tainted")),
        ImportVerdict::Accepted
    );
    let older = Refusal::Older { existing: 5, new: 4 };
    assert_eq!(verdict(&existing, &state("l", 4, "")), refused(older));
}

#[test]
fn equal_serial_is_accepted_only_with_equal_content() {
    let existing = state("l", 5, "");
    assert_eq!(verdict(&existing, &state("l", 5, "")), ImportVerdict::Accepted);
    assert_eq!(
        verdict(&existing, &state("l", 5, "tainted")),
        refused(Refusal::SameSerial { serial: 5 })
    );
}

#[test]
fn other_lineage_is_refused_with_any_serial() {
    let unrelated = Refusal::Unrelated {
        existing: "l".to_owned(),
        new: "m".to_owned(),
    };
    assert_eq!(
        verdict(&state("l", 5, ""), &state("m", 9, "")),
        refused(unrelated)
    );
}

#[test]
fn state_without_lineage_cannot_replace_a_known_lineage() {
    let lost = Refusal::LineageLost {
        existing: "l".to_owned(),
    };
    assert_eq!(verdict(&state("l", 5, ""), &state("", 9, "")), refused(lost));
    assert_eq!(
        verdict(&state("", 5, ""), &state("l", 1, "")),
        ImportVerdict::Accepted
    );
}

#[test]
fn stack_without_terraform_origin_is_not_replaced() {
    let mut existing = state("l", 5, "");
    existing.snapshot.extensions.clear();
    assert_eq!(
        verdict(&existing, &state("l", 6, "")),
        refused(Refusal::OtherSystem)
    );
}

#[test]
fn refusal_displays_its_reason() {
    let message = Refusal::Older { existing: 5, new: 4 }.to_string();
    assert_eq!(
        message,
        "the new state has serial 4 but the stack has 5: newer changes would be lost"
    );
}
