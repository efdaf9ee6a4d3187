//! What an update writes for resources that it finds as they are recorded.

use super::checkpoints::heavy;
use super::*;
use state_backend_fs::FsBackend;
use state_backend_fs::testkit::SimulatedFs;
use state_encrypt::generate_identity;

const RESOURCES: usize = 1_000;

/// Bytes of the outputs of a resource.
const OUTPUTS: usize = 3_000;

/// The bytes of the outputs of all resources: a little less than the bytes of the state.
const STATE: u64 = (RESOURCES * OUTPUTS) as u64;

/// The bytes that an update writes which finds all resources unchanged, except the first `changed` ones.
async fn cost_of_an_update(stack: &Stack, store: &FsBackend, changed: usize) -> u64 {
    let session = stack.lock("deploy").await.unwrap();
    let before = store.io_counts().bytes;
    let update = start(&session).await;
    for number in 0..RESOURCES {
        let present = heavy(&format!("module.app/resource-{number:04}"), OUTPUTS);
        if number < changed {
            let new = Entry {
                id: Some(format!("i-{number:08}")),
                ..present
            };
            let step = update.begin(Intent::update(new.clone())).await.unwrap();
            step.succeed(Some(new)).await.unwrap();
        } else {
            update.same(present).await.unwrap();
        }
    }
    update.finish(UpdateResult::Succeeded).await.unwrap();
    session.close().await.unwrap();
    store.io_counts().bytes - before
}

#[tokio::test]
async fn unchanged_resources_cost_a_reference() {
    let identity = generate_identity();
    let machine = SimulatedFs::new();
    let store = Arc::new(machine.create("/store").unwrap());
    let stacks = Stacks::new(Arc::<FsBackend>::clone(&store), environment(1)).with_keys(keys(1, &identity));
    for (name, policy) in [
        ("plain", SealingPolicy::Plaintext),
        ("sealed", SealingPolicy::All),
    ] {
        let stack = stacks
            .new_stack_with(&name.parse().unwrap(), policy)
            .await
            .unwrap();
        let session = stack.lock("deploy").await.unwrap();
        let update = start(&session).await;
        for number in 0..RESOURCES {
            create(
                &update,
                heavy(&format!("module.app/resource-{number:04}"), OUTPUTS),
            )
            .await;
        }
        update.finish(UpdateResult::Succeeded).await.unwrap();
        session.close().await.unwrap();
        // A checkpoint is due after the creation, which the next session writes.
        cost_of_an_update(&stack, &store, 0).await;
        for (changed, most) in [(0, 15), (RESOURCES / 100, 10)] {
            let written = cost_of_an_update(&stack, &store, changed).await;
            eprintln!(
                "{name}, {changed} changed: {written} bytes written, a {}th of the state",
                STATE / written
            );
            assert!(
                written * most <= STATE,
                "{name}, {changed} changed: {written} bytes for {STATE}"
            );
        }
    }
}
