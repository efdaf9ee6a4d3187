//! Moves between stacks: whichever step fails, the resources end up in exactly one of the two stacks. A move has three
//! appends. First the destination records the resources as incoming, where they wait. Then the revision of the source
//! removes them, which commits the move. Last, the revision of the destination adds them.

mod raced;

use super::*;
use state_core::edits::{MovePlan, MoveRequest};
use state_core::moves::StackMove;
use state_core::testkit::fault::{Fault, FaultPlan, FaultyBackend, Operation};
use state_core::{ErrorKind, StackName};
use state_manager::{MoveReport, MoveSettlement, Removal};

/// A store with two stacks. `source` contains a, b (which depends on a) and c. `there`, the destination, contains z.
pub(crate) struct Pair {
    pub(crate) backend: MemoryBackend,
    pub(crate) plan: FaultPlan,
    pub(crate) source: Stack,
    pub(crate) there: Stack,
}

fn name(text: &str) -> StackName {
    text.parse().unwrap()
}

impl Pair {
    /// Makes the two stacks. `source` is the name of the source, and the destination is named `shop/m`. The name of the
    /// source decides which of them is locked first, because stacks are locked in the order of their names.
    pub(crate) async fn new(source: &str) -> Self {
        Self::with_policy(source, SealingPolicy::Plaintext, |stacks| stacks).await
    }

    /// As [`Self::new`], with this policy, and with stacks that `keyed` gives their keys.
    pub(crate) async fn with_policy(
        source: &str,
        policy: SealingPolicy,
        keyed: impl FnOnce(Stacks) -> Stacks,
    ) -> Self {
        let backend = MemoryBackend::default();
        let wrapped = FaultyBackend::new(Arc::new(backend.clone()));
        let plan = wrapped.plan();
        let stacks = keyed(Stacks::new(Arc::new(wrapped), environment(3)));
        let source = stacks.new_stack_with(&name(source), policy).await.unwrap();
        let there = stacks.new_stack_with(&name("shop/m"), policy).await.unwrap();
        let session = source.lock("deploy").await.unwrap();
        let update = start(&session).await;
        for (made, on) in [("a", &[][..]), ("b", &["a"]), ("c", &[])] {
            create(&update, entry(made, on)).await;
        }
        update.finish(UpdateResult::Succeeded).await.unwrap();
        session.close().await.unwrap();
        deploy(&there, &["z"]).await;
        Self {
            backend,
            plan,
            source,
            there,
        }
    }

    /// Locks both stacks; the sessions are in the order source, destination.
    async fn lock(&self) -> state_core::Result<(Session, Session)> {
        Stacks::lock_both(&self.source, &self.there, async |stack| stack.lock("mv").await).await
    }

    /// Moves resources and closes both sessions. Returns the first error.
    pub(crate) async fn make(&self, moved: &[&str]) -> state_core::Result<MoveReport> {
        let (source, there) = self.lock().await?;
        let plan = plan(&source, &there, moved);
        let request = UpdateRequest::new(UpdateKind::Edit).with_message("mv");
        let done = source.move_to(&there, request, &plan).await;
        let closed = source.close().await.and(there.close().await);
        let done = done?;
        closed?;
        Ok(done)
    }

    /// Both stacks for another client, whose calls don't fail.
    async fn elsewhere(&self) -> (Stack, Stack) {
        let stacks = stacks(&self.backend, 77);
        let find = async |stack: &Stack| stacks.get(stack.name()).await.unwrap().unwrap();
        (find(&self.source).await, find(&self.there).await)
    }
}

/// The plan of a move of these resources from `source` to `there`.
fn plan(source: &Session, there: &Session, moved: &[&str]) -> MovePlan {
    let request = MoveRequest {
        addresses: moved.iter().map(|name| address(name)).collect(),
        ..MoveRequest::default()
    };
    MovePlan::new(&source.state(), &there.state(), &request).unwrap()
}

/// Takes over the lock from its holder, and releases it.
pub(crate) async fn takeover(stack: &Stack) {
    let seen = stack.lock_status().await.unwrap().epoch;
    let session = stack.break_lock("takeover", seen).await.unwrap();
    session.close().await.unwrap();
}

/// Requires that a full verification finds no violation.
async fn assert_valid(stack: &Stack) {
    let found = stack.verify(true).await.unwrap();
    assert!(found.report.is_valid(), "{found:?}");
}

/// The resources of `source` and of `there` before the move of a and b.
pub(crate) const BEFORE: [&[&str]; 2] = [&["a", "b", "c"], &["z"]];
/// The resources of `source` and of `there` after that move.
pub(crate) const AFTER: [&[&str]; 2] = [&["c"], &["z", "a", "b"]];

#[tokio::test]
async fn move_is_one_revision_in_each_history() {
    let pair = Pair::new("shop/a").await;
    let uid = pair
        .source
        .tip()
        .await
        .unwrap()
        .state
        .entry(&key("b"))
        .unwrap()
        .uid;
    let done = pair.make(&["a", "b"]).await.unwrap();
    assert_eq!([names(&pair.source).await, names(&pair.there).await], AFTER);
    assert_eq!(pair.source.current_rev().await.unwrap(), done.source);
    assert_eq!(pair.there.current_rev().await.unwrap(), done.destination);
    let tip = pair.there.tip().await.unwrap();
    assert_eq!(tip.state.entry(&key("b")).unwrap().uid, uid);
    for (stack, other) in [(&pair.source, &pair.there), (&pair.there, &pair.source)] {
        let history = stack.history().await.unwrap();
        assert_eq!(history.len(), 2);
        let state_manager::RevisionKind::Update(info) = &history[0].kind else {
            panic!("the revision must be made by an update")
        };
        let (Some(StackMove::In(peer)) | Some(StackMove::Out(peer))) = &info.moved else {
            panic!("the update must record the move")
        };
        assert_eq!(peer.lineage, other.lineage());
        let state = stack.tip().await.unwrap().state;
        assert_eq!((state.incoming().count(), state.departed().count()), (0, 0));
        assert_eq!(state.lookup(done.id), Some(true));
        assert_valid(stack).await;
    }
}

/// Number of calls of an operation in a move without faults.
async fn calls(operation: Operation) -> usize {
    let pair = Pair::new("shop/a").await;
    let before = pair.plan.calls(operation);
    pair.make(&["a", "b"]).await.unwrap();
    pair.plan.calls(operation) - before
}

/// Fails one call of a move, then lets another client take over both stacks, the source first if `from_source` is set.
/// Returns whether the move took effect.
async fn fail(source: &str, operation: Operation, call: usize, fault: Fault, from_source: bool) -> bool {
    let case = format!("{source}: {operation:?} {call} {fault:?}, from the source: {from_source}");
    let pair = Pair::new(source).await;
    pair.plan.fail(operation, call, fault);
    let made = pair.make(&["a", "b"]).await;
    pair.plan.heal();
    pair.plan.deliver().await;
    let (source, there) = pair.elsewhere().await;
    let order = if from_source {
        [&source, &there]
    } else {
        [&there, &source]
    };
    // Each stack is taken over twice. At the first takeover the other stack may still be locked by the failed writer,
    // and then the move can't be settled. At the second takeover it can.
    for stack in [order[0], order[1], order[0], order[1]] {
        takeover(stack).await;
    }
    let found = [names(&source).await, names(&there).await];
    let moved = found == AFTER;
    assert!(moved || found == BEFORE, "{case}: {found:?}");
    if let Ok(done) = &made {
        assert!(moved, "{case}: an acknowledged move must have taken effect");
        assert_eq!(
            there.tip().await.unwrap().state.lookup(done.id),
            Some(true),
            "{case}"
        );
    }
    if let Err(error) = &made
        && error.kind() == ErrorKind::NotApplied
        && operation == Operation::Append
    {
        assert!(!moved, "{case}: a move that was not applied must have no effect");
    }
    for stack in [&source, &there] {
        let state = stack.tip().await.unwrap().state;
        assert_eq!(
            (state.incoming().count(), state.departed().count()),
            (0, 0),
            "{case}: no move may remain unsettled"
        );
        assert_valid(stack).await;
        deploy(stack, &["later"]).await;
    }
    moved
}

#[tokio::test]
async fn interrupted_move_ends_on_exactly_one_side() {
    let (mut moved, mut stayed) = (0, 0);
    for operation in Operation::ALL {
        let calls = calls(operation).await;
        for call in 0..calls {
            for fault in Fault::ALL {
                for (source, from_source) in [
                    ("shop/a", true),
                    ("shop/a", false),
                    ("shop/x", true),
                    ("shop/x", false),
                ] {
                    if fail(source, operation, call, fault, from_source).await {
                        moved += 1;
                    } else {
                        stayed += 1;
                    }
                }
            }
        }
    }
    assert!(moved > 20 && stayed > 20, "{moved} moved, {stayed} stayed");
}

/// A move that fails in the append that commits it, or in the append after that if `committed` is set. The failed
/// append takes effect only when the plan delivers it. The returned sessions still hold both locks.
async fn cut(moved: &[&str], committed: bool) -> (Pair, Session, Session) {
    cut_in(Pair::new("shop/a").await, moved, committed).await
}

/// As [`cut`], between these stacks.
pub(crate) async fn cut_in(pair: Pair, moved: &[&str], committed: bool) -> (Pair, Session, Session) {
    let (source, there) = pair.lock().await.unwrap();
    let plan = plan(&source, &there, moved);
    let at = if committed { 2 } else { 1 };
    pair.plan.fail(Operation::Append, at, Fault::Late);
    let request = UpdateRequest::new(UpdateKind::Edit);
    let failed = source.move_to(&there, request, &plan).await.unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::Indeterminate);
    (pair, source, there)
}

#[tokio::test]
async fn committed_move_arrives_while_the_source_is_locked() {
    let (pair, _source, there) = cut(&["a", "b"], true).await;
    assert_eq!(
        [names(&pair.source).await, names(&pair.there).await],
        [AFTER[0], BEFORE[1]]
    );
    drop(there);
    takeover(&pair.there).await;
    assert_eq!([names(&pair.source).await, names(&pair.there).await], AFTER);
}

#[tokio::test]
async fn move_is_withdrawn_only_when_it_cannot_be_committed() {
    let (pair, source, there) = cut(&["a", "b"], false).await;
    drop(there);
    takeover(&pair.there).await;
    let tip = pair.there.tip().await.unwrap();
    assert_eq!(
        tip.state.incoming().count(),
        1,
        "entries must keep waiting while the move's writer holds the source"
    );
    assert!(!tip.is_reliable());
    let session = pair.there.lock("look").await.unwrap();
    let id = session.state().incoming().next().unwrap().id;
    assert_eq!(
        session.settle_move(id).await.unwrap_err().kind(),
        ErrorKind::Locked
    );
    for left in [true, false] {
        let refused = session.resolve_move(id, left).await.unwrap_err();
        let reason = "a move whose source can be read must not be resolved by hand";
        assert_eq!(refused.kind(), ErrorKind::Conflict, "{reason}");
    }
    drop(source);
    let seen = pair.source.lock_status().await.unwrap().epoch;
    pair.source.force_unlock(seen).await.unwrap();
    assert_eq!(session.settle_move(id).await.unwrap(), MoveSettlement::Withdrawn);
    session.close().await.unwrap();
    pair.plan.deliver().await;
    assert_eq!([names(&pair.source).await, names(&pair.there).await], BEFORE);
}

#[tokio::test]
async fn next_lock_of_the_source_finishes_the_move() {
    let (pair, source, there) = cut(&["a", "b"], true).await;
    drop((source, there));
    let seen = pair.there.lock_status().await.unwrap().epoch;
    // Frees the lock of the destination, unless the dropped session has already released it.
    let freed = stacks(&pair.backend, 5)
        .get(pair.there.name())
        .await
        .unwrap()
        .unwrap();
    pair.plan.fail(Operation::ReadHead, 0, Fault::BeforeEffect);
    drop(freed.force_unlock(seen).await);
    pair.plan.heal();
    takeover(&pair.source).await;
    assert_eq!([names(&pair.source).await, names(&pair.there).await], AFTER);
    assert_eq!(pair.source.tip().await.unwrap().state.departed().count(), 0);
}

#[tokio::test]
async fn interrupted_move_can_be_repeated_at_once() {
    for committed in [true, false] {
        let pair = Pair::new("shop/a").await;
        // To leave an uncommitted move unsettled, both the commit and the withdrawal of the waiting resources fail. To
        // leave a committed move unsettled, only the last append fails.
        for call in if committed { 2..3 } else { 1..3 } {
            pair.plan.fail(Operation::Append, call, Fault::BeforeEffect);
        }
        pair.make(&["a", "b"]).await.unwrap_err();
        let tip = pair.there.tip().await.unwrap();
        assert_eq!(tip.state.incoming().count(), 1);
        let (source, there) = pair.lock().await.unwrap();
        let left = (
            there.state().incoming().count(),
            source.state().departed().count(),
        );
        assert_eq!(left, (0, 0));
        source.close().await.unwrap();
        there.close().await.unwrap();
        if !committed {
            pair.make(&["a", "b"]).await.unwrap();
        }
        assert_eq!([names(&pair.source).await, names(&pair.there).await], AFTER);
    }
}

#[tokio::test]
async fn outdated_move_plan_moves_nothing() {
    let pair = Pair::new("shop/a").await;
    for late in [true, false] {
        let (source, there) = pair.lock().await.unwrap();
        let plan = plan(&source, &there, &["c"]);
        let moved_on = if late { &source } else { &there };
        let update = start(moved_on).await;
        update.finish(UpdateResult::Succeeded).await.unwrap();
        let request = UpdateRequest::new(UpdateKind::Edit);
        let refused = source.move_to(&there, request, &plan).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Conflict);
        assert_eq!(there.state().incoming().count(), 0);
        source.close().await.unwrap();
        there.close().await.unwrap();
    }
    assert_eq!([names(&pair.source).await, names(&pair.there).await], BEFORE);
}

#[tokio::test]
async fn move_is_resolved_by_hand_if_its_source_is_unreadable() {
    for left in [true, false] {
        let (pair, _source, there) = cut(&["a", "b"], false).await;
        drop(there);
        let seen = pair.there.lock_status().await.unwrap().epoch;
        let session = pair.there.break_lock("resolve", seen).await.unwrap();
        let id = session.state().incoming().next().unwrap().id;
        pair.plan.fail(Operation::ReadHead, 0, Fault::BeforeEffect);
        session.resolve_move(id, left).await.unwrap();
        assert_eq!(session.state().lookup(id), Some(left));
        session.close().await.unwrap();
        let found = names(&pair.there).await;
        assert_eq!(found, if left { AFTER[1] } else { BEFORE[1] });
    }
}

#[tokio::test]
async fn source_of_an_unsettled_move_is_removed_only_by_force() {
    let (pair, source, there) = cut(&["a", "b", "c"], true).await;
    drop(source);
    takeover(&pair.source).await;
    let stacks = stacks(&pair.backend, 8);
    let refused = stacks.remove(pair.source.name(), false).await.unwrap_err();
    assert_eq!(
        refused.kind(),
        ErrorKind::Conflict,
        "an empty stack must not be removed while only it records the outcome of a move"
    );
    let removed = stacks.remove(pair.source.name(), true).await.unwrap();
    assert_eq!(removed, Removal::Removed);
    drop(there);
    takeover(&pair.there).await;
    assert_eq!(
        names(&pair.there).await,
        ["z", "a", "b", "c"],
        "the removed stack must still record the outcome of the move"
    );
}

#[tokio::test]
async fn two_stacks_are_locked_in_name_order_or_not_at_all() {
    let pair = Pair::new("shop/x").await;
    let asked = std::sync::Mutex::new(Vec::new());
    let lock = async |stack: &Stack| {
        asked.lock().unwrap().push(stack.name().to_string());
        stack.lock("mv").await
    };
    for (one, other) in [(&pair.source, &pair.there), (&pair.there, &pair.source)] {
        let (first, second) = Stacks::lock_both(one, other, lock).await.unwrap();
        assert_eq!(
            first.stack().lineage(),
            one.lineage(),
            "sessions must come in the order of the arguments"
        );
        first.close().await.unwrap();
        second.close().await.unwrap();
    }
    assert_eq!(*asked.lock().unwrap(), ["shop/m", "shop/x", "shop/m", "shop/x"]);
    let held = pair.source.lock("busy").await.unwrap();
    assert_eq!(pair.lock().await.unwrap_err().kind(), ErrorKind::Locked);
    assert!(pair.there.lock_status().await.unwrap().holder.is_none());
    held.close().await.unwrap();
    let alone = Stacks::lock_both(&pair.there, &pair.there, lock)
        .await
        .unwrap_err();
    assert_eq!(alone.kind(), ErrorKind::Conflict);
}
