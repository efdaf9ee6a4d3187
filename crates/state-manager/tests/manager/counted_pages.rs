//! Requests for history pages: their number depends on the number of pages, of which at most two aren't full.

use super::*;
use state_core::testkit::fault::{FaultyBackend, Operation};
use state_encrypt::generate_identity;
use state_manager::Rekey;

#[tokio::test]
async fn requests_grow_with_pages_and_not_with_revisions() {
    const ROTATIONS: usize = 40;
    let faulty = FaultyBackend::new(Arc::new(MemoryBackend::default()));
    let plan = faulty.plan();
    let stacks = Stacks::new(Arc::new(faulty), environment(1)).with_keys(keys(1, &generate_identity()));
    let stack = stacks.new_stack(&"shop".parse().unwrap()).await.unwrap();
    let mut most = (0, 0);
    for rotation in 0..ROTATIONS {
        deploy(&stack, &[&format!("r{rotation}")]).await;
        let before = (plan.calls(Operation::Create), plan.calls(Operation::Read));
        // Each rotation moves the revisions before it to a page, and merges the page with smaller ones before it.
        stack.rekey("rekey", Rekey::default()).await.unwrap();
        most.0 = most.0.max(plan.calls(Operation::Create) - before.0);
        most.1 = most.1.max(plan.calls(Operation::Read) - before.1);
    }
    let pages = stack.tip().await.unwrap().head.history.pages.len();
    let counts = || (plan.calls(Operation::Read), plan.calls(Operation::List));
    let since = |before: (usize, usize)| (counts().0 - before.0, counts().1 - before.1);
    let before = counts();
    stack.tip().await.unwrap();
    let tip = since(before);
    let before = counts();
    assert_eq!(stack.history().await.unwrap().len(), 2 * ROTATIONS);
    let history = since(before);
    eprintln!(
        "{} revisions on {pages} pages: at most {} creates and {} reads for a rotation; {} reads for a tip, {} for the \
         history",
        2 * ROTATIONS,
        most.0,
        most.1,
        tip.0,
        history.0
    );
    assert_eq!(pages, 2, "one with most revisions, and one with the latest");
    assert_eq!(most.0, 3, "a key file, a snapshot and one page");
    assert!(most.1 <= 2 + 4, "{} reads for a rotation", most.1);
    assert_eq!(tip, (1, 0), "a tip reads the base's snapshot and no page");
    assert_eq!(history, (1 + pages, 0), "the history reads each page once");
}
