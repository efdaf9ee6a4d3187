//! Pins of policy and recipients, positions that a client must not pin, and expectations (`--expect-key`,
//! `--expect-revision`) for clients that have no pins.

use super::*;
use state_core::KeyId;
use state_manager::{Authenticity, Expectations};

#[tokio::test]
async fn signed_change_of_recipients_is_reported_once() {
    let (_folder, root, anna) = made().await;
    let (bob, carl) = (generate_identity(), generate_identity());
    let (client, other) = (Client::of(&root, &anna), Client::of(&root, &anna));
    client.write().await.unwrap();
    other.write().await.unwrap();
    let stack = other.stack().await.unwrap();
    let first = head_of(&other).await.key_id.unwrap();
    let (bobs, carls) = (bob.recipient().to_owned(), carl.recipient().to_owned());
    stack
        .add_recipients("add", std::slice::from_ref(&bobs))
        .await
        .unwrap();
    stack
        .add_output_recipients("add", std::slice::from_ref(&carls))
        .await
        .unwrap();
    let all = Rekey {
        policy: Some(SealingPolicy::All),
        ..Rekey::default()
    };
    stack.rekey("rekey", all).await.unwrap();
    let second = head_of(&other).await.key_id.unwrap();
    for _ in 0..2 {
        client.write().await.unwrap();
        client.read().await.unwrap();
    }
    let expected = format!(
        "shop: recipients changed by ana in revisions 2, 3, 4: +{bobs}; recipients of the outputs changed: +{carls}; policy \
         changed from sensitive to all; data key changed from {first} to {second}"
    );
    assert_eq!(client.known_stacks.reported(), [expected]);
    assert_eq!(
        other.known_stacks.reported(),
        [""; 0],
        "a client's own changes must not be reported to it"
    );

    let without = Rekey {
        recipients: Some(vec![anna.recipient().to_owned()]),
        ..Rekey::default()
    };
    stack.rekey("remove", without).await.unwrap();
    let third = head_of(&other).await.key_id.unwrap();
    client.read().await.unwrap();
    let last = client.known_stacks.reported().pop().unwrap();
    let expected = format!(
        "shop: recipients changed by ana in revision 5: -{bobs}; data key changed from {second} to {third}"
    );
    assert_eq!(last, expected);
}

#[tokio::test]
async fn unsigned_change_of_recipients_is_refused_and_not_pinned() {
    let (folder, root, anna) = made().await;
    let client = Client::of(&root, &anna);
    client.write().await.unwrap();
    let head = head_of(&client).await;
    let pin = client.known_stacks.seen(head.lineage).await.unwrap();
    let changes: [fn(&mut Head); 3] = [
        |head| {
            head.keys
                .as_mut()
                .unwrap()
                .recipients
                .push("age1stranger".to_owned());
        },
        |head| {
            head.keys
                .as_mut()
                .unwrap()
                .outputs
                .push("age1stranger".to_owned());
        },
        |head| head.policy = SealingPolicy::Plaintext,
    ];
    for change in changes {
        let honest = folder.path().join("honest");
        copy(&root, &honest);
        change_head(&root, head.lineage, change);
        for error in [
            client.read().await.unwrap_err(),
            client.write().await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::Sealed, "{error}");
        }
        assert_eq!(client.known_stacks.seen(head.lineage).await.unwrap(), pin);
        put_in_place(&root, &honest);
        std::fs::remove_dir_all(honest).unwrap();
    }
    assert_eq!(client.known_stacks.reported(), [""; 0]);
    client.write().await.unwrap();
}

#[tokio::test]
async fn policy_of_a_new_stack_is_pinned_before_its_first_key() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("store");
    let client = Client::of(&root, &generate_identity());
    let stack = client.stacks().new_stack(&"shop".parse().unwrap()).await.unwrap();
    change_head(&root, stack.lineage(), |head| {
        head.policy = SealingPolicy::Plaintext;
    });
    client.refuses("an unsigned policy").await;
    change_head(&root, stack.lineage(), |head| {
        head.policy = SealingPolicy::Sensitive;
    });
    client.write().await.unwrap();
    assert!(head_of(&client).await.key_id.is_some());
}

#[tokio::test]
async fn reader_without_key_remembers_no_position() {
    let (_folder, root, anna) = made().await;
    let lineage = head_of(&Client::of(&root, &anna)).await.lineage;
    for keys in [None, Some(keys(8, &generate_identity()))] {
        let stranger = Client::new(&root, keys);
        let view = stranger.stack().await.unwrap().tip().await.unwrap();
        assert_eq!(view.authenticity, Authenticity::Unchecked);
        assert_eq!(stranger.known_stacks.seen(lineage).await.unwrap(), None);
    }
    // A client that has lost its identity can still read, and reading doesn't change its pin.
    let client = Client::of(&root, &anna);
    client.write().await.unwrap();
    let pin = client.known_stacks.seen(lineage).await.unwrap();
    let without = Client {
        root: root.clone(),
        keys: None,
        known_stacks: client.known_stacks.clone(),
    };
    Client::of(&root, &anna).deploy("later").await;
    assert_eq!(without.read().await.unwrap(), None);
    assert_eq!(client.known_stacks.seen(lineage).await.unwrap(), pin);
}

#[tokio::test]
async fn epoch_that_takeovers_cannot_reach_is_refused() {
    let (_folder, root, anna) = made().await;
    let client = Client::of(&root, &anna);
    client.write().await.unwrap();
    let lineage = head_of(&client).await.lineage;
    let pin = client.known_stacks.seen(lineage).await.unwrap().unwrap();
    let mut lower = pin.clone();
    lower.epoch = state_core::Epoch(pin.epoch.get() - 1);
    client.set_pin(lineage, &lower).await;
    client.write().await.unwrap();
    change_head(&root, lineage, |head| {
        head.epoch = state_core::Epoch(head.epoch.get() + state_core::Epoch::MAX_STEP + 1);
    });
    for error in [
        client.read().await.unwrap_err(),
        client.write().await.unwrap_err(),
    ] {
        assert!(
            matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Distrusted),
            "{error}"
        );
    }
}

/// The stacks of a client that expects one of these keys, and this revision if there is one.
fn expecting(client: &Client, keys: &[KeyId], revision: Option<&RevisionId>) -> Stacks {
    client
        .stacks()
        .with_expectations(Expectations::new(keys.to_vec(), revision.cloned()))
}

/// The kinds of the errors of reading and of writing the stack `shop`; none for a call that succeeds.
async fn kind_of(stacks: &Stacks) -> [Option<ErrorKind>; 2] {
    let stack = match stacks.get(&"shop".parse().unwrap()).await {
        Ok(stack) => stack.unwrap(),
        // A stack that isn't the expected one is refused when it is looked up, so it can be neither read nor written.
        Err(error) => return [Some(error.kind()); 2],
    };
    let read = stack.tip().await.map(drop);
    let written = match stack.lock("write").await {
        Ok(session) => session.close().await,
        Err(error) => Err(error),
    };
    [read, written].map(|result| result.err().map(|error| error.kind()))
}

#[tokio::test]
async fn stack_with_another_key_than_expected_is_refused() {
    let (folder, root, anna) = made().await;
    let key = head_of(&Client::of(&root, &anna)).await.key_id.unwrap();
    let other = KeyId::from_bytes([7; 16]).unwrap();
    // Each of these clients is new: it has no pins.
    let fresh = || Client::of(&root, &anna);
    assert_eq!(kind_of(&expecting(&fresh(), &[key], None)).await, [None, None]);
    assert_eq!(
        kind_of(&expecting(&fresh(), &[other, key], None)).await,
        [None, None]
    );
    let refused = [Some(ErrorKind::Distrusted); 2];
    assert_eq!(kind_of(&expecting(&fresh(), &[other], None)).await, refused);
    // A client without an identity can't verify that a holder of the key wrote the stack.
    let blind = Client::new(&root, None);
    assert_eq!(kind_of(&expecting(&blind, &[key], None)).await, refused);

    // A stack that another client made with the same lineage is refused, and so is an unsealed one.
    let forged = folder.path().join("forged");
    make(&forged, 1, strangers_keys(&anna)).await;
    let honest = folder.path().join("honest");
    copy(&root, &honest);
    put_in_place(&root, &forged);
    assert_eq!(kind_of(&expecting(&fresh(), &[key], None)).await, refused);
    put_in_place(&root, &honest);
    let lineage = head_of(&fresh()).await.lineage;
    change_head(&root, lineage, |head| {
        head.key_id = None;
        head.keys = None;
        head.tag = None;
    });
    assert_eq!(kind_of(&expecting(&fresh(), &[key], None)).await, refused);

    let name = "another".parse().unwrap();
    let error = expecting(&fresh(), &[key], None)
        .new_stack(&name)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Distrusted, "{error}");
}

#[tokio::test]
async fn stack_without_the_expected_revision_is_refused() {
    let (folder, root, anna) = made().await;
    let fresh = || Client::of(&root, &anna);
    let earlier = folder.path().join("earlier");
    copy(&root, &earlier);
    let first = fresh().stack().await.unwrap().current_rev().await.unwrap();
    let second = fresh().deploy("b").await;
    // This update causes a checkpoint, so that the first revisions lie before the live journal.
    let stack = fresh().stack().await.unwrap();
    let session = stack.lock("large").await.unwrap();
    let update = start(&session).await;
    for number in 0..3 {
        let text = format!(r#"{{"text":"{}"}}"#, "x".repeat(600_000));
        let inputs = state_core::Properties::new(state_core::Json::parse(&text).unwrap());
        let large = Entry {
            inputs,
            ..entry(&format!("large-{number}"), &[])
        };
        create(&update, large).await;
    }
    let third = update.finish(UpdateResult::Succeeded).await.unwrap();
    session.close().await.unwrap();
    for revision in [&first, &second, &third] {
        assert_eq!(
            kind_of(&expecting(&fresh(), &[], Some(revision))).await,
            [None, None],
            "{revision}"
        );
    }
    put_in_place(&root, &earlier);
    let refused = [Some(ErrorKind::Conflict); 2];
    assert_eq!(
        kind_of(&expecting(&fresh(), &[], Some(&first))).await,
        [None, None]
    );
    assert_eq!(kind_of(&expecting(&fresh(), &[], Some(&second))).await, refused);
    // The store now gets another history, which reaches and passes the number of revisions of the first one.
    for name in ["c", "d", "e"] {
        fresh().deploy(name).await;
        assert_eq!(kind_of(&expecting(&fresh(), &[], Some(&second))).await, refused);
    }
    let name = "another".parse().unwrap();
    let error = expecting(&fresh(), &[], Some(&first))
        .new_stack(&name)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
}

#[tokio::test]
async fn copy_in_place_of_the_original_is_reported_once() {
    let (folder, root, anna) = made().await;
    let client = Client::of(&root, &anna);
    client.read().await.unwrap();
    let elsewhere = Client::of(&folder.path().join("elsewhere"), &anna);
    let copied = elsewhere.stacks().copy_from(&client.stack().await.unwrap()).await;
    copied.unwrap();
    elsewhere.deploy("only-in-the-copy").await;
    put_in_place(&root, &elsewhere.root);
    for _ in 0..2 {
        assert_eq!(client.read().await.unwrap(), None);
    }
    let reported = client.known_stacks.reported();
    assert_eq!(reported.len(), 1, "{reported:?}");
    let parts = ["made in this store", "copied from file://"];
    assert!(
        parts.iter().all(|part| reported[0].contains(part)),
        "{reported:?}"
    );
}

/// Neither the epoch nor the end of the journal went back, and the journal has the pinned chain: only the serial shows
/// that the store was rolled back.
#[tokio::test]
async fn lower_serial_alone_is_a_rollback() {
    let folder = tempfile::tempdir().unwrap();
    let anna = generate_identity();
    for sealed in [true, false] {
        let root = folder.path().join(format!("store-{sealed}"));
        let (keys, policy) = match sealed {
            true => (Some(keys(7, &anna)), SealingPolicy::Sensitive),
            false => (None, SealingPolicy::Plaintext),
        };
        let client = Client::new(&root, keys);
        let name = "shop".parse().unwrap();
        let stack = client.stacks().new_stack_with(&name, policy).await.unwrap();
        client.deploy("a").await;
        let pin = client.known_stacks.seen(stack.lineage()).await.unwrap().unwrap();
        let mut later = pin.clone();
        later.serial = pin.serial.next();
        client.set_pin(stack.lineage(), &later).await;
        let reported = client.read().await.unwrap().unwrap();
        assert!(reported.contains("its serial was 2"), "{reported}");
        client.reports("a lower serial").await;
        client.set_pin(stack.lineage(), &pin).await;
        assert_eq!(client.read().await.unwrap(), None);
        client.write().await.unwrap();
    }
}
