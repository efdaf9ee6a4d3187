//! Lookup of mutations whose append had an unknown outcome: once the next client has taken the writer lock, the outcome
//! is known and never changes.

use super::*;
use state_backend_object_store::object_store::memory::InMemory;
use state_backend_object_store::object_store::path::Path;
use state_backend_object_store::testkit::{FaultyStore, StoreFault, VirtualClock};
use state_backend_object_store::{ObjectBackend, Options};
use state_core::backend::Opening;
use state_core::{ErrorKind, MutationId};
use state_manager::Error;

/// Number of consecutive requests that fail. It is higher than the number of attempts of any call.
const FAILING_REQUESTS: usize = 300;

/// An open update of a first writer, and the same stack as a second client sees it.
struct Fixture {
    /// The store of the first writer, with planned faults.
    faulty_store: FaultyStore,
    session: Session,
    update: Update,
    /// The same stack on the store without faults.
    direct: Stack,
}

async fn fixture() -> Fixture {
    let shared: Arc<InMemory> = Arc::default();
    let (faulty_store, direct) = (FaultyStore::new(shared.clone()), FaultyStore::new(shared));
    let clock = Arc::new(VirtualClock::start());
    let stacks = |store: &FaultyStore, seed| {
        let mut options = Options::new("s3://bucket", Path::default()).with_clock(clock.clone());
        options.proof = None;
        let backend = ObjectBackend::new(Arc::new(store.clone()), options, Opening::Create);
        Stacks::new(Arc::new(backend), environment(seed))
    };
    let name = "shop/production".parse().unwrap();
    let first = stacks(&faulty_store, 1)
        .new_stack_with(&name, SealingPolicy::Plaintext)
        .await
        .unwrap();
    let session = first.lock("deploy").await.unwrap();
    let update = start(&session).await;
    let direct = stacks(&direct, 2).get(&name).await.unwrap().unwrap();
    Fixture {
        faulty_store,
        session,
        update,
        direct,
    }
}

impl Fixture {
    /// Makes the next append fail with this fault, and all requests after it fail before their effect.
    fn fail(&self, fault: StoreFault) {
        self.faulty_store.fail(0, fault);
        for after in 1..FAILING_REQUESTS {
            self.faulty_store.fail(after, StoreFault::Before);
        }
    }

    /// Takes the lock over as the second client.
    async fn taken_over(&self) -> Session {
        let seen = self.direct.lock_status().await.unwrap().epoch;
        self.direct.break_lock("next", seen).await.unwrap()
    }
}

/// The id of the only mutation whose outcome the error leaves unknown.
#[track_caller]
fn unknown(error: &Error) -> MutationId {
    match error {
        Error::Indeterminate { mutations, .. } => {
            assert_eq!(mutations.len(), 1, "{error}");
            mutations[0]
        }
        other => panic!("{other:?}"),
    }
}

/// Faults of an append, and whether the append takes effect. A late append has no effect, because the fence of the next
/// owner occupies its slot.
const FAULT_OUTCOMES: [(StoreFault, bool); 5] = [
    (StoreFault::After, true),
    (StoreFault::SilentAfter, true),
    (StoreFault::Before, false),
    (StoreFault::Silent, false),
    (StoreFault::Late(FAILING_REQUESTS), false),
];

#[tokio::test(start_paused = true)]
async fn unknown_end_is_looked_up_after_a_takeover() {
    for (fault, applied) in FAULT_OUTCOMES {
        let fixture = fixture().await;
        let step = fixture
            .update
            .begin(Intent::create(entry("a", &[])))
            .await
            .unwrap();
        let id = step.id();
        fixture.fail(fault);
        let error = step.succeed(Some(entry("a", &[]))).await.unwrap_err();
        assert_eq!(unknown(&error), id, "{fault:?}");

        let next = fixture.taken_over().await;
        let answer = |session: &Session| {
            let state = session.state();
            let is_pending = state.pending().any(|operation| operation.id == id);
            (session.lookup(id), is_pending, state.entry(&key("a")).is_some())
        };
        let truth = if applied {
            (Some(true), false, true)
        } else {
            (None, true, false)
        };
        assert_eq!(answer(&next), truth, "{fault:?}");

        // A delayed append arrives now, and the fence refuses it. The first writer writes nothing more.
        fixture.faulty_store.heal();
        fixture.faulty_store.deliver().await;
        assert_eq!(
            fixture.session.check().await.unwrap_err().kind(),
            ErrorKind::Closed
        );
        next.close().await.unwrap();
        let later = fixture.direct.lock("later").await.unwrap();
        assert_eq!(answer(&later), truth, "{fault:?}, later");
        later.close().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn unknown_begin_is_pending_or_absent_after_a_takeover() {
    for (fault, applied) in FAULT_OUTCOMES {
        let fixture = fixture().await;
        fixture.fail(fault);
        let error = fixture
            .update
            .begin(Intent::create(entry("a", &[])))
            .await
            .unwrap_err();
        let id = unknown(&error);
        let next = fixture.taken_over().await;
        fixture.faulty_store.heal();
        fixture.faulty_store.deliver().await;
        let is_pending = next.state().pending().any(|operation| operation.id == id);
        assert_eq!(is_pending, applied, "{fault:?}");
        assert_eq!(next.lookup(id), None, "{fault:?}: the mutation had no end");
        next.close().await.unwrap();
        let tip = fixture.direct.tip().await.unwrap();
        assert_eq!(
            tip.state.pending().count(),
            usize::from(applied),
            "{fault:?}, later"
        );
    }
}
