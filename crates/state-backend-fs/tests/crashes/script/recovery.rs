//! Recovery: a session on the disk that a crash left, which reads what is there, takes the stack over, and goes on.

use super::{Draw, Phase, Progress, Recording, Script};
use crate::progress::without_compactions;
use state_backend_fs::FsBackend;
use state_backend_fs::testkit::SimulatedFs;
use state_core::backend::{CollectableStore, LeftoverAction};
use state_core::{Backend, Result};
use std::time::Duration;

impl Script {
    /// Recovers the machine. Returns `None` if the crash came before the stack existed.
    pub(crate) async fn recover(
        machine: &SimulatedFs,
        progress: &Progress,
        seed: u64,
    ) -> Result<Option<Recording>> {
        let mut script = Self::on(machine.clone(), Draw::new(seed), progress.clone());
        machine.record();
        script.log(|progress| {
            progress.phase = Phase::Recovery;
            progress.is_examined = true;
        });
        let Ok(store) = machine.open(progress.store.root) else {
            return Ok(None);
        };
        if !script.read(&store).await? {
            return Ok(None);
        }
        script.take_over(false).await;
        script.repeat().await;
        for _ in 0..2 {
            match script.draw.below(6) {
                _ if script.session.is_none() => break,
                0 => script.close().await,
                1 => script.checkpoint().await,
                2 => script.collect().await,
                3 => script.lose_lock().await,
                _ => script.append(script.draw.length()).await,
            }
        }
        Ok(Some(script.end()))
    }

    /// Reads the stack. What a read returned is durable from then on.
    async fn read(&mut self, store: &FsBackend) -> Result<bool> {
        let pointer = store.read_name(&super::name()).await?;
        if pointer.is_none() {
            return Ok(false);
        }
        let head = store.read_head(self.lineage()).await?;
        let view = store.read_journal(self.lineage(), Some(head.floor)).await?;
        let head = without_compactions(view.head);
        let known = self.progress.store.frames.last().map(state_core::Frame::slot);
        let new = view.frames.into_iter().filter(|frame| Some(frame.slot()) > known);
        let new: Vec<_> = new
            .filter(|frame| frame.kind() == state_core::journal::FrameKind::Data)
            .collect();
        self.attempt(|store| {
            store.pointer.settle(pointer);
            store.head.settle(Some(head));
            store.frames.extend(new);
            store.appending.clear();
            store.interrupt();
        });
        Ok(true)
    }

    /// Repeats the creations and deletions that the crash interrupted.
    async fn repeat(&mut self) {
        for (name, bytes) in self.progress.store.left.clone() {
            self.create_object(name, bytes).await;
        }
        let leftovers = self.store();
        let leftovers = leftovers.leftovers(self.lineage(), Duration::ZERO, LeftoverAction::Delete);
        leftovers.await.unwrap();
        if self.has_floor() {
            self.delete_dropped().await;
        }
    }
}
