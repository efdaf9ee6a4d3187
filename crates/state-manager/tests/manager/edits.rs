//! Changes by hand, imports and small updates: each makes one revision, and each can be undone.

use super::*;
use proptest::collection::vec;
use proptest::prelude::*;
use state_core::edits::{Operation, StateEditor};
use state_core::mutation::{EditChange, StackOutputs};
use state_core::testkit::run::property_config;
use state_core::testkit::strategy::entries_in_order;
use state_core::{
    Address, ErrorKind, FactoryInfo, Json, RevisionId, SharedEntry, Snapshot, State, Timestamp,
};
use state_manager::Session;
use std::collections::BTreeMap;

/// A random action on a stack.
#[derive(Clone, Debug)]
enum Change {
    Import(Vec<SharedEntry>),
    Replace(Vec<SharedEntry>),
    Outputs(u8),
    Deploy(u8),
    Remove(prop::sample::Index),
    Move(prop::sample::Index, u8),
    ProtectAll,
    /// Stores a detached revision, which never becomes current and so isn't undone.
    Write(Vec<SharedEntry>),
    Undo,
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let change = prop_oneof![
        entries_in_order(6).prop_map(Change::Import),
        entries_in_order(6).prop_map(Change::Replace),
        any::<u8>().prop_map(Change::Outputs),
        (0..4_u8).prop_map(Change::Deploy),
        any::<prop::sample::Index>().prop_map(Change::Remove),
        any::<(prop::sample::Index, u8)>().prop_map(|(at, to)| Change::Move(at, to)),
        Just(Change::ProtectAll),
        entries_in_order(3).prop_map(Change::Write),
        Just(Change::Undo),
    ];
    vec(change, 1..6)
}

/// A snapshot with these entries and one output.
fn of(entries: Vec<SharedEntry>) -> Snapshot {
    let mut snapshot = Snapshot::new(FactoryInfo::default(), "s", Timestamp::new(""));
    snapshot.entries = entries;
    snapshot.outputs.insert("imported".to_owned(), Json::null());
    snapshot
}

/// Performs an edit as one revision, unless the editor refuses it.
async fn operate(session: &Session, operation: Operation) {
    let state = session.state();
    let mut edits = StateEditor::on(&state);
    if edits.perform(&operation).is_ok() {
        let request = UpdateRequest::new(UpdateKind::Edit);
        session.edit(request, &state, edits.into_changes()).await.unwrap();
    }
}

impl Change {
    /// Makes the change. An index in the change selects one of the present resources.
    async fn make(self, session: &Session) {
        let state = session.state();
        let all: Vec<Address> = state.entries().map(|entry| entry.address.clone()).collect();
        let request = UpdateRequest::new(UpdateKind::Edit);
        match self {
            Self::Import(entries) => {
                session.import(request, of(entries), None).await.unwrap();
            }
            Self::Replace(entries) => {
                session.replace_entries(request, of(entries)).await.unwrap();
            }
            Self::Outputs(value) => {
                let update = session.start_update(request).await.unwrap();
                let values = BTreeMap::from([("out".to_owned(), Json::from_string(&value.to_string()))]);
                let sensitive = vec!["out".to_owned()];
                update
                    .set_outputs(StackOutputs { values, sensitive })
                    .await
                    .unwrap();
                update.finish(UpdateResult::Succeeded).await.unwrap();
            }
            Self::Deploy(name) => {
                let update = session.start_update(request).await.unwrap();
                let new = entry(&format!("deployed.{name}"), &[]);
                if state.entry(&new.key()).is_none() {
                    let step = update.begin(Intent::create(new.clone())).await.unwrap();
                    step.succeed(Some(new)).await.unwrap();
                }
                update.finish(UpdateResult::Succeeded).await.unwrap();
            }
            Self::Remove(at) if !all.is_empty() => {
                let operation = Operation::Rm {
                    addresses: vec![at.get(&all).clone()],
                    deposed: None,
                    cascade: false,
                    force: true,
                };
                operate(session, operation).await;
            }
            Self::Move(at, to) if !all.is_empty() => {
                let to = format!("moved.{to}").parse().unwrap();
                let from = at.get(&all).clone();
                operate(session, Operation::Mv { from, to }).await;
            }
            Self::Write(entries) => {
                session.write(of(entries)).await.unwrap();
            }
            Self::Undo => {
                let _first = session.undo(String::new()).await;
            }
            _ => {
                let addresses = Vec::new();
                operate(session, Operation::Protect { addresses, all: true }).await;
            }
        }
    }
}

/// The entries and outputs of a state, without the marks of secrets. These are compared apart, because undo keeps marks
/// that were added by the undone change: a value that was sealed must not return to plain text.
fn content(state: &State) -> (Vec<SharedEntry>, StackOutputs) {
    let unmarked = |entry: &SharedEntry| {
        let mut entry = Entry::clone(entry);
        entry.sensitive_inputs.clear();
        entry.sensitive_outputs.clear();
        entry.extensions.remove("statectl");
        entry.into()
    };
    let mut outputs = state.outputs().clone();
    outputs.sensitive.clear();
    (state.entries().map(unmarked).collect(), outputs)
}

/// Whether each value that is marked as secret in `before` is marked in `after`.
fn keeps_marks(before: &State, after: &State) -> bool {
    let is_within = |few: &[String], many: &[String]| few.iter().all(|mark| many.contains(mark));
    before.entries().all(|entry| {
        after.entry(&entry.key()).is_some_and(|now| {
            is_within(&entry.sensitive_inputs, &now.sensitive_inputs)
                && is_within(&entry.sensitive_outputs, &now.sensitive_outputs)
        })
    }) && is_within(&before.outputs().sensitive, &after.outputs().sensitive)
}

/// Undoes the current revision, and redoes it. Requires that the undo restores the content of `before`, and that the
/// redo restores the content before the undo. Does nothing if `seen`, the revision before the change, is still current
/// or is `None`.
async fn undo_and_redo(
    session: &Session,
    before: &State,
    seen: Option<&RevisionId>,
) -> Result<(), TestCaseError> {
    let after = session.state();
    if after.current() == seen || seen.is_none() {
        return Ok(());
    }
    session.undo("undo".to_owned()).await.unwrap();
    prop_assert_eq!(content(&session.state()), content(before));
    prop_assert!(keeps_marks(before, &session.state()));
    session.undo("redo".to_owned()).await.unwrap();
    prop_assert_eq!(content(&session.state()), content(&after));
    prop_assert!(keeps_marks(&after, &session.state()));
    Ok(())
}

proptest! {
    #![proptest_config(property_config())]

    #[test]
    fn undo_reverts_any_change_and_undo_of_undo_redoes(changes in changes()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (_, stack) = new_stack().await;
            deploy(&stack, &["a", "b"]).await;
            let session = stack.lock("test").await.unwrap();
            for change in changes {
                let before = session.state();
                let seen = before.current().cloned();
                change.make(&session).await;
                undo_and_redo(&session, &before, seen.as_ref()).await?;
            }
            session.close().await.unwrap();
            prop_assert!(stack.verify(true).await.unwrap().report.is_valid());
            Ok(())
        })?;
    }
}

#[tokio::test]
async fn first_revision_cannot_be_undone() {
    let (_, stack) = new_stack().await;
    let session = stack.lock("undo").await.unwrap();
    let nothing = session.undo(String::new()).await.unwrap_err();
    assert_eq!(nothing.kind(), ErrorKind::NoCurrent);
    session.close().await.unwrap();
    deploy(&stack, &["a"]).await;
    let session = stack.lock("undo").await.unwrap();
    let first = session.undo(String::new()).await.unwrap_err();
    assert_eq!(first.kind(), ErrorKind::Conflict);
    session.close().await.unwrap();
}

#[tokio::test]
async fn edit_is_one_revision_or_changes_nothing() {
    let (_, stack) = new_stack().await;
    deploy(&stack, &["a", "b"]).await;
    let session = stack.lock("edit").await.unwrap();
    let seen = session.state();
    let request = || UpdateRequest::new(UpdateKind::Edit);
    let remove = |name: &str| EditChange::Remove(entry(name, &[]).key());
    let absent = vec![remove("a"), remove("c")];
    let refused = session.edit(request(), &seen, absent).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Integrity);
    assert_eq!(session.state().len(), 2);
    session
        .edit(request(), &seen, vec![remove("a"), remove("b")])
        .await
        .unwrap();
    assert!(session.state().is_empty());
    let moved = session
        .edit(request(), &seen, vec![remove("a")])
        .await
        .unwrap_err();
    assert_eq!(moved.kind(), ErrorKind::Conflict);
    session.close().await.unwrap();
    assert_eq!(stack.list().await.unwrap().len(), 2);
}
