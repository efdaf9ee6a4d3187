//! Copies to another store: the first one adds the stack there, each later one brings it up to date.

use super::{Phase, Script, request};
use crate::progress::without_compactions;
use bytes::Bytes;
use state_core::backend::{CopyTarget, CopyUpdate, ObjectName, Tail};
use state_core::{Backend, Frame, Head};

impl Script {
    /// Copies the stack, or updates its copy.
    pub(super) async fn copy(&mut self) {
        self.enter(Phase::Copy);
        let floor = self.progress.store.head().floor;
        let view = self
            .store()
            .read_journal(self.lineage(), Some(floor))
            .await
            .unwrap();
        let mut head = without_compactions(view.head);
        head.closed = false;
        match self.progress.copy.head.acknowledged.clone() {
            None => self.adopt(head, view.frames).await,
            Some(copy) if copy.nonce != head.nonce => self.update(&copy, head, view.frames).await,
            Some(_) => {}
        }
    }

    async fn adopt(&mut self, head: Head, frames: Vec<Frame>) {
        let collected = head.collection.as_ref().map(|collection| Tail {
            next: collection.base.start,
            chain: collection.base.chain,
        });
        let before = collected.unwrap_or_else(|| Tail::genesis(head.lineage));
        let objects = self.progress.store.objects.clone();
        self.log(|progress| {
            progress.copy.exists.attempt(true);
            progress.copy.before = before;
            progress.copy.head.attempt(Some(head.clone()));
            progress.copy.appending.clone_from(&frames);
            progress.copy.creating.clone_from(&objects);
        });
        let copy = self.machine.create(self.progress.copy.root).unwrap();
        for (name, bytes) in objects {
            copy.adopt_object(head.lineage, &name, bytes).await.unwrap();
        }
        copy.adopt_stack(&head, before, &frames).await.unwrap();
        self.log(|progress| progress.copy.acknowledge());
    }

    async fn update(&mut self, copy: &Head, head: Head, frames: Vec<Frame>) {
        let end = self.progress.copy.frames.last();
        let end = end.map_or(self.progress.copy.before, Tail::after);
        // A collection of the source may have dropped frames that the copy doesn't have.
        if head.floor > end.next {
            return;
        }
        let frames: Vec<Frame> = frames
            .into_iter()
            .filter(|frame| frame.slot() >= end.next)
            .collect();
        let objects = self.progress.store.objects.clone();
        let update = CopyUpdate {
            expected: copy.nonce,
            head,
            frames,
            lock: request("a copy", None, &self.draw),
        };
        let first = update.first_head("the copy", copy).unwrap();
        let last = update.last_head(&first);
        self.log(|progress| {
            let copy = &mut progress.copy;
            copy.head.attempt(Some(first));
            copy.head.attempt(Some(last));
            copy.appending.clone_from(&update.frames);
            let is_new = |(name, _): &(&ObjectName, &Bytes)| !copy.objects.contains_key(*name);
            let new = objects.iter().filter(is_new);
            copy.creating = new.map(|(name, bytes)| (name.clone(), bytes.clone())).collect();
        });
        let target = self.machine.open(self.progress.copy.root).unwrap();
        for (name, bytes) in self.progress.copy.creating.clone() {
            target
                .adopt_object(update.head.lineage, &name, bytes)
                .await
                .unwrap();
        }
        target.update_stack(&update).await.unwrap();
        self.log(|progress| progress.copy.acknowledge());
    }
}
