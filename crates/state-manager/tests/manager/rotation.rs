//! Key rotation, which replaces the data key of a stack: the stack still opens after a crash at any point, and earlier
//! revisions don't change.

use super::*;
use state_core::head::SealingPolicy;
use state_core::testkit::fault::{Fault, FaultyBackend, Operation};
use state_core::{ErrorKind, Json, Properties};
use state_encrypt::{GeneratedIdentity, Passphrase, Recipients, generate_identity};
use state_manager::{Authenticity, Rekey, RevisionKind};

/// The value of every sensitive input in these tests.
const SECRET: &str = "correct-horse-battery";

/// A resource with the secret as a sensitive input.
fn secret_entry(name: &str) -> Entry {
    let inputs = Json::parse(&format!(r#"{{"password":"{SECRET}"}}"#)).unwrap();
    Entry {
        inputs: Properties::new(inputs),
        sensitive_inputs: vec!["password".to_owned()],
        ..entry(name, &[])
    }
}

/// Makes one revision that creates a resource with the secret.
pub(crate) async fn deploy_secret(stack: &Stack, name: &str) -> state_core::RevisionId {
    let session = stack.lock("deploy").await.unwrap();
    let update = start(&session).await;
    let made = secret_entry(name);
    let step = update.begin(Intent::create(made.clone())).await.unwrap();
    step.succeed(Some(made)).await.unwrap();
    let revision = update.finish(UpdateResult::Succeeded).await.unwrap();
    session.close().await.unwrap();
    revision
}

/// The stack `shop` as the client with this identity opens it.
async fn as_seen_by(backend: &MemoryBackend, identity: &GeneratedIdentity) -> Stack {
    let stacks = stacks(backend, 20).with_keys(keys(20, identity));
    stacks.get(&"shop".parse().unwrap()).await.unwrap().unwrap()
}

/// The number of resources in a revision whose inputs contain the decrypted secret.
async fn passwords(stack: &Stack, revision: &state_core::RevisionId) -> state_core::Result<usize> {
    let open = stack.reveal(stack.get(revision).await?).await?;
    let texts = open.entries.iter().filter_map(|entry| entry.inputs.as_ref());
    Ok(texts
        .filter(|inputs| inputs.json().as_str().contains(SECRET))
        .count())
}

#[tokio::test]
async fn added_recipient_reads_all_and_removed_one_nothing_new() {
    let backend = MemoryBackend::default();
    let (anna, bob) = (generate_identity(), generate_identity());
    let of_anna = stacks(&backend, 1).with_keys(keys(1, &anna));
    let stack = of_anna.new_stack(&"shop".parse().unwrap()).await.unwrap();
    let first = deploy_secret(&stack, "a").await;
    assert!(
        passwords(&as_seen_by(&backend, &bob).await, &first)
            .await
            .is_err()
    );

    let added = stack
        .add_recipients("recipients add", &[bob.recipient().to_owned()])
        .await
        .unwrap();
    assert_eq!(added.of_stack, [anna.recipient(), bob.recipient()]);
    let addition = stack.current_rev().await.unwrap();
    assert_eq!(
        passwords(&as_seen_by(&backend, &bob).await, &first)
            .await
            .unwrap(),
        1
    );
    let second = deploy_secret(&as_seen_by(&backend, &bob).await, "b").await;

    let rekey = Rekey {
        recipients: Some(vec![anna.recipient().to_owned()]),
        ..Rekey::default()
    };
    let rekeyed = stack.rekey("recipients remove", rekey).await.unwrap();
    assert_eq!(rekeyed.older, [first.clone(), addition, second.clone()]);
    let (anna, bob) = (
        as_seen_by(&backend, &anna).await,
        as_seen_by(&backend, &bob).await,
    );
    assert_eq!(anna.tip().await.unwrap().authenticity, Authenticity::Checked);
    assert_eq!(passwords(&anna, &rekeyed.revision).await.unwrap(), 2);
    assert_eq!(passwords(&anna, &first).await.unwrap(), 1);
    let refused = passwords(&bob, &rekeyed.revision).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Sealed);
    assert_eq!(
        passwords(&bob, &second).await.unwrap(),
        2,
        "earlier revisions must stay sealed with the old key"
    );
    assert_eq!(bob.lock("write").await.unwrap_err().kind(), ErrorKind::Sealed);
    for stack in [&anna, &bob] {
        assert!(stack.verify(true).await.unwrap().report.is_valid());
    }

    // A rollback to a revision from before the rotation seals the content again, with the present key.
    let session = anna.lock("rollback").await.unwrap();
    let request = UpdateRequest::new(UpdateKind::Rollback);
    let back = session.rollback(request, &first).await.unwrap();
    session.close().await.unwrap();
    assert_eq!(passwords(&anna, &back).await.unwrap(), 1);
    assert!(passwords(&bob, &back).await.is_err());
}

#[tokio::test]
async fn names_of_recipients_last_until_the_removal() {
    let backend = MemoryBackend::default();
    let (anna, bob) = (generate_identity(), generate_identity());
    let stacks = stacks(&backend, 1).with_keys(keys(1, &anna));
    let stack = stacks.new_stack(&"shop".parse().unwrap()).await.unwrap();
    deploy_secret(&stack, "a").await;
    for (identity, name) in [(&bob, "bob"), (&anna, "anna")] {
        let add = stack.add_named_recipient("recipients add", identity.recipient(), name);
        assert_eq!(add.await.unwrap().of_stack, [anna.recipient(), bob.recipient()]);
    }
    stack.rekey("rekey", Rekey::default()).await.unwrap();
    let names = stack.recipients().await.unwrap().names;
    assert_eq!(
        (&*names[anna.recipient()], &*names[bob.recipient()]),
        ("anna", "bob")
    );
    let history = stack.history().await.unwrap();
    let messages: Vec<_> = history
        .iter()
        .filter_map(|revision| match &revision.kind {
            RevisionKind::Update(update) => Some(update.message.as_str()),
            RevisionKind::Detached => None,
        })
        .collect();
    let expected = format!("added bob ({})", bob.recipient());
    assert!(messages.contains(&expected.as_str()), "{messages:?}");
    let rekey = Rekey {
        recipients: Some(vec![anna.recipient().to_owned()]),
        ..Rekey::default()
    };
    stack.rekey("recipients remove", rekey).await.unwrap();
    assert_eq!(stack.recipients().await.unwrap().names.len(), 1);
}

#[tokio::test]
async fn sealing_a_plain_stack_lists_the_plain_revisions() {
    let backend = MemoryBackend::default();
    let anna = generate_identity();
    let stacks = stacks(&backend, 1).with_keys(keys(1, &anna));
    let name = "shop".parse().unwrap();
    let stack = stacks
        .new_stack_with(&name, SealingPolicy::Plaintext)
        .await
        .unwrap();
    let plain = deploy_secret(&stack, "a").await;
    let rekey = Rekey {
        policy: Some(SealingPolicy::Sensitive),
        ..Rekey::default()
    };
    let sealed = stack.rekey("encrypt", rekey).await.unwrap();
    assert_eq!(sealed.older, std::slice::from_ref(&plain));
    assert_eq!(sealed.recipients.of_stack, [anna.recipient()]);
    let text = |snapshot: &state_core::Snapshot| {
        String::from_utf8(state_core::codec::encode_stored(snapshot)).unwrap()
    };
    assert!(!text(&stack.current().await.unwrap()).contains(SECRET));
    assert!(text(&stack.get(&plain).await.unwrap()).contains(SECRET));
    assert_eq!(passwords(&stack, &sealed.revision).await.unwrap(), 1);
    let back = {
        let session = stack.lock("rollback").await.unwrap();
        let request = UpdateRequest::new(UpdateKind::Rollback);
        let back = session.rollback(request, &plain).await.unwrap();
        session.close().await.unwrap();
        back
    };
    assert!(!text(&stack.get(&back).await.unwrap()).contains(SECRET));
    assert!(stack.verify(true).await.unwrap().report.is_valid());
}

#[tokio::test]
async fn interrupted_rotation_leaves_a_stack_that_opens() {
    let operations = [
        Operation::Acquire,
        Operation::ReadHead,
        Operation::List,
        Operation::Create,
        Operation::Rotate,
        Operation::SwapHead,
        Operation::Append,
        Operation::Release,
    ];
    let mut failures = 0;
    for operation in operations {
        for (nth, fault) in (0..4).flat_map(|nth| [(nth, Fault::BeforeEffect), (nth, Fault::AfterEffect)]) {
            let backend = MemoryBackend::default();
            let anna = generate_identity();
            let honest = stacks(&backend, 1).with_keys(keys(1, &anna));
            let stack = honest.new_stack(&"shop".parse().unwrap()).await.unwrap();
            let first = deploy_secret(&stack, "a").await;

            let faulty = FaultyBackend::new(Arc::new(backend.clone()));
            let plan = faulty.plan();
            let cut = Stacks::new(Arc::new(faulty), environment(3)).with_keys(keys(3, &anna));
            let cut = cut.get(&"shop".parse().unwrap()).await.unwrap().unwrap();
            plan.fail(operation, nth, fault);
            failures += usize::from(cut.rekey("rekey", Rekey::default()).await.is_err());
            drop(cut);

            let what = format!("{operation:?} {nth} {fault:?}");
            let stack = as_seen_by(&backend, &anna).await;
            let seen = stack.lock_status().await.unwrap();
            let view = stack.tip().await.unwrap();
            assert_eq!(view.authenticity, Authenticity::Checked, "{what}");
            let open = stack.reveal(view.snapshot()).await.unwrap();
            assert_eq!(open.entries[0].inputs, secret_entry("a").inputs, "{what}");
            if seen.holder.is_some() {
                let session = stack.break_lock("repair", seen.epoch).await.unwrap();
                session.close().await.unwrap();
            }
            let rekeyed = stack.rekey("rekey", Rekey::default()).await.unwrap();
            assert_eq!(passwords(&stack, &rekeyed.revision).await.unwrap(), 1, "{what}");
            assert_eq!(passwords(&stack, &first).await.unwrap(), 1, "{what}");
            assert!(stack.verify(true).await.unwrap().report.is_valid(), "{what}");
        }
    }
    assert!(failures > 20, "too few rotations failed: {failures}");
}

#[tokio::test]
async fn malformed_recipient_is_refused_and_changes_nothing() {
    let backend = MemoryBackend::default();
    let anna = generate_identity();
    let stacks = stacks(&backend, 1).with_keys(keys(1, &anna));
    let stack = stacks.new_stack(&"shop".parse().unwrap()).await.unwrap();
    deploy_secret(&stack, "a").await;
    let before = stack.recipients().await.unwrap();
    for wrong in ["age1typo", "passphrase", "AGE-SECRET-KEY-1"] {
        let wrong = [wrong.to_owned()];
        assert!(
            stack.add_recipients("recipients add", &wrong).await.is_err(),
            "{wrong:?}"
        );
        let rekey = Rekey {
            recipients: Some(wrong.to_vec()),
            ..Rekey::default()
        };
        assert!(stack.rekey("rekey", rekey).await.is_err(), "{wrong:?}");
    }
    let no_recipients = Rekey {
        recipients: Some(Vec::new()),
        ..Rekey::default()
    };
    assert!(stack.rekey("rekey", no_recipients).await.is_err());
    assert_eq!(stack.recipients().await.unwrap(), before);
    deploy_secret(&stack, "b").await;
}

#[tokio::test]
async fn text_that_looks_sealed_in_a_plain_stack_is_unchanged() {
    let (_, stack) = new_stack().await;
    let session = stack.lock("deploy").await.unwrap();
    let update = start(&session).await;
    let lookalike = Entry {
        inputs: Properties::new(Json::parse(r#"{"a":"$sealed:v1:0123456789abcdef:x"}"#).unwrap()),
        ..entry("a", &[])
    };
    create(&update, lookalike.clone()).await;
    let revision = update.finish(UpdateResult::Succeeded).await.unwrap();
    let request = UpdateRequest::new(UpdateKind::Rollback);
    session.rollback(request, &revision).await.unwrap();
    session.close().await.unwrap();
    let open = stack.reveal(stack.current().await.unwrap()).await.unwrap();
    assert_eq!(open.entries[0].inputs, lookalike.inputs);
}

#[tokio::test]
async fn rekey_with_forget_history_leaves_nothing_for_the_old_key() {
    let backend = MemoryBackend::default();
    let (anna, bob) = (generate_identity(), generate_identity());
    let of_anna = stacks(&backend, 1).with_keys(keys(1, &anna));
    let stack = of_anna.new_stack(&"shop".parse().unwrap()).await.unwrap();
    let first = deploy_secret(&stack, "a").await;
    stack
        .add_recipients("recipients add", &[bob.recipient().to_owned()])
        .await
        .unwrap();
    let second = deploy_secret(&stack, "b").await;
    let rekey = Rekey {
        recipients: Some(vec![anna.recipient().to_owned()]),
        forget_history: true,
        ..Rekey::default()
    };
    let rekeyed = stack.rekey("recipients remove", rekey).await.unwrap();
    assert_eq!(rekeyed.older, []);
    let of_bob = as_seen_by(&backend, &bob).await;
    for gone in [&first, &second] {
        assert_eq!(stack.get(gone).await.unwrap_err().kind(), ErrorKind::NotFound);
        assert!(passwords(&of_bob, gone).await.is_err());
    }
    assert_eq!(
        stack.list().await.unwrap(),
        std::slice::from_ref(&rekeyed.revision)
    );
    let old = state_core::backend::CollectableStore::stored_items(
        &backend,
        stack.lineage(),
        state_core::Slot(u64::MAX),
    )
    .await
    .unwrap();
    let floor = stack.tip().await.unwrap().head.floor;
    for item in old {
        if let state_core::backend::StoredItemName::Object(state_core::backend::ObjectName::Snapshot {
            slot,
            ..
        }) = item.name
        {
            assert!(slot >= floor, "no snapshot sealed with the old key may remain");
        }
    }
    assert_eq!(passwords(&stack, &rekeyed.revision).await.unwrap(), 2);
    assert!(stack.verify(true).await.unwrap().report.is_valid());
    deploy_secret(&stack, "c").await;
}

/// A passphrase is listed after all keys, wherever it was given.
#[tokio::test]
async fn name_belongs_to_its_recipient_beside_a_passphrase() {
    let backend = MemoryBackend::default();
    let (anna, bob) = (generate_identity(), generate_identity());
    let identities = Identities::parse("anna", anna.file()).unwrap();
    let mut recipients: Recipients = anna.recipient().parse().unwrap();
    let passphrase = Passphrase::new("correct horse battery staple".to_owned()).unwrap();
    recipients.add_passphrase_with_work(passphrase, 2).unwrap();
    let keys = AgeKeys::new(identities, recipients, Arc::new(SeededEntropy::new(1)));
    let stacks = stacks(&backend, 1).with_keys(Arc::new(keys));
    let stack = stacks.new_stack(&"shop".parse().unwrap()).await.unwrap();
    deploy_secret(&stack, "a").await;
    let added = stack
        .add_named_recipient("recipients add", bob.recipient(), "bob")
        .await
        .unwrap();
    assert_eq!(added.of_stack, [anna.recipient(), bob.recipient(), "passphrase"]);
    assert_eq!(added.names.len(), 1);
    assert_eq!(added.names[bob.recipient()], "bob");
}

#[tokio::test]
async fn altered_value_is_an_error_and_a_closed_key_a_reason() {
    let backend = MemoryBackend::default();
    let (anna, bob) = (generate_identity(), generate_identity());
    let stacks = stacks(&backend, 1).with_keys(keys(1, &anna));
    let stack = stacks.new_stack(&"shop".parse().unwrap()).await.unwrap();
    let revision = deploy_secret(&stack, "a").await;
    let mut snapshot = stack.get(&revision).await.unwrap();
    let (opened, reason) = stack.reveal_if_possible(snapshot.clone()).await.unwrap();
    assert!(reason.is_none() && opened != snapshot);
    let of_bob = as_seen_by(&backend, &bob).await;
    let (unopened, reason) = of_bob.reveal_if_possible(snapshot.clone()).await.unwrap();
    assert_eq!(unopened, snapshot);
    assert_eq!(reason.unwrap().kind(), ErrorKind::Sealed);

    // The token of one value in the place of another, as an attacker could copy it.
    let entry = Arc::make_mut(&mut snapshot.entries[0]);
    entry.uid = Some(state_core::Uid::from_bits([9; 16]));
    let altered = stack.reveal_if_possible(snapshot).await.unwrap_err();
    assert_eq!(altered.kind(), ErrorKind::Sealed);
}
