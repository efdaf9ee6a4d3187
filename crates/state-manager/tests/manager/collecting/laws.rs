//! Property test: after any actions and any collections, kept revisions have the content they had when they were made.

use super::*;
use proptest::collection::vec;
use proptest::prelude::*;
use state_core::Clock;
use state_core::testkit::run::property_config;
use state_manager::testkit::with_small_checkpoints;
use std::collections::BTreeMap;

/// Size of a large resource, in bytes. A checkpoint is due after 16 KiB, see [`small_checkpoints`].
const HEAVY: usize = 10_000;

/// An action on a stack.
#[derive(Clone, Debug)]
enum Action {
    /// Creates or updates the resource with this number, as one revision.
    Deploy(u8),
    /// Deploys a resource so large that a checkpoint is due: [`HEAVY`] twice, in the begin and in the end of its step.
    DeployHeavy(u8),
    /// Imports a snapshot with the resource of this number.
    Import(u8),
    /// Stores a snapshot as a revision that isn't current.
    Write(u8),
    /// Rolls back to the revision with this index.
    Rollback(usize),
    /// Deletes the revision with this index.
    Delete(usize),
    /// Closes the session; the next action opens another one.
    Reopen,
    /// Advances the clock by this many hours.
    Wait(u8),
    /// Collects with a retention in days and in revisions, and with a grace period in hours.
    Collect { days: u8, last: u8, grace: u8 },
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let action = prop_oneof![
        6 => any::<u8>().prop_map(Action::Deploy),
        1 => any::<u8>().prop_map(Action::DeployHeavy),
        3 => any::<u8>().prop_map(Action::Import),
        2 => any::<u8>().prop_map(Action::Write),
        1 => any::<usize>().prop_map(Action::Rollback),
        1 => any::<usize>().prop_map(Action::Delete),
        4 => Just(Action::Reopen),
        3 => (0..60u8).prop_map(Action::Wait),
        4 => (0..3u8, 0..5u8, 0..3u8).prop_map(|(days, last, grace)| Action::Collect { days, last, grace }),
    ];
    // Most failures need few actions. The long sequences are still more than those of 48 cases with up to 40 actions.
    prop_oneof![
        9 => vec(action.clone(), 1..10),
        1 => vec(action, 10..40),
    ]
}

/// An empty stack in a store with checkpoints of short journals.
async fn small_checkpoints() -> Driver {
    let backend = MemoryBackend::default();
    let clock = Arc::new(ManualClock::default());
    let stack = with_small_checkpoints(on(Arc::new(backend.clone()), &clock))
        .new_stack_with(&"shop/production".parse().unwrap(), SealingPolicy::Plaintext)
        .await
        .unwrap();
    Driver {
        backend,
        clock,
        stack,
    }
}

/// A stack, and the revisions and contents that it must have.
struct Model {
    driver: Driver,
    /// Content of each revision when it was made; none for a revision that was deleted by hand. Collected revisions are
    /// not included.
    contents: BTreeMap<RevisionId, Option<Snapshot>>,
    /// Time at which each revision was made.
    times: BTreeMap<RevisionId, Duration>,
    /// The revisions that collections dropped.
    collected: Vec<RevisionId>,
    /// The open session; none until the next action opens one.
    session: Option<Session>,
}

impl Model {
    /// The open session; opens one if none is open.
    async fn session(&mut self) -> Session {
        if self.session.is_none() {
            self.session = Some(self.driver.stack.lock("act").await.unwrap());
        }
        self.session.clone().unwrap()
    }

    async fn close(&mut self) {
        if let Some(session) = self.session.take() {
            session.close().await.unwrap();
        }
    }

    /// Adds a new revision to the model.
    async fn made(&mut self, revision: RevisionId) {
        let snapshot = self.driver.stack.get(&revision).await.unwrap();
        self.times.insert(revision.clone(), self.driver.clock.elapsed());
        self.contents.insert(revision, Some(snapshot));
    }

    /// The revision with this index, modulo the number of revisions; none if there are none.
    fn pick(&self, index: usize) -> Option<RevisionId> {
        let all: Vec<_> = self.contents.keys().chain(&self.collected).collect();
        let index = index.checked_rem(all.len())?;
        Some(all[index].clone())
    }

    /// Performs an action on the stack and the model.
    async fn perform(&mut self, action: &Action) {
        let session = self.session().await;
        match *action {
            Action::Deploy(number) => self.deploy(&session, entry(&format!("e{number}"), &[])).await,
            Action::DeployHeavy(number) => {
                self.deploy(&session, heavy(&format!("h{number}"), HEAVY)).await;
            }
            Action::Import(number) => {
                let request = UpdateRequest::new(UpdateKind::Import);
                let imported = snapshot(&[&format!("i{number}")]);
                let made = session.import(request, imported, None).await.unwrap();
                self.made(made).await;
            }
            Action::Write(number) => {
                let made = session.write(snapshot(&[&format!("w{number}")])).await.unwrap();
                self.made(made).await;
            }
            Action::Rollback(index) => self.roll_back(&session, index).await,
            Action::Delete(index) => {
                if let Some(revision) = self.pick(index)
                    && session.state().current() != Some(&revision)
                {
                    session.delete(&revision).await.unwrap();
                    if let Some(content) = self.contents.get_mut(&revision) {
                        *content = None;
                    }
                }
            }
            Action::Reopen => self.close().await,
            Action::Wait(hours) => self.driver.clock.advance(HOUR * hours.into()),
            Action::Collect { days, last, grace } => self.collect(&session, days, last, grace).await,
        }
    }

    async fn deploy(&mut self, session: &Session, entry: Entry) {
        let update = start(session).await;
        let intent = if session.state().entry(&entry.key()).is_some() {
            Intent::update(entry.clone())
        } else {
            Intent::create(entry.clone())
        };
        let step = update.begin(intent).await.unwrap();
        step.succeed(Some(entry)).await.unwrap();
        let made = update.finish(UpdateResult::Succeeded).await.unwrap();
        self.made(made).await;
    }

    async fn roll_back(&mut self, session: &Session, index: usize) {
        let Some(revision) = self.pick(index) else { return };
        let request = UpdateRequest::new(UpdateKind::Rollback);
        match session.rollback(request, &revision).await {
            Ok(made) => {
                assert!(self.contents.get(&revision).is_some_and(Option::is_some));
                self.made(made).await;
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
                assert!(self.contents.get(&revision).is_none_or(Option::is_none));
            }
        }
    }

    async fn collect(&mut self, session: &Session, days: u8, last: u8, grace: u8) {
        let current = session.state().current().cloned();
        let retention = keep(days.into(), last.into(), HOUR * grace.into());
        let now = self.driver.clock.elapsed();
        let report = session.collect(&retention).await.unwrap();
        for revision in &report.dropped {
            let content = self.contents.remove(revision);
            assert!(
                content.is_some_and(|content| content.is_some()),
                "a dropped revision must have existed: {revision}"
            );
            assert_ne!(Some(revision), current.as_ref());
            assert!(
                now - self.times[revision] >= DAY * u32::from(days),
                "a dropped revision must be old enough: {revision}"
            );
            self.collected.push(revision.clone());
        }
        let left = self.contents.values().flatten().count();
        assert_eq!(report.kept, left);
        assert!(report.dropped.is_empty() || left >= usize::from(last));
        // Revisions that were deleted by hand are collected as well once they are older than the oldest kept revision.
        let begins = self.driver.stack.collected_before().await.unwrap();
        self.contents.retain(|revision, content| {
            content.is_some() || begins.is_none_or(|begins| revision.serial() >= begins)
        });
    }

    /// Requires that the stack has the revisions and the contents of the model.
    async fn check(&self) {
        let stack = &self.driver.stack;
        let expected: Vec<_> = self
            .contents
            .iter()
            .filter(|(_, content)| content.is_some())
            .map(|(id, _)| id.clone())
            .collect();
        assert_eq!(stack.list().await.unwrap(), expected);
        for (revision, content) in &self.contents {
            match content {
                Some(content) => assert_eq!(stack.get(revision).await.unwrap(), *content),
                None => assert_eq!(stack.get(revision).await.unwrap_err().kind(), ErrorKind::NotFound),
            }
        }
        for revision in &self.collected {
            assert!(is_collected(&stack.get(revision).await), "{revision}");
        }
        self.driver.assert_valid().await;
    }
}

proptest! {
    #![proptest_config(property_config())]

    #[test]
    fn kept_revisions_are_unchanged_and_others_collected(actions in actions()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut model = Model {
                driver: small_checkpoints().await,
                contents: BTreeMap::new(),
                times: BTreeMap::new(),
                collected: Vec::new(),
                session: None,
            };
            for action in &actions {
                model.perform(action).await;
                if matches!(action, Action::Collect { .. }) {
                    model.check().await;
                }
            }
            model.close().await;
            model.check().await;
            // A collection must delete all items that no reader can request, so that a second one finds nothing to do.
            let session = model.session().await;
            session.collect(&keep(0, 1, Duration::ZERO)).await.unwrap();
            let again = session.collect(&keep(0, 1, Duration::ZERO)).await.unwrap();
            prop_assert!(again.is_idle(), "{again:?}");
            Ok(())
        })?;
    }
}
