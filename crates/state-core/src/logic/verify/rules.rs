//! The full verifier: all rules on every entry of a snapshot, and the rules about the snapshot as a whole.

use super::entry_rules::{Lookup, provider_id, reference, unique_key, unique_uid, verify_entry};
use super::{Note, Report, Rule, Violation};
use crate::address::{Address, Dependency, EntryKey};
use crate::dag::Graph;
use crate::entry::SharedEntry;
use crate::hashing::{Hash32, HashPartitions};
use crate::mutation::Op;
use crate::pending::PendingOperation;
use crate::snapshot::Snapshot;
use std::collections::BTreeSet;
use std::ops::Range;

/// A violation with the position of its entry; `usize::MAX` for the snapshot as a whole.
type Finding = (usize, Violation);

/// Checks all rules of snapshots. Violations are ordered by entry, then by rule; those of the snapshot as a whole
/// come last.
pub fn verify(snapshot: &Snapshot) -> Report {
    if snapshot.entries.len() >= Graph::LIMIT {
        let detail = format!("{} resources are too many for one stack", snapshot.entries.len());
        return Report {
            violations: vec![Violation::whole(Rule::Size, detail)],
            notes: Vec::new(),
        };
    }
    // The rules about single entries are checked while the graph is made, because each pass over the entries loads them
    // from memory again.
    let mut checks = EntryChecks::new(&snapshot.entries);
    let graph = Graph::inspecting(&snapshot.entries, |range| checks.add(range));
    report(&graph, snapshot, checks)
}

/// Checks all rules like [`verify`]. `graph` must be the graph of the snapshot's entries, or of equal entries.
///
/// # Panics
/// If `graph` has another number of entries.
pub fn verify_with(graph: &Graph<'_>, snapshot: &Snapshot) -> Report {
    let entries = graph.entries();
    assert_eq!(
        entries.len(),
        snapshot.entries.len(),
        "the graph of another list of entries"
    );
    let mut checks = EntryChecks::new(entries);
    checks.add(0..entries.len());
    report(graph, snapshot, checks)
}

/// Checks the rules about references and about the snapshot as a whole.
fn report(graph: &Graph<'_>, snapshot: &Snapshot, mut checks: EntryChecks<'_>) -> Report {
    checks.unique_uids();
    let mut findings = checks.findings;
    let mut notes = Vec::new();
    unique_keys(graph, &mut findings);
    for position in 0..graph.entries().len() {
        if !graph.is_satisfied(position) {
            let mut add = |violation| findings.push((position, violation));
            references(graph, position, &mut add, &mut notes);
        }
    }
    for position in checks.with_provider {
        let violation = provider_id(graph, &graph.entries()[position], position);
        findings.extend(violation.map(|violation| (position, violation)));
    }
    acyclic(graph, &mut findings);
    pending_operation(snapshot, &mut findings);
    header(snapshot, &mut findings);
    findings.sort_by_key(|(position, violation)| (*position, violation.rule));
    let mut violations: Vec<Violation> = findings.into_iter().map(|(_, violation)| violation).collect();
    // Several properties of an entry may have the same dependency, which then violates the same rule each time.
    violations.dedup();
    notes.dedup();
    Report { violations, notes }
}

/// The checks of the rules that need no graph.
struct EntryChecks<'a> {
    entries: &'a [SharedEntry],
    uids: HashPartitions,
    hash: Hash32,
    /// Positions of the entries whose provider reference contains an id.
    with_provider: Vec<usize>,
    findings: Vec<Finding>,
}

impl<'a> EntryChecks<'a> {
    fn new(entries: &'a [SharedEntry]) -> Self {
        Self {
            entries,
            uids: HashPartitions::with_capacity(entries.len()),
            hash: Hash32::default(),
            with_provider: Vec::new(),
            findings: Vec::new(),
        }
    }

    /// Checks the next entries, which are those at the positions in `range`.
    fn add(&mut self, range: Range<usize>) {
        for position in range {
            let entry = &self.entries[position];
            if let Some(uid) = entry.uid {
                self.uids.push(self.hash.of(uid), position as u32);
            }
            let violations = verify_entry(entry).into_iter();
            self.findings
                .extend(violations.map(|violation| (position, violation)));
            if entry.provider_reference().is_some() {
                self.with_provider.push(position);
            }
        }
    }

    /// Checks that uids are unique, after all entries were added.
    fn unique_uids(&mut self) {
        let entry = |position: u32| &self.entries[position as usize];
        let is_same = |one, other| entry(one).uid == entry(other).uid;
        self.uids.repeated(is_same, |other, position| {
            let violation = unique_uid(entry(position), entry(other));
            self.findings
                .extend(violation.map(|violation| (position as usize, violation)));
        });
    }
}

/// Checks the references of an entry, at least one of which is not satisfied or leads to an empty group.
fn references(graph: &Graph<'_>, position: usize, add: &mut dyn FnMut(Violation), notes: &mut Vec<Note>) {
    let entry = &graph.entries()[position];
    for edge in entry.references() {
        if let Some(violation) = reference(graph, entry, position, &edge) {
            add(violation);
        } else if let Dependency::Group(group) = edge.to
            && graph.live_members(&group).is_empty()
        {
            let entry = entry.key();
            notes.push(Note::DanglingGroup { entry, group });
        }
    }
}

/// Looks up entries in the graph. Positions are those of the list.
impl Lookup for Graph<'_> {
    type Position = usize;

    fn first_of(&self, address: &Address) -> Option<usize> {
        self.generations(address).first().map(|&first| first as usize)
    }

    fn first_with_id(&self, address: &Address, id: &str) -> Option<usize> {
        let mut generations = self.generations(address).iter().map(|&at| at as usize);
        generations.find(|at| self.entries()[*at].id.as_deref() == Some(id))
    }

    fn last_member(&self, group: &Address) -> Option<usize> {
        self.live_members(group).last().map(|&last| last as usize)
    }

    fn key_at(&self, position: usize) -> Option<EntryKey> {
        self.entries().get(position).map(|entry| entry.key())
    }
}

fn unique_keys(graph: &Graph<'_>, findings: &mut Vec<Finding>) {
    for generations in graph.shared_addresses() {
        let mut seen = BTreeSet::new();
        for position in generations.iter().map(|&at| at as usize) {
            let entry = &graph.entries()[position];
            if !seen.insert(&entry.deposed) {
                findings.push((position, unique_key(entry.key())));
            }
        }
    }
}

fn acyclic(graph: &Graph<'_>, findings: &mut Vec<Finding>) {
    // A list in topological order has no cycle, so the search is needed only if a reference leads to a later entry.
    let is_disordered = findings
        .iter()
        .any(|(_, found)| found.rule == Rule::ReferenceEarlier);
    if is_disordered && let Err(cycle) = graph.topological_order() {
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
