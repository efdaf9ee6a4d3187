//! Tests that the incremental check and the full verifier agree on every change, including groups, providers and
//! deposed entries.

use super::{address, lineage, uid};
use crate::address::{DeposedKey, EntryKey};
use crate::entry::{Entry, Provider, SharedEntry};
use crate::id::{MutationId, UpdateId};
use crate::journal::Record;
use crate::mutation::{Edit, EditChange};
use crate::snapshot::{FactoryInfo, Snapshot};
use crate::state::{LoadedSnapshots, State};
use crate::testkit::run::scaled;
use crate::testkit::strategy::entries_in_order;
use crate::update::{UpdateInfo, UpdateKind};
use crate::{Timestamp, verify};
use proptest::prelude::*;
use proptest::sample::Index;

/// A change of one entry in the list.
#[derive(Clone, Debug)]
enum Change {
    Remove,
    /// The entry gets the references of another entry.
    References(Index),
    /// The entry gets the group of another entry.
    Group(Index),
    /// The entry gets another entry as its provider, with the id of a third entry or without an id.
    Provider(Index, Option<Index>),
    /// The entry gets the id of another entry.
    Id(Index),
    /// The entry becomes a deposed entry at the address of another entry.
    Deposed(Index),
    /// A copy of the entry with another address is appended.
    Append,
}

fn changes() -> impl Strategy<Value = Change> {
    let index = any::<Index>;
    prop_oneof![
        Just(Change::Remove),
        index().prop_map(Change::References),
        index().prop_map(Change::Group),
        (index(), proptest::option::of(index())).prop_map(|(of, id)| Change::Provider(of, id)),
        index().prop_map(Change::Id),
        index().prop_map(Change::Deposed),
        Just(Change::Append),
    ]
}

impl Change {
    /// Returns the change as an edit, and the resulting list.
    fn of(&self, list: &[SharedEntry], at: usize) -> (EditChange, Vec<SharedEntry>) {
        let target = list[at].key();
        let mut changed = list.to_vec();
        let mut entry = Entry::clone(&list[at]);
        match self {
            Self::Remove => {
                changed.remove(at);
                return (EditChange::Remove(target), changed);
            }
            Self::Append => {
                entry.address = address("appended");
                entry.uid = Some(uid("appended"));
                let entry = SharedEntry::new(entry);
                changed.push(entry.clone());
                return (EditChange::Append(entry), changed);
            }
            Self::References(other) => {
                let other = other.get(list);
                entry.depends_on.clone_from(&other.depends_on);
                entry.parent.clone_from(&other.parent);
                entry.provider.clone_from(&other.provider);
                entry
                    .property_dependencies
                    .clone_from(&other.property_dependencies);
            }
            Self::Group(other) => entry.group.clone_from(&other.get(list).group),
            Self::Provider(of, id) => {
                *entry.provider = Some(Provider {
                    address: of.get(list).address.clone(),
                    id: id.and_then(|id| id.get(list).id.clone()),
                });
            }
            Self::Id(other) => entry.id.clone_from(&other.get(list).id),
            Self::Deposed(other) => {
                entry.address = other.get(list).address.clone();
                entry.deposed = DeposedKey::new("twin").ok();
            }
        }
        let entry = SharedEntry::new(entry);
        changed[at] = entry.clone();
        (EditChange::Put { target, entry }, changed)
    }
}

/// Returns a state with the entries of the snapshot and an open update.
fn state_of(snapshot: &Snapshot) -> State {
    let mut state = State::from_snapshot(lineage(), snapshot).unwrap();
    let moment = Timestamp::new("t");
    let update = UpdateInfo::new(UpdateId::from_bits([1; 16]), UpdateKind::Edit, moment);
    state
        .apply(&Record::UpdateStart(update), &LoadedSnapshots::new())
        .unwrap();
    state
}

proptest! {
    #![proptest_config(ProptestConfig { cases: scaled(4_000), ..ProptestConfig::default() })]

    #[test]
    fn edit_is_refused_exactly_when_verifier_reports_violations(
        entries in entries_in_order(10),
        changes in proptest::collection::vec((changes(), any::<Index>()), 1..6),
    ) {
        let mut snapshot = Snapshot::new(FactoryInfo::default(), "s", Timestamp::new("t"));
        snapshot.lineage = Some(lineage());
        snapshot.entries = entries;
        let mut state = state_of(&snapshot);
        for ((change, at), number) in changes.iter().zip(1_u8..) {
            if snapshot.entries.is_empty() {
                break;
            }
            let (edit, changed) = change.of(&snapshot.entries, at.index(snapshot.entries.len()));
            let id = MutationId::from_bits([number; 16]);
            let record = Record::Edit(Edit { id, changes: vec![edit] });
            let applied = state.apply(&record, &LoadedSnapshots::new());
            let expected = Snapshot { entries: changed, ..snapshot.clone() };
            let report = verify::verify(&expected);
            prop_assert_eq!(applied.is_ok(), report.is_valid(), "{:?}: {:?}, {:?}", change, applied, report);
            if applied.is_ok() {
                prop_assert!(state.entries().eq(&expected.entries));
                snapshot = expected;
            }
            let keys: Vec<EntryKey> = state.entries().map(|entry| entry.key()).collect();
            prop_assert_eq!(keys.len(), snapshot.entries.len());
        }
    }
}
