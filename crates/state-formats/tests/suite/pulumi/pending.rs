//! Imports and exports of pending operations.

use super::support::{deployment, export, import, shop, value};
use super::text::compact;
use crate::support::stored;
use serde_json::{Value, json};
use state_core::{Op, verify};
use std::collections::BTreeSet;
use std::sync::Arc;

fn with(operations: &Value) -> Value {
    let mut document = deployment(&shop());
    document["deployment"]["pending_operations"] = operations.clone();
    document
}

#[test]
fn each_kind_of_pending_operation_roundtrips() {
    let types = ["creating", "updating", "deleting", "reading", "importing"];
    let operations: Value = types
        .iter()
        .map(|kind| {
            let mut resource = shop()[3].clone();
            resource["inputs"]["note"] = (*kind).into();
            json!({"resource": resource, "type": kind})
        })
        .collect();
    let text = compact(&with(&operations));
    let snapshot = import(&text).snapshot;
    let ops: Vec<Op> = snapshot
        .pending_operations
        .iter()
        .map(|operation| operation.op)
        .collect();
    assert_eq!(ops, [Op::Create, Op::Update, Op::Delete, Op::Read, Op::Import]);
    assert!(verify::verify(&snapshot).is_valid());
    let ids: BTreeSet<_> = snapshot
        .pending_operations
        .iter()
        .map(|operation| operation.id)
        .collect();
    assert_eq!(ids.len(), 5);
    assert_eq!(export(&stored(&snapshot)), text);
    let again = import(&text).snapshot.pending_operations;
    assert!(
        again.iter().all(|operation| ids.contains(&operation.id)),
        "the ids are derived from the content"
    );
    let secret = snapshot.pending_operations[0]
        .entry
        .as_ref()
        .expect("the created resource");
    assert_eq!(secret.sensitive_inputs, ["/password"]);
}

#[test]
fn removing_one_pending_operation_keeps_the_others() {
    let resource = &shop()[3];
    let operations = json!([
        {"resource": resource, "type": "deleting", "x_future": 1},
        {"resource": resource, "type": "updating"},
    ]);
    let document = with(&operations);
    let mut snapshot = import(&compact(&document)).snapshot;
    snapshot.pending_operations.pop();
    let mut expected = document;
    expected["deployment"]["pending_operations"]
        .as_array_mut()
        .expect("a list")
        .pop();
    assert_eq!(value(&export(&snapshot)), expected);
    snapshot.pending_operations.clear();
    assert_eq!(value(&export(&snapshot)), with(&json!([])));
}

#[test]
fn pending_deletion_targets_the_deposed_entry() {
    let mut tombstone = shop()[3].clone();
    tombstone["delete"] = true.into();
    tombstone["id"] = "db-old".into();
    let mut list = shop();
    list.push(tombstone.clone());
    let mut document = deployment(&list);
    document["deployment"]["pending_operations"] = json!([{"resource": tombstone, "type": "deleting"}]);
    let snapshot = import(&compact(&document)).snapshot;
    assert_eq!(snapshot.pending_operations[0].target, snapshot.entries[4].key());
    assert_eq!(export(&snapshot), compact(&document));
}

#[test]
fn new_pending_operations_are_exported_with_pulumi_names() {
    let mut snapshot = import(&compact(&with(&json!([])))).snapshot;
    let template = import(&compact(&with(
        &json!([{"resource": shop()[3], "type": "creating"}]),
    )))
    .snapshot;
    let mut discard = template.pending_operations[0].clone();
    (discard.op, discard.entry) = (Op::Discard, None);
    discard.target = snapshot.entries[3].key();
    snapshot.pending_operations = vec![discard];
    let mut expected = with(&json!([{"resource": shop()[3], "type": "deleting"}]));
    assert_eq!(value(&export(&snapshot)), expected);
    Arc::make_mut(&mut snapshot.entries[3]).protect = false;
    expected["deployment"]["pending_operations"][0]["resource"]
        .as_object_mut()
        .expect("an object")
        .remove("protect");
    assert_eq!(
        value(&export(&snapshot))["deployment"]["pending_operations"],
        expected["deployment"]["pending_operations"]
    );
}
