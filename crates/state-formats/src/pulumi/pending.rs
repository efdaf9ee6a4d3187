//! Reads and writes pending operations: operations that began and whose end isn't recorded.

use super::facts::{OperationFacts, not_exportable};
use super::render;
use super::resource::{self, compact, digest_id};
use crate::error::{Error, Result};
use crate::extension::Interner;
use crate::fields::required;
use state_core::json::{Document, Json, ObjectWriter, View};
use state_core::{MutationId, Op, PendingOperation, Snapshot};
use std::sync::Arc;

/// Pulumi's names of pending operations.
const TYPES: [(&str, Op); 5] = [
    ("creating", Op::Create),
    ("updating", Op::Update),
    ("deleting", Op::Delete),
    ("reading", Op::Read),
    ("importing", Op::Import),
];

/// Reads a pending operation; `index` is its position in the list.
pub(super) fn read<'a>(
    document: Document<'a>,
    view: View<'a>,
    index: usize,
    shared: &mut Interner,
) -> Result<(PendingOperation, OperationFacts)> {
    super::envelope::object(&document, view, "a pending operation")?;
    let kind = required(&document, view, "a pending operation", "type")?;
    let name = kind.as_str().unwrap_or_default();
    let Some((name, op)) = TYPES.iter().find(|(known, _)| *known == name) else {
        let names: Vec<_> = TYPES.iter().map(|(name, _)| *name).collect();
        let message = format!("unknown type of operation: must be one of {}", names.join(", "));
        return Err(Error::at(&document, &kind, message));
    };
    let resource = required(&document, view, "a pending operation", "resource")?;
    let entry = resource::read(document, resource, shared)?;
    let mut facts = OperationFacts::default();
    for (key, value) in view.members().into_iter().flatten() {
        if !matches!(&*key, "type" | "resource") {
            facts.rest.insert(key.into_owned(), Json::from_view(value));
        }
    }
    let target = entry.key();
    let digest = digest_id(&[name, &target.to_string(), &index.to_string()]);
    let mut bits = [0; 16];
    bits.copy_from_slice(&digest.as_bytes()[..16]);
    let is_deletion = *op == Op::Delete;
    if is_deletion {
        facts.resource = Some(compact(resource));
    }
    let operation = PendingOperation {
        id: MutationId::from_bits(bits),
        op: *op,
        target,
        entry: (!is_deletion).then(|| Arc::new(entry)),
        deposes: None,
        tombstone: false,
        begun: None,
        result: None,
    };
    Ok((operation, facts))
}

/// Writes a pending operation.
pub(super) fn write(
    operation: &PendingOperation,
    kept: Option<&OperationFacts>,
    snapshot: &Snapshot,
    out: &mut String,
) -> Result<()> {
    let name = match operation.op {
        Op::Discard => "deleting",
        op => TYPES
            .iter()
            .find(|(_, known)| *known == op)
            .map(|(name, _)| *name)
            .ok_or_else(|| refuse(operation, "Pulumi has no pending operation of this kind"))?,
    };
    let mut resource = String::new();
    let target = || {
        snapshot
            .entries
            .iter()
            .find(|entry| entry.key() == operation.target)
    };
    match (kept.and_then(|kept| kept.resource.as_ref()), &operation.entry) {
        (Some(text), _) => resource.push_str(text),
        (None, Some(entry)) => render::resource(entry, None, &mut resource)?,
        (None, None) => match target() {
            Some(entry) => render::resource(entry, None, &mut resource)?,
            None => {
                return Err(refuse(
                    operation,
                    "the resource that it deletes isn't in the state",
                ));
            }
        },
    }
    let mut object = ObjectWriter::new(out);
    object.raw("resource", &resource).string("type", name);
    for (key, value) in kept.iter().flat_map(|kept| &kept.rest) {
        object.raw(key, value.as_str());
    }
    object.finish();
    Ok(())
}

fn refuse(operation: &PendingOperation, reason: &str) -> Error {
    let object = format!("pending {} of {}", operation.op, operation.target);
    not_exportable(object, reason)
}
