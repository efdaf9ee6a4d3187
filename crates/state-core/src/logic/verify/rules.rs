//! The rules of snapshots, one function each, in one table.

use super::index::{Gap, Index, Unmet};
use super::{Rule, Violation};
use crate::address::{Dependency, EntryKey};
use crate::dag;
use crate::entry::{Entry, EntryType, ReferenceField};
use crate::mutation::Op;
use crate::pending::PendingOperation;
use crate::snapshot::Snapshot;
use std::collections::{BTreeSet, HashSet};

/// How a rule is checked.
#[derive(Clone, Copy)]
enum Check {
    /// On each entry by itself: what is wrong with it.
    Entry(fn(&Entry, &mut dyn FnMut(String))),
    /// On the list of entries.
    List(fn(&Index<'_>, &mut Vec<Finding>)),
    /// On the rest of the snapshot.
    Snapshot(fn(&Snapshot, &mut Vec<Finding>)),
}

/// All rules of snapshots.
const RULES: [(Rule, Check); 10] = [
    (Rule::UniqueKey, Check::List(unique_key)),
    (Rule::UniqueUid, Check::List(unique_uid)),
    (Rule::ReferenceExists, Check::List(reference_exists)),
    (Rule::ReferenceEarlier, Check::List(reference_earlier)),
    (Rule::Acyclic, Check::List(acyclic)),
    (Rule::ProviderId, Check::List(provider_id)),
    (Rule::TypeFields, Check::Entry(type_fields)),
    (Rule::Marks, Check::Entry(marks)),
    (Rule::PendingOperation, Check::Snapshot(pending_operation)),
    (Rule::Header, Check::Snapshot(header)),
];

/// A violation and the position of the entry that it is reported under; none for the snapshot as a whole.
struct Finding {
    position: Option<usize>,
    violation: Violation,
}

impl Finding {
    fn at(index: &Index<'_>, position: usize, rule: Rule, detail: String) -> Self {
        Self {
            position: Some(position),
            violation: Violation::of(rule, index.entries[position].key(), detail),
        }
    }

    fn whole(violation: Violation) -> Self {
        Self {
            position: None,
            violation,
        }
    }
}

/// Every violation of a snapshot: entry by entry, then the whole; by rule within each.
pub(super) fn violations(snapshot: &Snapshot, index: &Index<'_>) -> Vec<Violation> {
    let mut findings = Vec::new();
    for (position, entry) in index.entries.iter().enumerate() {
        each_by_itself(entry, |rule, detail| {
            findings.push(Finding::at(index, position, rule, detail));
        });
    }
    for (_, check) in RULES {
        match check {
            Check::Entry(_) => {}
            Check::List(check) => check(index, &mut findings),
            Check::Snapshot(check) => check(snapshot, &mut findings),
        }
    }
    findings.sort_by_key(|finding| {
        let position = finding.position.unwrap_or(usize::MAX);
        (position, finding.violation.rule)
    });
    let mut violations: Vec<Violation> = findings.into_iter().map(|finding| finding.violation).collect();
    violations.dedup();
    violations
}

/// Every violation that an entry commits by itself.
pub(super) fn by_itself(entry: &Entry) -> Vec<Violation> {
    let mut violations = Vec::new();
    each_by_itself(entry, |rule, detail| {
        violations.push(Violation::of(rule, entry.key(), detail));
    });
    violations
}

fn each_by_itself(entry: &Entry, mut found: impl FnMut(Rule, String)) {
    for (rule, check) in RULES {
        if let Check::Entry(check) = check {
            check(entry, &mut |detail| found(rule, detail));
        }
    }
}

fn unique_key(index: &Index<'_>, findings: &mut Vec<Finding>) {
    let mut seen: HashSet<EntryKey> = HashSet::new();
    for &(first, later) in &index.generations {
        seen.insert(index.entries[first].key());
        if !seen.insert(index.entries[later].key()) {
            let detail = if index.entries[later].is_live() {
                "a second live entry has this address; only deposed ones may share it".to_owned()
            } else {
                "a second entry has this key".to_owned()
            };
            findings.push(Finding::at(index, later, Rule::UniqueKey, detail));
        }
    }
}

fn unique_uid(index: &Index<'_>, findings: &mut Vec<Finding>) {
    let uids = index.entries.iter().enumerate();
    let mut uids: Vec<_> = uids
        .filter_map(|(position, entry)| Some((entry.uid?, position)))
        .collect();
    uids.sort_unstable();
    for pair in uids.windows(2) {
        let [(uid, other), (same, position)] = pair else {
            continue;
        };
        if uid == same {
            let detail = format!("its uid {uid} is the one of {}", index.entries[*other].key());
            findings.push(Finding::at(index, *position, Rule::UniqueUid, detail));
        }
    }
}

fn reference_exists(index: &Index<'_>, findings: &mut Vec<Finding>) {
    for unmet in index.unmet.iter().filter(|unmet| unmet.gap == Gap::Missing) {
        let detail = format!("`{}` names {}, which does not exist", unmet.field, unmet.to);
        findings.push(Finding::at(index, unmet.position, Rule::ReferenceExists, detail));
    }
}

fn reference_earlier(index: &Index<'_>, findings: &mut Vec<Finding>) {
    for unmet in &index.unmet {
        let Gap::Later(other) = unmet.gap else {
            continue;
        };
        let detail = later(index, unmet, other);
        findings.push(Finding::at(index, unmet.position, Rule::ReferenceEarlier, detail));
    }
}

fn later(index: &Index<'_>, unmet: &Unmet, other: usize) -> String {
    let Unmet {
        position, field, to, ..
    } = unmet;
    match to {
        Dependency::Entry(_) if other == *position => format!("`{field}` names the entry itself"),
        Dependency::Entry(_) => format!("`{field}` names {to}, which comes later"),
        Dependency::Group(_) if belongs(&index.entries[*position], to) => {
            format!("`{field}` names {to}, to which the entry itself belongs")
        }
        Dependency::Group(_) => {
            let member = index.entries[other].key();
            format!("`{field}` names {to}, whose member {member} comes later")
        }
    }
}

fn belongs(entry: &Entry, to: &Dependency) -> bool {
    entry.is_live() && entry.group.as_ref() == Some(to.address())
}

fn acyclic(index: &Index<'_>, findings: &mut Vec<Finding>) {
    let is_disordered = index.unmet.iter().any(|unmet| matches!(unmet.gap, Gap::Later(_)));
    if is_disordered && let Err(cycle) = dag::topological_order(index.entries) {
        findings.push(Finding::whole(cycle.into()));
    }
}

fn provider_id(index: &Index<'_>, findings: &mut Vec<Finding>) {
    for &position in &index.strangers {
        if let Some(provider) = &*index.entries[position].provider {
            let detail = format!(
                "`{}` names {} with an id that no earlier entry of that address has",
                ReferenceField::Provider,
                provider.address
            );
            findings.push(Finding::at(index, position, Rule::ProviderId, detail));
        }
    }
}

fn type_fields(entry: &Entry, found: &mut dyn FnMut(String)) {
    let mut require = |field: &str, value: &Option<String>| {
        if value.as_ref().is_none_or(String::is_empty) {
            found(format!("its type {} requires `{field}`", entry.entry_type.name()));
        }
    };
    match entry.entry_type {
        EntryType::Leaf | EntryType::Action => require("kind", &entry.kind),
        EntryType::LibraryCall => {
            require("library", &entry.library);
            require("library-type", &entry.library_type);
            if entry.id.is_some() {
                found("a library call is no object of a provider, so it has no `id`".to_owned());
            }
        }
    }
}

fn marks(entry: &Entry, found: &mut dyn FnMut(String)) {
    let impossible = [
        ("pending-replacement", entry.pending_replacement),
        ("tainted", entry.tainted),
    ];
    for (mark, is_set) in impossible {
        if entry.external && is_set {
            found(format!("it is `external`, so it can't be `{mark}`"));
        }
    }
}

fn pending_operation(snapshot: &Snapshot, findings: &mut Vec<Finding>) {
    let mut ids = BTreeSet::new();
    for operation in &snapshot.pending_operations {
        let mut found = |what: String| {
            let detail = format!("pending {} {}: {what}", operation.op, operation.id);
            findings.push(Finding::whole(Violation::of(
                Rule::PendingOperation,
                operation.target.clone(),
                detail,
            )));
        };
        if !ids.insert(operation.id) {
            found("another pending operation has this id".to_owned());
        }
        incomplete(operation, &mut found);
    }
}

fn incomplete(operation: &PendingOperation, found: &mut dyn FnMut(String)) {
    let op = operation.op;
    if !op.has_begin() {
        found(format!("a step of kind {op} is never pending"));
        return;
    }
    let is_removal = matches!(op, Op::Delete | Op::Discard);
    match &operation.entry {
        Some(_) if is_removal => found("it carries an entry, although it makes none".to_owned()),
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
        findings.push(Finding::whole(Violation {
            rule: Rule::Header,
            entry: None,
            detail,
        }));
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
                "{recorded} entries are said to be recorded by the open update, but there are {entries}"
            ));
        }
    }
}
