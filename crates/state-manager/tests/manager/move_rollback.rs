//! Rollbacks to a revision from before a move between stacks. They are refused, and the error counts the moved
//! resources: after the rollback these would be in both stacks or in none.

use super::moves::{BEFORE, Pair};
use super::*;
use state_core::{ErrorKind, RevisionId};

/// The first revision of each stack.
async fn firsts(pair: &Pair) -> [RevisionId; 2] {
    let first = async |stack: &Stack| stack.list().await.unwrap()[0].clone();
    [first(&pair.source).await, first(&pair.there).await]
}

#[tokio::test]
async fn rollback_across_a_move_is_refused_unless_forced() {
    let pair = Pair::new("shop/a").await;
    let done = pair.make(&["a", "b"]).await.unwrap();
    let firsts = firsts(&pair).await;
    for ((stack, first), made) in [&pair.source, &pair.there]
        .into_iter()
        .zip(&firsts)
        .zip([&done.source, &done.destination])
    {
        let session = stack.lock("rollback").await.unwrap();
        let crossed = session.view().await.unwrap().crossed_moves(first).await.unwrap();
        assert_eq!(crossed.len(), 1);
        assert_eq!(
            (&crossed[0].revision, &crossed[0].entries),
            (made, &vec![key("a"), key("b")])
        );
        let request = UpdateRequest::new(UpdateKind::Rollback);
        let refused = session.rollback(request.clone(), first).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Conflict);
        assert!(refused.to_string().contains("2 resources"), "{refused}");
        let undo = session.undo(String::new()).await.unwrap_err();
        assert_eq!(undo.kind(), ErrorKind::Conflict);
        let forced = UpdateRequest {
            forced: true,
            ..request
        };
        session.rollback(forced, first).await.unwrap();
        session.close().await.unwrap();
    }
    assert_eq!([names(&pair.source).await, names(&pair.there).await], BEFORE);
}

#[tokio::test]
async fn rollback_is_allowed_after_resources_moved_back() {
    let pair = Pair::new("shop/a").await;
    pair.make(&["a", "b"]).await.unwrap();
    let back = Pair {
        backend: pair.backend.clone(),
        plan: pair.plan.clone(),
        source: pair.there.clone(),
        there: pair.source.clone(),
    };
    back.make(&["a", "b"]).await.unwrap();
    let firsts = firsts(&pair).await;
    let session = pair.source.lock("rollback").await.unwrap();
    assert_eq!(
        session
            .view()
            .await
            .unwrap()
            .crossed_moves(&firsts[0])
            .await
            .unwrap(),
        vec![]
    );
    let request = UpdateRequest::new(UpdateKind::Rollback);
    session.rollback(request, &firsts[0]).await.unwrap();
    session.close().await.unwrap();
    assert_eq!(names(&pair.source).await, BEFORE[0]);
}

/// A forced rollback brings the moved resources back to the source, although the destination has them too. A later
/// rollback to its revision is reported like the first one.
#[tokio::test]
async fn rollback_to_a_forced_rollback_reports_moved_resources() {
    let pair = Pair::new("shop/a").await;
    pair.make(&["a", "b"]).await.unwrap();
    let [first, _] = firsts(&pair).await;
    let session = pair.source.lock("rollback").await.unwrap();
    let forced = UpdateRequest {
        forced: true,
        ..UpdateRequest::new(UpdateKind::Rollback)
    };
    let doubled = session.rollback(forced, &first).await.unwrap();
    session.undo(String::new()).await.unwrap();
    let again = session
        .view()
        .await
        .unwrap()
        .crossed_moves(&doubled)
        .await
        .unwrap();
    assert_eq!(again[0].entries, [key("a"), key("b")]);
    session.close().await.unwrap();
}
