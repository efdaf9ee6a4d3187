//! The full verifier: all rules on every entry of a snapshot, and the rules about the snapshot as a whole.

use super::entry_rules::{provider_id, reference, unique_key, unique_uid, verify_entry};
use super::index::Index;
use super::{Note, Report, Rule, Violation};
use crate::address::Dependency;
use crate::dag;
use crate::mutation::Op;
use crate::pending::PendingOperation;
use crate::snapshot::Snapshot;
use std::collections::BTreeSet;

/// A violation with the position of its entry; `usize::MAX` for the snapshot as a whole.
type Finding = (usize, Violation);

/// Checks all rules of snapshots. Violations are ordered by entry, then by rule; those of the snapshot as a whole
/// come last.
pub fn verify(snapshot: &Snapshot) -> Report {
    let index = Index::new(&snapshot.entries);
    let mut findings = Vec::new();
    let mut notes = Vec::new();
    unique_keys(&index, &mut findings);
    unique_uids(&index, &mut findings);
    for (position, entry) in index.entries.iter().enumerate() {
        let mut add = |violation| findings.push((position, violation));
        verify_entry(entry).into_iter().for_each(&mut add);
        for edge in entry.references() {
            if let Some(violation) = reference(&index, entry, position, &edge) {
                add(violation);
            } else if let Dependency::Group(group) = edge.to
                && index.is_empty(&group)
            {
                let entry = entry.key();
                notes.push(Note::DanglingGroup { entry, group });
            }
        }
        provider_id(&index, entry, position).into_iter().for_each(add);
    }
    acyclic(&index, &mut findings);
    pending_operation(snapshot, &mut findings);
    header(snapshot, &mut findings);
    findings.sort_by_key(|(position, violation)| (*position, violation.rule));
    let mut violations: Vec<Violation> = findings.into_iter().map(|(_, violation)| violation).collect();
    // Several properties of an entry may have the same dependency, which then violates the same rule each time.
    violations.dedup();
    notes.dedup();
    Report { violations, notes }
}

fn unique_keys(index: &Index<'_>, findings: &mut Vec<Finding>) {
    for (first, later) in index.shared_addresses() {
        let mut seen = BTreeSet::from([index.entries[first].key()]);
        for &position in later {
            let key = index.entries[position].key();
            if !seen.insert(key.clone()) {
                findings.push((position, unique_key(key)));
            }
        }
    }
}

fn unique_uids(index: &Index<'_>, findings: &mut Vec<Finding>) {
    let uids = index.entries.iter().enumerate();
    let mut uids: Vec<_> = uids
        .filter_map(|(position, entry)| Some((entry.uid?, position)))
        .collect();
    uids.sort_unstable();
    for pair in uids.windows(2) {
        if let [(_, other), (_, position)] = *pair {
            let violation = unique_uid(&index.entries[position], &index.entries[other]);
            findings.extend(violation.map(|violation| (position, violation)));
        }
    }
}

fn acyclic(index: &Index<'_>, findings: &mut Vec<Finding>) {
    // A list in topological order has no cycle, so the search is needed only if a reference leads to a later entry.
    let is_disordered = findings
        .iter()
        .any(|(_, found)| found.rule == Rule::ReferenceEarlier);
    if is_disordered && let Err(cycle) = dag::topological_order(index.entries) {
        findings.push((usize::MAX, cycle.into()));
    }
}

fn pending_operation(snapshot: &Snapshot, findings: &mut Vec<Finding>) {
    let mut ids = BTreeSet::new();
    for operation in &snapshot.pending_operations {
        let mut found = |what: String| {
            let detail = format!("pending {} {}: {what}", operation.op, operation.id);
            findings.push((
                usize::MAX,
                Violation::of(Rule::PendingOperation, operation.target.clone(), detail),
            ));
        };
        if !ids.insert(operation.id) {
            found("another pending operation has this id".to_owned());
        }
        incomplete(operation, &mut found);
    }
}

/// Checks that a pending operation has exactly the fields that the kind of its step allows.
fn incomplete(operation: &PendingOperation, found: &mut dyn FnMut(String)) {
    let op = operation.op;
    if !op.has_begin() {
        found(format!("a step of kind {op} is never pending"));
        return;
    }
    let is_removal = matches!(op, Op::Delete | Op::Discard);
    match &operation.entry {
        Some(_) if is_removal => found("it carries an entry, although a deletion has none".to_owned()),
        None if !is_removal => found("it carries no entry".to_owned()),
        Some(entry) if entry.address != operation.target.address => {
            found(format!(
                "it carries an entry of another address, {}",
                entry.address
            ));
        }
        _ => {}
    }
    if operation.deposes.is_some() && !matches!(op, Op::Create | Op::Import) {
        found("only a create or an import deposes".to_owned());
    }
    if operation.tombstone && !is_removal {
        found("only a delete or a discard leaves a tombstone".to_owned());
    }
}

fn header(snapshot: &Snapshot, findings: &mut Vec<Finding>) {
    let mut found = |detail: String| {
        findings.push((usize::MAX, Violation::whole(Rule::Header, detail)));
    };
    for (system, serial) in &snapshot.foreign_serials {
        if serial.highest < serial.imported {
            found(format!(
                "the highest serial of {system} is lower than the imported one"
            ));
        }
    }
    if let Some(continuation) = &snapshot.continuation {
        let entries = snapshot.entries.len();
        if continuation.recorded > entries as u64 {
            let recorded = continuation.recorded;
            found(format!(
                "{recorded} resources are marked as recorded by the open update, but there are only {entries}"
            ));
        }
    }
}
