//! Changes by hand of the resources of pending operations.

use super::*;
use state_core::{ErrorKind, Json, PendingOperation, Properties, Snapshot, Timestamp};
use state_manager::Session;

const SECRET: &str = "hunter22-hunter22";

fn with_pin(name: &str) -> Entry {
    Entry {
        inputs: Properties::new(Json::parse(&format!(r#"{{"pin":"{SECRET}"}}"#)).unwrap()),
        ..entry(name, &[])
    }
}

/// A session with the resource `a`, a pending create of `b`, and a pending create of `c` whose result was refused.
async fn with_pending(stack: &Stack) -> Session {
    let session = stack.lock("deploy").await.unwrap();
    let update = start(&session).await;
    create(&update, with_pin("a")).await;
    drop(update.begin(Intent::create(with_pin("b"))).await.unwrap());
    let refused = update.begin(Intent::create(with_pin("c"))).await.unwrap();
    let invalid = Entry {
        depends_on: vec![Dependency::Entry(address("nowhere"))],
        ..with_pin("c")
    };
    assert!(!refused.succeed(Some(invalid)).await.unwrap().is_empty());
    update.finish(UpdateResult::Failed).await.unwrap();
    session
}

/// The state of a session, with the input `pin` of all resources marked.
fn marked(session: &Session) -> Snapshot {
    let mut snapshot = session.state().snapshot("s", Timestamp::new("t"));
    let positions: Vec<_> = snapshot.all_entries().map(|(position, _)| position).collect();
    assert_eq!(positions.len(), 4);
    for position in positions {
        let entry = snapshot.entry_mut(position).unwrap();
        Arc::make_mut(entry).sensitive_inputs.push("/pin".to_owned());
    }
    snapshot
}

#[tokio::test]
async fn replaced_resources_of_operations_stay_pending() {
    let identity = state_encrypt::generate_identity();
    let stack = stacks(&MemoryBackend::default(), 1)
        .with_keys(keys(1, &identity))
        .new_stack(&"shop/production".parse().unwrap())
        .await
        .unwrap();
    let session = with_pending(&stack).await;
    let before: Vec<PendingOperation> = session.state().pending().cloned().collect();
    let request = || UpdateRequest::new(UpdateKind::Edit);
    let expected = session.state();
    session
        .replace_with_pending(request(), &expected, marked(&session))
        .await
        .unwrap();
    let state = session.state();
    let ids = |operations: &[PendingOperation]| operations.iter().map(|one| one.id).collect::<Vec<_>>();
    let after: Vec<PendingOperation> = state.pending().cloned().collect();
    assert_eq!(ids(&after), ids(&before));
    assert_eq!(state.lookup(before[0].id), None);
    assert_eq!(state.lookup(before[1].id), Some(true));
    let stored = state.snapshot("s", Timestamp::new("t"));
    for (_, entry) in stored.all_entries() {
        assert!(!format!("{:?}", entry.inputs).contains(SECRET));
        assert!(entry.inputs.as_ref().unwrap().json().as_str().contains("$sealed"));
    }
    let opened = stack.reveal(stored).await.unwrap();
    for (_, entry) in opened.all_entries() {
        assert!(entry.inputs.as_ref().unwrap().json().as_str().contains(SECRET));
    }
    let stale = session
        .replace_with_pending(request(), &expected, marked(&session))
        .await;
    assert_eq!(stale.unwrap_err().kind(), ErrorKind::Conflict);
    let mut fewer = marked(&session);
    fewer.pending_operations.pop();
    let refused = session.replace_with_pending(request(), &state, fewer).await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Conflict);
    session.close().await.unwrap();
    let reopened = stack.lock("next").await.unwrap();
    assert_eq!(ids(reopened.recovered()), ids(&before));
    reopened.close().await.unwrap();
}
