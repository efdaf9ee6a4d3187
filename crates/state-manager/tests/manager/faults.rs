//! A store whose calls fail before or after their effect, or take effect late or twice: errors report the true outcome,
//! and the state stays valid.

use super::*;
use state_core::testkit::conformance;
use state_core::testkit::fault::{Fault, FaultPlan, FaultyBackend, Operation};
use state_core::{ErrorKind, StackName};
use state_manager::MemoryKnownStacks;

/// A store, a plan of faults, and a stack that is accessed with these faults. Calls on the returned store itself don't
/// fail.
async fn faulty() -> (MemoryBackend, FaultPlan, Stack) {
    let (backend, stack) = new_stack().await;
    let wrapped = FaultyBackend::new(Arc::new(backend.clone()));
    let plan = wrapped.plan();
    let stacks = Stacks::new(Arc::new(wrapped), environment(2));
    let stack = stacks.get(stack.name()).await.unwrap().unwrap();
    (backend, plan, stack)
}

/// The same stack for another client, whose calls don't fail.
async fn elsewhere(backend: &MemoryBackend, stack: &Stack) -> Stack {
    stacks(backend, 77).get(stack.name()).await.unwrap().unwrap()
}

#[tokio::test]
async fn failed_append_reports_whether_it_was_applied() {
    for (fault, kind, there) in [
        (Fault::BeforeEffect, ErrorKind::NotApplied, false),
        (Fault::AfterEffect, ErrorKind::Indeterminate, true),
    ] {
        let (backend, plan, stack) = faulty().await;
        let session = stack.lock("deploy").await.unwrap();
        let update = start(&session).await;
        plan.fail(Operation::Append, 0, fault);
        let failed = update.begin(Intent::create(entry("a", &[]))).await.unwrap_err();
        assert_eq!(failed.kind(), kind);
        let later = update.begin(Intent::create(entry("b", &[]))).await.unwrap_err();
        assert_eq!(
            later.kind(),
            ErrorKind::Closed,
            "nothing may be acknowledged after a failed append"
        );
        session.close().await.unwrap_err();
        drop(update);
        let next = elsewhere(&backend, &stack).await.lock("next").await.unwrap();
        assert_eq!(next.recovered().len(), usize::from(there), "{fault:?}");
        next.close().await.unwrap();
    }
}

#[tokio::test]
async fn late_append_is_fenced() {
    let (backend, plan, stack) = faulty().await;
    let session = stack.lock("deploy").await.unwrap();
    let update = start(&session).await;
    plan.fail(Operation::Append, 0, Fault::Late);
    let failed = update.begin(Intent::create(entry("a", &[]))).await.unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::Indeterminate);
    let other = elsewhere(&backend, &stack).await;
    let seen = other.lock_status().await.unwrap().epoch;
    let owner = other.break_lock("takeover", seen).await.unwrap();
    assert_eq!(plan.deliver().await, 1);
    assert!(owner.recovered().is_empty());
    let update = start(&owner).await;
    create(&update, entry("b", &[])).await;
    update.finish(UpdateResult::Succeeded).await.unwrap();
    assert_eq!(
        names(&other).await,
        ["b"],
        "a late append must neither be visible nor block the next owner"
    );
    assert!(other.verify(true).await.unwrap().report.is_valid());
}

#[tokio::test]
async fn repeated_calls_have_one_effect() {
    let (backend, plan, stack) = faulty().await;
    for round in 0..3 {
        for operation in [Operation::Create, Operation::Release, Operation::SwapHead] {
            plan.fail(operation, 0, Fault::Twice);
        }
        deploy(&stack, &[&format!("e{round}")]).await;
    }
    let seen = elsewhere(&backend, &stack).await;
    assert_eq!(seen.list().await.unwrap().len(), 3);
    assert!(seen.verify(true).await.unwrap().report.is_valid());
}

#[tokio::test]
async fn own_interrupted_rename_is_not_reported_as_a_change() {
    let new: StackName = "shop/live".parse().unwrap();
    let mut finished = 0;
    for call in 0..4 {
        let (backend, _, stack) = faulty().await;
        let known_stacks = Arc::new(MemoryKnownStacks::default());
        let client = |stacks: Stacks| stacks.with_known_stacks(known_stacks.clone());
        let own = client(stacks(&backend, 5))
            .get(stack.name())
            .await
            .unwrap()
            .unwrap();
        deploy(&own, &["a"]).await;
        own.tip().await.unwrap();
        let wrapped = FaultyBackend::new(Arc::new(backend.clone()));
        wrapped.plan().fail(Operation::SwapHead, call, Fault::AfterEffect);
        let faulty = client(Stacks::new(Arc::new(wrapped), environment(3)));
        drop(faulty.rename(stack.name(), &new).await);
        let after = client(stacks(&backend, 4));
        for name in after.names().await.unwrap() {
            finished += usize::from(name == new);
            after.get(&name).await.unwrap().unwrap().tip().await.unwrap();
        }
        assert!(
            known_stacks.reported().is_empty(),
            "{:?}",
            known_stacks.reported()
        );
    }
    assert!(finished > 0, "no rename took effect");
}

/// Renames while one of the first three calls of an operation fails. Requires that the stack has exactly one of the two
/// names afterwards.
#[tokio::test]
async fn interrupted_rename_leaves_exactly_one_name() {
    let (old, new): (StackName, StackName) =
        ("shop/production".parse().unwrap(), "shop/live".parse().unwrap());
    let mut failed = 0;
    for operation in Operation::ALL {
        for fault in [Fault::BeforeEffect, Fault::AfterEffect, Fault::Late] {
            for call in 0..3 {
                let (backend, plan, stack) = faulty().await;
                deploy(&stack, &["a"]).await;
                let wrapped = FaultyBackend::new(Arc::new(backend.clone()));
                let plan_of_rename = wrapped.plan();
                plan.heal();
                plan_of_rename.fail(operation, call, fault);
                let renamed = Stacks::new(Arc::new(wrapped), environment(3))
                    .rename(&old, &new)
                    .await;
                failed += usize::from(renamed.is_err());
                plan_of_rename.deliver().await;
                let after = stacks(&backend, 4);
                // The next lock of the stack finishes or reverts the rename.
                for name in after.names().await.unwrap() {
                    let found = after.get(&name).await.unwrap().unwrap();
                    let seen = found.lock_status().await.unwrap().epoch;
                    found
                        .break_lock("next", seen)
                        .await
                        .unwrap()
                        .close()
                        .await
                        .unwrap();
                }
                let names = after.names().await.unwrap();
                assert_eq!(names.len(), 1, "{operation:?} {fault:?} {call}: {names:?}");
                assert!(names[0] == old || names[0] == new);
                if renamed.is_ok() {
                    assert_eq!(names[0], new, "{operation:?} {fault:?} {call}");
                }
                for name in [&old, &new] {
                    let bound = after.get(name).await.unwrap().is_some();
                    assert_eq!(bound, *name == names[0], "{operation:?} {fault:?} {call}");
                }
                let kept = after.get(&names[0]).await.unwrap().unwrap();
                assert_eq!(kept.list().await.unwrap().len(), 1);
            }
        }
    }
    assert!(failed > 20, "too few renames failed: {failed}");
}

/// Deploys while one of the first four calls of an operation fails. Requires that all acknowledged revisions exist
/// afterwards, the state is valid, and the next deployment succeeds.
#[tokio::test]
async fn failed_deployment_keeps_all_acknowledged_revisions() {
    let mut failed = 0;
    for operation in Operation::ALL {
        for fault in Fault::ALL {
            for call in 0..4 {
                let (backend, plan, stack) = faulty().await;
                let first = deploy(&stack, &["a"]).await;
                plan.fail(operation, call, fault);
                let acknowledged = try_deploy(&stack).await;
                failed += usize::from(acknowledged.is_none());
                plan.deliver().await;
                plan.heal();
                let other = elsewhere(&backend, &stack).await;
                let seen = other.lock_status().await.unwrap().epoch;
                let next = other.break_lock("next", seen).await.unwrap();
                let update = start(&next).await;
                create(&update, entry("c", &[])).await;
                let last = update.finish(UpdateResult::Succeeded).await.unwrap();
                next.close().await.unwrap();
                let made = other.list().await.unwrap();
                for revision in [Some(first), acknowledged, Some(last)].into_iter().flatten() {
                    assert!(made.contains(&revision), "{operation:?} {fault:?} {call}");
                    other.get(&revision).await.unwrap();
                }
                assert!(other.verify(true).await.unwrap().report.is_valid());
            }
        }
    }
    assert!(failed > 20, "too few deployments failed: {failed}");
}

/// Deploys one more resource. Returns the revision; none if anything failed before the revision was acknowledged.
async fn try_deploy(stack: &Stack) -> Option<state_core::RevisionId> {
    let session = stack.lock("deploy").await.ok()?;
    let work = async {
        let request = UpdateRequest::new(UpdateKind::Update);
        let update = session.start_update(request).await?;
        let step = update.begin(Intent::create(entry("b", &[]))).await?;
        assert!(step.succeed(Some(entry("b", &[]))).await?.is_empty());
        update.finish(UpdateResult::Succeeded).await
    };
    let revision = work.await.ok();
    // The revision was acknowledged, so it must exist even if the close of the session fails.
    drop(session.close().await);
    revision
}

#[tokio::test]
async fn state_manager_contract_holds_over_a_faultless_wrapper() {
    let make = async || {
        let wrapped = FaultyBackend::new(Arc::new(MemoryBackend::new()));
        Arc::new(wrapped) as Arc<dyn state_core::Backend>
    };
    let results = state_manager::testkit::run_all(make, &environment(1)).await;
    conformance::expect_all(&results);
}

#[tokio::test]
async fn failed_persist_can_be_repeated_without_a_second_revision() {
    use state_core::persistent::{Persister, Refresher, Transient};
    use state_manager::StateManager;
    let mut failed = 0;
    for fault in [Fault::BeforeEffect, Fault::AfterEffect] {
        for operation in [
            Operation::Acquire,
            Operation::Append,
            Operation::Create,
            Operation::SwapHead,
            Operation::Release,
        ] {
            for call in 0..3 {
                let (backend, plan, stack) = faulty().await;
                deploy(&stack, &["a"]).await;
                let manager = StateManager::new(stack.clone());
                manager.refresh().await.unwrap();
                let mut snapshot = manager.read().unwrap();
                snapshot.entries.push(Arc::new(entry("b", &[])));
                manager.write(snapshot);
                plan.fail(operation, call, fault);
                failed += usize::from(manager.persist().await.is_err());
                plan.heal();
                let other = elsewhere(&backend, &stack).await;
                let seen = other.lock_status().await.unwrap().epoch;
                other.force_unlock(seen).await.unwrap();
                manager.persist().await.unwrap();
                assert_eq!(names(&other).await, ["a", "b"]);
                assert_eq!(
                    other.list().await.unwrap().len(),
                    2,
                    "{operation:?} {fault:?} {call}"
                );
            }
        }
    }
    assert!(failed > 5, "too few persists failed: {failed}");
}
