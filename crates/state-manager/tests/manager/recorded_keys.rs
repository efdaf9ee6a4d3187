//! Each change of the data key or of its recipients is recorded as a revision, even if another writer or a crash comes
//! between the change and its revision.

use super::*;
use state_core::ErrorKind;
use state_core::testkit::fault::{Fault, FaultPlan, FaultyBackend, Operation};
use state_encrypt::generate_identity;
use state_manager::{Expectations, Rekey, RevisionKind};
use std::sync::Mutex;

/// A change of the data key or of its recipients.
#[derive(Clone, Copy, Debug)]
enum Change {
    /// A new data key.
    Key,
    /// A new data key, without the revisions before it.
    Forget,
    /// An added recipient of the data key.
    Recipients,
    /// An added recipient of the published outputs.
    OutputRecipients,
}

impl Change {
    const ALL: [Self; 4] = [Self::Key, Self::Forget, Self::Recipients, Self::OutputRecipients];

    async fn make(self, stack: &Stack, recipient: &str) -> state_core::Result<()> {
        let more = [recipient.to_owned()];
        let rekey = |forget_history| Rekey {
            forget_history,
            message: "rotated".to_owned(),
            ..Rekey::default()
        };
        match self {
            Self::Key => stack.rekey("rekey", rekey(false)).await.map(drop),
            Self::Forget => stack.rekey("rekey", rekey(true)).await.map(drop),
            Self::Recipients => stack.add_recipients("add", &more).await.map(drop),
            Self::OutputRecipients => stack.add_output_recipients("add", &more).await.map(drop),
        }
    }

    /// The message of the revision that records the change.
    fn message(self, recipient: &str) -> String {
        match self {
            Self::Key | Self::Forget => "rotated".to_owned(),
            Self::Recipients => format!("added {recipient}"),
            Self::OutputRecipients => format!("outputs for {recipient}"),
        }
    }
}

/// A sealed stack with one revision, through a backend with a fault plan.
async fn sealed_stack() -> (Stacks, Stack, FaultPlan) {
    let faulty = FaultyBackend::new(Arc::new(MemoryBackend::default()));
    let plan = faulty.plan();
    let stacks = Stacks::new(Arc::new(faulty), environment(1)).with_keys(keys(1, &generate_identity()));
    let stack = stacks.new_stack(&"shop".parse().unwrap()).await.unwrap();
    deploy(&stack, &["a"]).await;
    (stacks, stack, plan)
}

/// Message and result of the newest revision.
async fn newest(stack: &Stack) -> (String, UpdateResult) {
    let newest = stack.history().await.unwrap().remove(0);
    let RevisionKind::Update(update) = newest.kind else {
        panic!("the newest revision is detached");
    };
    (update.message, update.result.unwrap())
}

/// Locks the stack in another thread and keeps the lock. The queue of the session runs on the returned runtime.
fn compete(stacks: &Stacks) -> (Session, tokio::runtime::Runtime) {
    std::thread::scope(|scope| {
        let competitor = scope.spawn(|| {
            let runtime = tokio::runtime::Runtime::new().unwrap();
            let session = runtime.block_on(async {
                let stack = stacks.get(&"shop".parse().unwrap()).await.unwrap().unwrap();
                stack.lock("compete").await.unwrap()
            });
            (session, runtime)
        });
        competitor.join().unwrap()
    })
}

#[test]
fn competing_writer_never_separates_change_and_record() {
    for change in Change::ALL {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let competitor = Arc::new(Mutex::new(None));
        let recipient = generate_identity().recipient().to_owned();
        let stack = runtime.block_on(async {
            let (stacks, stack, plan) = sealed_stack().await;
            let first = Arc::clone(&competitor);
            plan.watch(move |operation, before| {
                // The competitor takes the lock at the first moment at which it is free.
                if operation == Operation::Release && !before {
                    let mut first = first.lock().unwrap();
                    if first.is_none() {
                        *first = Some(compete(&stacks));
                    }
                }
            });
            let made = change.make(&stack, &recipient).await;
            made.unwrap_or_else(|error| panic!("{change:?}: {error}"));
            stack
        });
        let expected = (change.message(&recipient), UpdateResult::Succeeded);
        assert_eq!(runtime.block_on(newest(&stack)), expected, "{change:?}");
        let (session, other) = competitor.lock().unwrap().take().unwrap();
        other.block_on(session.close()).unwrap();
        assert_eq!(
            runtime.block_on(stack.history()).unwrap().len(),
            revisions_after(change)
        );
    }
}

/// The number of revisions in the history of [`sealed_stack`] after the change.
const fn revisions_after(change: Change) -> usize {
    match change {
        Change::Forget => 1,
        _ => 2,
    }
}

#[tokio::test]
async fn next_writer_records_change_after_a_crash() {
    let mut changed = 0;
    for change in Change::ALL {
        for (operation, nth) in [(Operation::SwapHead, 0), (Operation::Append, 1)] {
            for fault in [Fault::BeforeEffect, Fault::AfterEffect] {
                let what = format!("{change:?} {operation:?} {fault:?}");
                let (_, stack, plan) = sealed_stack().await;
                let recipient = generate_identity().recipient().to_owned();
                let before = stack.tip().await.unwrap().head.keys;
                plan.fail(operation, nth, fault);
                change.make(&stack, &recipient).await.unwrap_err();
                plan.heal();
                let was_changed = stack.tip().await.unwrap().head.keys != before;
                changed += usize::from(was_changed);

                let seen = stack.lock_status().await.unwrap();
                let session = match seen.holder {
                    Some(_) => stack.break_lock("repair", seen.epoch).await.unwrap(),
                    None => stack.lock("write").await.unwrap(),
                };
                session.close().await.unwrap();
                assert_eq!(newest(&stack).await.0, change.message(&recipient), "{what}");
                assert!(stack.verify(true).await.unwrap().report.is_valid(), "{what}");
                let open = stack.reveal(stack.current().await.unwrap()).await;
                assert_eq!(open.unwrap().entries.len(), 1, "{what}");
                deploy(&stack, &["b"]).await;
            }
        }
    }
    assert!(changed >= 10, "too few changes took effect: {changed}");
}

#[tokio::test]
async fn expectation_follows_a_key_change_by_its_own_client() {
    let backend = MemoryBackend::default();
    let anna = generate_identity();
    let of_anna = stacks(&backend, 1).with_keys(keys(1, &anna));
    let name = "shop".parse().unwrap();
    let stack = of_anna.new_stack(&name).await.unwrap();
    deploy(&stack, &["a"]).await;
    let before = stack.tip().await.unwrap().head.key_id.unwrap();

    let expected = Expectations::new(vec![before], None);
    let stack = of_anna
        .clone()
        .with_expectations(expected.clone())
        .get(&name)
        .await;
    let stack = stack.unwrap().unwrap();
    for change in [
        Change::Key,
        Change::Forget,
        Change::Recipients,
        Change::OutputRecipients,
    ] {
        let recipient = generate_identity().recipient().to_owned();
        let made = change.make(&stack, &recipient).await;
        made.unwrap_or_else(|error| panic!("{change:?}: {error}"));
        assert_eq!(
            newest(&stack).await,
            (change.message(&recipient), UpdateResult::Succeeded)
        );
    }
    let elsewhere = stacks(&backend, 2)
        .with_keys(keys(2, &anna))
        .with_expectations(expected);
    let refused = elsewhere.get(&name).await.map(|_| ()).unwrap_err();
    assert_eq!(
        refused.kind(),
        ErrorKind::Distrusted,
        "another client must still expect the replaced key"
    );
}

#[tokio::test]
async fn refused_key_change_names_the_locked_stack() {
    for change in Change::ALL {
        let (_, stack, _) = sealed_stack().await;
        let holder = stack.lock("hold").await.unwrap();
        let recipient = generate_identity().recipient().to_owned();
        let refused = change.make(&stack, &recipient).await.unwrap_err();
        assert_eq!(
            (refused.kind(), refused.object()),
            (ErrorKind::Locked, "stack shop")
        );
        holder.close().await.unwrap();
    }
}

#[tokio::test]
async fn key_change_waits_for_the_lock_within_the_timeout() {
    for change in Change::ALL {
        let (stacks, stack, _) = sealed_stack().await;
        let holder = stack.lock("hold").await.unwrap();
        let patient = stacks.with_lock_timeout(std::time::Duration::from_secs(3600));
        let patient = patient.get(stack.name()).await.unwrap().unwrap();
        let waiter =
            tokio::spawn(async move { change.make(&patient, generate_identity().recipient()).await });
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        assert!(!waiter.is_finished(), "{change:?}");
        holder.close().await.unwrap();
        waiter.await.unwrap().unwrap();
    }
}
