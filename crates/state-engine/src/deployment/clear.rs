//! The end of a run: what isn't wanted any more goes, and what was replaced, in reverse order.

use super::drive::broken;
use super::{Deployment, StepError};
use crate::event::Event;
use crate::plan::{Condemned, How, Schedule, Wanted, condemned, needed_by_unsettled};
use state_core::SharedEntry;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::task::JoinSet;

impl Deployment {
    /// Deletes what isn't wanted.
    pub(crate) async fn clear(self: &Arc<Self>, mut wanted: Wanted) {
        wanted.unsettled = needed_by_unsettled(&self.recorder.state());
        match self.sentence(&wanted).await {
            Ok((list, pairs)) => self.execute(list, pairs).await,
            Err(error) => self.note(error),
        }
    }

    async fn sentence(&self, wanted: &Wanted) -> Result<(Vec<Condemned>, Vec<(usize, usize)>), StepError> {
        let state = self.recorder.state();
        let entries: Vec<SharedEntry> = state.entries().cloned().collect();
        let (mut list, pairs) = condemned(&entries, wanted, |entry| self.is_target(&entry.address));
        for item in &mut list {
            item.entry = self.open(&item.entry)?;
        }
        Ok((list, pairs))
    }

    async fn execute(self: &Arc<Self>, list: Vec<Condemned>, pairs: Vec<(usize, usize)>) {
        let mut schedule = Schedule::new(list.len(), pairs);
        // What may not go keeps what it needs, and nothing else.
        let refused: Vec<usize> = (0..list.len())
            .filter(|item| matches!(list[*item].how, How::Refuse(_)))
            .collect();
        for item in &refused {
            self.lose(&list, &mut schedule, *item);
        }
        self.execute_rest(&list, schedule).await;
        for item in refused {
            if let Err(error) = self.remove(list[item].clone()).await {
                self.note(error);
            }
        }
    }

    async fn execute_rest(self: &Arc<Self>, list: &[Condemned], mut schedule: Schedule) {
        let mut tasks: JoinSet<Result<(), StepError>> = JoinSet::new();
        let mut items = HashMap::new();
        loop {
            while tasks.len() < self.parallel() && self.goes_on() {
                let Some(item) = schedule.begin() else {
                    break;
                };
                let deployment = Arc::clone(self);
                let condemned = list[item].clone();
                let handle = tasks.spawn(async move { deployment.remove(condemned).await });
                items.insert(handle.id(), item);
            }
            let Some(ended) = tasks.join_next_with_id().await else {
                return;
            };
            let id = match &ended {
                Ok((id, _)) => *id,
                Err(error) => error.id(),
            };
            let Some(item) = items.remove(&id) else {
                continue;
            };
            match ended.map(|(_, ended)| ended) {
                Ok(Ok(())) => schedule.succeeded(item),
                Ok(Err(error)) => {
                    self.note(error);
                    self.lose(list, &mut schedule, item);
                }
                Err(error) => {
                    self.note(broken(&list[item].key(), &error));
                    self.lose(list, &mut schedule, item);
                }
            }
        }
    }

    /// Those that wait for one that didn't go can't go either.
    fn lose(&self, list: &[Condemned], schedule: &mut Schedule, item: usize) {
        let key = list[item].key();
        for lost in schedule.failed(item) {
            let reason = format!("{key} still needs it");
            let address = list[lost].entry.address.clone();
            self.tell(&Event::Skipped {
                address: address.clone(),
                reason: reason.clone(),
            });
            self.shared().report.skipped.push((address, reason));
        }
    }
}
