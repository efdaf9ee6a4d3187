//! Collections: the head drops the history before its base, then what it dropped is deleted.

use super::{Phase, Script};
use state_core::backend::{CollectableStore, LeftoverAction, ObjectName, StoredItemName};
use state_core::head::Collection;
use state_core::{Serial, Slot, Timestamp};
use std::collections::BTreeSet;
use std::time::Duration;

impl Script {
    /// Drops what is before the base, and deletes it.
    pub(super) async fn collect(&mut self) {
        if self.progress.store.head().base.start == self.progress.store.head().floor {
            self.checkpoint().await;
        }
        self.enter(Phase::Collection);
        let collect = |head: &mut state_core::Head| {
            head.floor = head.base.start;
            head.collection = Some(Collection {
                base: head.base.clone(),
                serial: Serial(1),
                since: Timestamp::new("2026-01-01T00:00:00Z"),
                forgotten: BTreeSet::new(),
            });
        };
        self.swap_head(&collect).await;
        self.delete_dropped().await;
    }

    /// Deletes the segments and compactions before the floor, and all objects but the snapshots from there on.
    pub(super) async fn delete_dropped(&mut self) {
        let floor = self.progress.store.head().floor;
        let store = self.store();
        let items = store.stored_items(self.lineage(), floor).await.unwrap();
        let is_kept = |name: &StoredItemName| {
            let StoredItemName::Object(ObjectName::Snapshot { slot, .. }) = name else {
                return false;
            };
            *slot >= floor
        };
        let names: Vec<StoredItemName> = items.into_iter().map(|item| item.name).collect();
        let names: Vec<StoredItemName> = names.into_iter().filter(|name| !is_kept(name)).collect();
        self.attempt(|store| store.deleting.extend(names.iter().cloned()));
        let session = self.session.as_ref().unwrap();
        session.owner.writer.delete(&names).await.unwrap();
        self.acknowledge();
        let leftovers = store.leftovers(self.lineage(), Duration::ZERO, LeftoverAction::Delete);
        leftovers.await.unwrap();
    }

    /// Whether a collection was begun: only then are there items before the floor.
    pub(super) fn has_floor(&self) -> bool {
        self.progress.store.head().floor > Slot::ZERO
    }
}
