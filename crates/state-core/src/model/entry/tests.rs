//! Tests of the comparison of entries. They list all fields, so that they don't rely on the comparison itself.

use super::{BoxedField, Entry, EntryType, Provider};
use crate::address::{Address, Dependency, DeposedKey};
use crate::environment::Timestamp;
use crate::id::Uid;
use crate::json::{Json, JsonMap, Properties};
use std::collections::BTreeMap;

/// The name of a field, and an entry in which only this field differs.
pub(crate) type ChangedField = (&'static str, Entry);

/// Returns a copy of an entry for each field, in which only that field has the given value. The pattern names each
/// field, so that a field without a value is a compiler error.
macro_rules! each_field_changed {
    ($old:expr, { $($field:ident: $value:expr),* $(,)? }) => {{
        let old: &Entry = $old;
        let Entry { $($field: _),* } = old;
        vec![$((stringify!($field), Entry { $field: $value, ..old.clone() })),*]
    }};
}

fn address(text: &str) -> Address {
    text.parse().unwrap()
}

fn object(text: &str) -> Option<Properties> {
    Properties::new(Json::parse(text).unwrap())
}

fn text(value: &str) -> BoxedField<Option<String>> {
    Some(value.to_owned()).into()
}

/// Returns the entries that differ from [`Entry::leaf`] named `a` in exactly one field.
pub(crate) fn each_field_changed() -> Vec<ChangedField> {
    let other = || Dependency::Entry(address("b"));
    let fields: JsonMap = [("tool".to_owned(), Json::from_string("value"))].into();
    each_field_changed!(&plain(), {
        address: address("renamed"),
        deposed: Some(DeposedKey::new("old").unwrap()),
        uid: Some(Uid::from_bits([2; 16])),
        entry_type: EntryType::Action,
        kind: Some("other".to_owned()),
        schema_version: 1,
        group: Some(address("group")),
        sensitive_inputs: vec!["password".to_owned()],
        sensitive_outputs: vec!["token".to_owned()],
        library: text("library"),
        library_type: text("type"),
        configuration: text("west"),
        trigger_hash: text("hash"),
        inputs: object("{}"),
        outputs: object("{}"),
        depends_on: vec![other()],
        id: Some("id".to_owned()),
        parent: Some(address("b")),
        provider: Some(Provider { address: address("b"), id: None }).into(),
        property_dependencies: BTreeMap::from([("size".to_owned(), vec![other()])]).into(),
        deleted_with: Some(address("b")).into(),
        replace_with: vec![address("b")].into(),
        protect: true,
        external: true,
        retain_on_delete: true,
        pending_replacement: true,
        tainted: true,
        init_errors: vec!["no disk".to_owned()],
        created: Some(Timestamp::new("2026-01-01T00:00:00Z")),
        modified: Some(Timestamp::new("2026-01-01T00:00:00Z")),
        extensions: fields.clone(),
        unknown: fields.into(),
    })
}

/// Returns the entry that [`each_field_changed`] changes.
pub(crate) fn plain() -> Entry {
    let mut entry = Entry::leaf(address("a"), "thing");
    entry.uid = Some(Uid::from_bits([1; 16]));
    entry
}

#[test]
fn change_of_any_single_field_is_a_difference() {
    let old = plain();
    for (field, new) in each_field_changed() {
        assert!(new != old, "{field}");
        let is_ignored = field == "modified";
        assert_eq!(new.is_unchanged_from(&old), is_ignored, "{field} is set");
        assert_eq!(old.is_unchanged_from(&new), is_ignored, "{field} is cleared");
    }
}

#[test]
fn entry_without_uid_is_unchanged_from_one_with_a_uid() {
    let old = plain();
    let new = Entry {
        uid: None,
        ..old.clone()
    };
    assert!(new.is_unchanged_from(&old));
    assert!(!old.is_unchanged_from(&new), "the uid is new");
}
