//! Queries of a history of 10,000 revisions: their requests don't grow with the number of revisions.

use super::*;
use state_core::mutation::EditChange;
use state_core::testkit::fault::{FaultPlan, FaultyBackend, Operation};
use state_core::{Json, Properties, RevisionId};
use state_encrypt::generate_identity;
use state_manager::{Lookup, RevisionKind};
use std::time::Duration;

const REVISIONS: u64 = 10_000;
/// Number of resources; revision n changes number n modulo this one, except the first resource.
const RESOURCES: u64 = 50;
/// Maximum number of requests of a query, opening the stack included.
const MOST_REQUESTS: usize = 22;

fn resource(number: u64, size: u64) -> Entry {
    let mut entry = entry(&format!("module.network.aws_instance.server_{number:02}"), &[]);
    entry.id = Some(format!("i-{number:017x}"));
    entry.inputs = Properties::new(Json::parse(&format!(r#"{{"name":"server","size":{size}}}"#)).unwrap());
    entry
}

/// Makes the revisions: the first one creates all resources, each later one changes the size of one, a second later.
async fn make_history(stack: &Stack, clock: &ManualClock) {
    let session = stack.lock("deploy").await.unwrap();
    let all = (0..RESOURCES).map(|number| EditChange::Append(resource(number, 0).into()));
    let mut changes: Vec<_> = all.collect();
    for revision in 1..=REVISIONS {
        clock.advance(Duration::from_secs(1));
        let update = session
            .start_update(UpdateRequest::new(UpdateKind::Edit))
            .await
            .unwrap();
        update.edit(std::mem::take(&mut changes)).await.unwrap();
        update.finish(UpdateResult::Succeeded).await.unwrap();
        let number = 1 + revision % (RESOURCES - 1);
        changes.push(EditChange::Put {
            target: resource(number, 0).key(),
            entry: resource(number, revision).into(),
        });
    }
    session.close().await.unwrap();
}

fn requests(plan: &FaultPlan) -> usize {
    let reads = Operation::ALL.into_iter().filter(|operation| !operation.writes());
    reads.map(|operation| plan.calls(operation)).sum()
}

async fn revision(stack: &Stack, serial: u64) -> RevisionId {
    let spec = serial.to_string().parse().unwrap();
    stack.resolve(&spec).await.unwrap().unwrap()
}

#[tokio::test]
#[expect(
    clippy::too_many_lines,
    reason = "one list of queries, on a history that takes long to make"
)]
async fn queries_of_10000_revisions_need_at_most_22_requests() {
    let faulty = FaultyBackend::new(Arc::new(MemoryBackend::default()));
    let plan = faulty.plan();
    let clock = Arc::new(ManualClock::default());
    let environment = Environment {
        clock: clock.clone(),
        ..environment(1)
    };
    let stacks = Stacks::new(Arc::new(faulty), environment).with_keys(keys(1, &generate_identity()));
    let stack = stacks.new_stack(&"shop".parse().unwrap()).await.unwrap();
    make_history(&stack, &clock).await;
    let (first, middle) = (revision(&stack, 1).await, revision(&stack, REVISIONS / 2).await);
    let last_but = revision(&stack, REVISIONS - RESOURCES + 2).await;

    let measure = async |name: &str, query: std::pin::Pin<Box<dyn Future<Output = ()> + '_>>| {
        let (before, began) = (requests(&plan), cpu());
        query.await;
        let (requests, cpu) = (requests(&plan) - before, cpu() - began);
        eprintln!("{name}: {requests} requests, {:.1} ms of CPU", cpu * 1e3);
        assert!(requests <= MOST_REQUESTS, "{name}: {requests} requests");
    };
    let name = "shop".parse().unwrap();
    let view = async || match stacks.view(Some(&name)).await.unwrap() {
        Lookup::Found(view) => view,
        _ => panic!("the stack is missing"),
    };
    measure(
        "revision with a serial",
        Box::pin(async {
            let found = view().await.resolve(&"3".parse().unwrap()).await.unwrap();
            assert_eq!(found.unwrap().serial().get(), 3);
        }),
    )
    .await;
    measure(
        "page of the history",
        Box::pin(async {
            let page = view().await.history_page(Some(&middle), 20).await.unwrap();
            assert_eq!(page[0].id.serial().get(), REVISIONS / 2 - 1);
        }),
    )
    .await;
    measure(
        "blame of a changed resource",
        Box::pin(async {
            let blame = view().await.blame(&resource(1, 0).address, None).await.unwrap();
            let blamed = |pointer: &str| {
                let line = blame.lines.iter().find(|line| line.property.pointer == pointer);
                line.unwrap().revision.as_ref().unwrap().id.clone()
            };
            assert_eq!(blamed("/inputs/name"), first);
            let last = (1..=REVISIONS)
                .rev()
                .find(|serial| (serial - 1) % (RESOURCES - 1) == 0);
            assert_eq!(blamed("/inputs/size").serial().get(), last.unwrap());
        }),
    )
    .await;
    measure(
        "blame of a resource that never changed",
        Box::pin(async {
            let blame = view().await.blame(&resource(0, 0).address, None).await.unwrap();
            let is_first =
                |line: &state_manager::BlameLine| line.revision.as_ref().is_some_and(|one| one.id == first);
            assert!(blame.lines.iter().all(is_first));
        }),
    )
    .await;
    measure(
        "history of a resource",
        Box::pin(async {
            let history = view()
                .await
                .resource_history(&resource(7, 0).address, usize::MAX)
                .await
                .unwrap();
            let serials: Vec<u64> = history
                .iter()
                .map(|revision| revision.id.serial().get())
                .collect();
            let changed = |serial: &u64| *serial == 1 || (serial - 1) % (RESOURCES - 1) == 6;
            let expected: Vec<u64> = (1..=REVISIONS).rev().filter(changed).collect();
            assert_eq!(serials, expected);
        }),
    )
    .await;
    for (name, since) in [
        ("diff since revision 1", &first),
        ("diff since a recent revision", &last_but),
    ] {
        let next = revision(&stack, since.serial().get() + 1).await;
        let RevisionKind::Update(next) = view().await.revision(&next).await.unwrap().kind else {
            panic!("the revision is detached");
        };
        let time = &next.end.unwrap();
        measure(
            name,
            Box::pin(async {
                let view = view().await;
                let found = view.revisions().next_before(time).await.unwrap();
                assert_eq!(found.as_ref(), Some(since), "before {time}");
                let diff = state_core::diff::diff(&view.get(since).await.unwrap(), &view.snapshot());
                assert_eq!(
                    diff.changed.len() as u64,
                    RESOURCES - 1 - u64::from(*since == last_but)
                );
            }),
        )
        .await;
    }
}

/// The CPU time of all threads of this process in seconds; 0 where the system doesn't report it. Exact only if this test
/// runs alone.
fn cpu() -> f64 {
    let tasks = std::fs::read_dir("/proc/self/task")
        .into_iter()
        .flatten()
        .flatten();
    let nanoseconds = tasks.filter_map(|task| {
        let stat = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        stat.split(' ').next()?.parse::<f64>().ok()
    });
    nanoseconds.sum::<f64>() / 1e9
}
