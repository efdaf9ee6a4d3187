//! What readers of a closed stack in files open and sync, and what a short session writes, after many sessions.

use super::*;
use state_backend_fs::testkit::{HostileFs, SimulatedFs};
use state_core::mutation::EditChange;
use state_core::testkit::hostile::{Attacker, Verb};
use state_encrypt::generate_identity;
use std::collections::BTreeSet;

const ROOT: &str = "/store";

/// The client of a store whose requests an attacker counts.
fn client(machine: &SimulatedFs, identity: &GeneratedIdentity, attacker: &Attacker) -> Stacks {
    let files = HostileFs::simulated(machine, ROOT, attacker.clone());
    Stacks::new(Arc::new(files.open().unwrap()), environment(2)).with_keys(keys(2, identity))
}

/// Returns how many files of the journal a reader without any memory opens, and how many syncs it makes below the stack.
async fn cost_of_a_read(machine: &SimulatedFs, identity: &GeneratedIdentity) -> (usize, usize) {
    let attacker = Attacker::default();
    let stacks = client(machine, identity, &attacker);
    let stack = stacks.get(&"shop".parse().unwrap()).await.unwrap().unwrap();
    let tip = stack.tip().await.unwrap();
    assert!(tip.state.entries().next().is_some());
    let requests = attacker.requests();
    let of_stack = |verb, part: &str| {
        let requests = requests.iter().filter(move |request| request.verb == verb);
        let objects = requests.map(|request| request.object.clone());
        let part = part.to_owned();
        objects.filter(move |object| object.starts_with("stacks/") && object.contains(&part))
    };
    let opened: BTreeSet<_> = of_stack(Verb::Read, "/journal/").collect();
    (opened.len(), of_stack(Verb::Sync, "").count())
}

/// A session of one edit: it changes the id of the resource `a`.
async fn edit(stack: &Stack, number: u64) {
    let session = stack.lock("edit").await.unwrap();
    let update = session
        .start_update(UpdateRequest::new(UpdateKind::Edit))
        .await
        .unwrap();
    let mut changed = entry("a", &[]);
    changed.id = Some(format!("i-{number:08}"));
    let change = EditChange::Put {
        target: changed.key(),
        entry: changed.into(),
    };
    update.edit(vec![change]).await.unwrap();
    update.finish(UpdateResult::Succeeded).await.unwrap();
    session.close().await.unwrap();
}

#[tokio::test]
async fn closed_stack_is_read_from_one_journal_file_unsynced() {
    let identity = generate_identity();
    let machine = SimulatedFs::new();
    let store = Arc::new(machine.create(ROOT).unwrap());
    let stacks = Stacks::new(Arc::<state_backend_fs::FsBackend>::clone(&store), environment(1))
        .with_keys(keys(1, &identity));
    let stack = stacks.new_stack(&"shop".parse().unwrap()).await.unwrap();
    deploy(&stack, &["a"]).await;
    let mut written = Vec::new();
    for session in 1..=1_000 {
        let before = store.io_counts();
        edit(&stack, session).await;
        let after = store.io_counts();
        written.push((after.bytes - before.bytes, after.fsyncs - before.fsyncs));
        if [1, 100, 1_000].contains(&session) {
            let cost = cost_of_a_read(&machine, &identity).await;
            assert_eq!(cost, (1, 0), "{session} sessions");
        }
    }
    let total = |range: std::ops::Range<usize>| written[range].iter().map(|(bytes, _)| bytes).sum::<u64>();
    // Checkpoints within each hundred are part of its sum.
    let (early, late) = (total(100..200), total(900..1_000));
    eprintln!("bytes of 100 sessions: {early} after 100 sessions, {late} after 900");
    assert!(late < early * 3 / 2, "{early} and {late} bytes");
}
