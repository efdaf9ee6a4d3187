//! Generates whole snapshots, with header fields and pending operations.

use super::addresses;
use super::entry::{extensions, secrets, timestamps, unknown_fields};
use super::json::{json_values, keys};
use super::list::entries_in_order;
use crate::address::{DeposedKey, EntryKey};
use crate::counter::Serial;
use crate::entry::{Entry, SharedEntry};
use crate::environment::Timestamp;
use crate::id::{Lineage, MutationId, UpdateId};
use crate::json::Json;
use crate::mutation::{Op, Outcome};
use crate::pending::{PendingOperation, RefusedResult};
use crate::snapshot::{FactoryInfo, ForeignSerial, Invalidation, Manifest, Plugin, Snapshot};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use std::collections::BTreeMap;

/// Generates valid snapshots with up to `max` entries and all other fields, except for a program, and for a
/// continuation, which only checkpoints contain.
pub fn snapshots(max: usize) -> impl Strategy<Value = Snapshot> {
    let identity = (
        option::of(any::<[u8; 16]>().prop_map(Lineage::from_bits)),
        option::of(any::<u64>().prop_map(Serial)),
        factories(),
        "[a-z]{0,5}",
        option::of(manifests()),
        timestamps(),
    );
    let rest = (foreign_serials(), extensions(), unknown_fields());
    let list = (
        entries_in_order(max),
        vec(operations(), 0..3),
        option::of(invalidations()),
    );
    (identity, list, outputs(), rest).prop_map(
        |(identity, (entries, operations, invalidated), outputs, rest)| {
            let (lineage, serial, factory, stack, manifest, generated_at) = identity;
            let mut snapshot = Snapshot::new(factory, stack, generated_at);
            snapshot.lineage = lineage;
            snapshot.serial = serial;
            snapshot.manifest = manifest;
            snapshot.pending_operations = (0..)
                .zip(operations)
                .map(|(place, draft)| draft.build(place, &entries))
                .collect();
            snapshot.entries = entries;
            snapshot.invalidated = invalidated;
            (snapshot.outputs, snapshot.sensitive_outputs) = outputs;
            (snapshot.foreign_serials, snapshot.extensions, snapshot.unknown) = rest;
            snapshot
        },
    )
}

fn invalidations() -> impl Strategy<Value = Invalidation> {
    let update = any::<[u8; 16]>().prop_map(UpdateId::from_bits);
    (update, timestamps()).prop_map(|(update, since)| Invalidation { update, since })
}

fn factories() -> impl Strategy<Value = FactoryInfo> {
    ("[a-z]{0,4}", "([0-9]\\.[0-9])?", "([0-9a-f]{6})?").prop_map(|(name, version, content_revision)| {
        FactoryInfo {
            name,
            version,
            content_revision,
        }
    })
}

fn manifests() -> impl Strategy<Value = Manifest> {
    let kind = select(vec!["language", "resource"]).prop_map(str::to_owned);
    let plugin =
        (kind, "[a-c]", "([0-9]\\.[0-9])?").prop_map(|(kind, name, version)| Plugin { kind, name, version });
    (
        option::of(timestamps()),
        "([0-9]\\.[0-9])?",
        btree_set(plugin, 0..3),
    )
        .prop_map(|(time, version, plugins)| Manifest {
            time,
            version,
            plugins: plugins.into_iter().collect(),
        })
}

fn outputs() -> impl Strategy<Value = (BTreeMap<String, Json>, Vec<String>)> {
    let picks = vec((any::<Index>(), any::<bool>()), 0..2);
    (btree_map(keys(), json_values(), 0..3), picks).prop_map(|(outputs, picks)| {
        let names: Vec<String> = outputs.keys().cloned().collect();
        let secrets = secrets(&names, &picks);
        (outputs, secrets)
    })
}

fn foreign_serials() -> impl Strategy<Value = BTreeMap<String, ForeignSerial>> {
    let serial = (any::<u64>(), any::<u64>())
        .prop_map(|(imported, at)| ForeignSerial::after_import(None, imported, Serial(at)));
    btree_map(Just("terraform".to_owned()), serial, 0..2)
}

/// A pending operation whose target is not selected yet, so that it doesn't depend on the entries.
#[derive(Clone, Debug)]
struct Draft {
    id: [u8; 16],
    op: Op,
    /// Selects the target among the entries.
    target: Index,
    /// Whether the target is `fallback` instead of an existing entry.
    is_new: bool,
    fallback: EntryKey,
    /// Whether the operation deposes an entry or leaves a tombstone, if its kind allows this.
    flag: bool,
    begun: Option<Timestamp>,
    refused: Option<Outcome>,
}

fn operations() -> impl Strategy<Value = Draft> {
    let ops: Vec<Op> = Op::ALL.into_iter().filter(|op| op.has_begin()).collect();
    let outcome = select(vec![Outcome::Succeeded, Outcome::Partial]);
    (
        any::<[u8; 16]>(),
        select(ops),
        any::<Index>(),
        any::<bool>(),
        addresses().prop_map(EntryKey::live),
        any::<bool>(),
        option::of(timestamps()),
        option::weighted(0.3, outcome),
    )
        .prop_map(|(id, op, target, is_new, fallback, flag, begun, refused)| Draft {
            id,
            op,
            target,
            is_new,
            fallback,
            flag,
            begun,
            refused,
        })
}

impl Draft {
    fn build(self, place: u8, entries: &[SharedEntry]) -> PendingOperation {
        let is_removal = matches!(self.op, Op::Delete | Op::Discard);
        let makes = matches!(self.op, Op::Create | Op::Import);
        let target = if self.is_new || entries.is_empty() {
            self.fallback
        } else {
            self.target.get(entries).key()
        };
        let requested = || {
            let mut entry = Entry::leaf(target.address.clone(), "kind");
            entry.deposed = target.deposed.clone();
            SharedEntry::new(entry)
        };
        let entry = (!is_removal).then(requested);
        let mut id = self.id;
        id[15] = place;
        PendingOperation {
            id: MutationId::from_bits(id),
            op: self.op,
            deposes: DeposedKey::new("old").ok().filter(|_| makes && self.flag),
            tombstone: is_removal && self.flag,
            begun: self.begun,
            result: self.refused.map(|outcome| RefusedResult {
                outcome,
                entry: entry.clone(),
                violations: vec!["the result violates a rule".to_owned()],
            }),
            entry,
            target,
        }
    }
}
