//! Sealed stacks: secrets are stored encrypted and are readable only with the data key, and forgeries are detected.

use super::*;
use state_core::mutation::StackOutputs;
use state_core::{Error, ErrorKind, Json, Outcome, Properties};
use state_encrypt::{AgeKeys, GeneratedIdentity, generate_identity};
use state_manager::Authenticity;
use std::path::Path;

/// The secret of these tests, which must be in no file, error or `Debug` text.
const CANARY: &str = "correct-horse-battery";

/// A resource with secrets in its inputs and outputs, and with a note that is no secret.
fn secret_entry(name: &str, note: &str) -> Entry {
    let text = format!(r#"{{"note":"{note}","password":"{CANARY}","url":"db://{CANARY}"}}"#);
    Entry {
        inputs: Properties::new(Json::parse(&text).unwrap()),
        sensitive_inputs: vec!["password".to_owned(), "url".to_owned()],
        outputs: Properties::new(Json::parse(&format!(r#"{{"copy":"{CANARY}"}}"#)).unwrap()),
        ..entry(name, &[])
    }
}

/// Stack outputs with one secret.
fn secret_outputs() -> StackOutputs {
    let value = Json::parse(&format!("\"{CANARY}\"")).unwrap();
    StackOutputs {
        values: [("password".to_owned(), value)].into(),
        sensitive: vec!["password".to_owned()],
    }
}

/// Creates the sealed stack `shop` in a new store, with this identity as its recipient.
async fn sealed_stack(root: &Path, identity: &GeneratedIdentity) -> Stack {
    let url = format!("file://{}", root.display());
    let stacks = Stacks::create(&url, environment(1)).unwrap();
    let stacks = stacks.with_keys(keys(1, identity));
    stacks.new_stack(&"shop".parse().unwrap()).await.unwrap()
}

/// The stack `shop`, found with these keys in a new process.
async fn opened(root: &Path, keys: Option<Arc<AgeKeys>>) -> Stack {
    found(root, keys).await.unwrap().unwrap()
}

/// As [`opened`], but returns the error if the stack is refused, and `None` if it is missing.
async fn found(root: &Path, keys: Option<Arc<AgeKeys>>) -> Result<Option<Stack>, Error> {
    let mut stacks = Stacks::open(&format!("file://{}", root.display()), environment(2)).unwrap();
    if let Some(keys) = keys {
        stacks = stacks.with_keys(keys);
    }
    stacks.get(&"shop".parse().unwrap()).await
}

/// The paths and contents of all files below a folder. Snapshots are decompressed.
fn bytes_below(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for item in std::fs::read_dir(folder).unwrap() {
        let path = item.unwrap().path();
        if path.is_dir() {
            found.extend(bytes_below(&path));
            continue;
        }
        let mut bytes = std::fs::read(&path).unwrap();
        if path.extension().is_some_and(|extension| extension == "zst") {
            bytes = zstd::stream::decode_all(&bytes[..]).unwrap();
        }
        found.push((path.display().to_string(), bytes));
    }
    found
}

/// Creates resources, sets outputs, updates a resource with a partial failure, fails to create one, imports, rolls back,
/// and leaves one operation pending.
async fn work_hard(stack: &Stack) {
    let session = stack.lock("work").await.unwrap();
    let update = start(&session).await;
    for name in ["a", "b"] {
        let made = secret_entry(name, "first");
        let step = update.begin(Intent::create(made.clone())).await.unwrap();
        assert!(step.succeed(Some(made)).await.unwrap().is_empty());
    }
    update.set_outputs(secret_outputs()).await.unwrap();
    let first = update.finish(UpdateResult::Succeeded).await.unwrap();

    let update = start(&session).await;
    let changed = secret_entry("a", "second");
    let step = update.begin(Intent::update(changed.clone())).await.unwrap();
    let reasons = vec![format!("the server said {CANARY}")];
    step.end(Outcome::Partial, Some(changed), reasons.clone())
        .await
        .unwrap();
    let refused = secret_entry("refused", "never created");
    let step = update.begin(Intent::create(refused)).await.unwrap();
    step.end(Outcome::Failed, None, reasons).await.unwrap();
    update.finish(UpdateResult::Failed).await.unwrap();
    let mut snapshot = stack.current().await.unwrap();
    snapshot.entries.push(Arc::new(secret_entry("c", "imported")));
    session
        .import(UpdateRequest::new(UpdateKind::Import), snapshot, None)
        .await
        .unwrap();
    session
        .rollback(UpdateRequest::new(UpdateKind::Rollback), &first)
        .await
        .unwrap();
    let update = start(&session).await;
    drop(
        update
            .begin(Intent::create(secret_entry("d", "never ends")))
            .await
            .unwrap(),
    );
    session.close().await.unwrap();
}

#[tokio::test]
async fn secrets_reach_no_file_and_the_key_opens_all_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("store");
    let identity = generate_identity();
    let stack = sealed_stack(&root, &identity).await;
    work_hard(&stack).await;
    let debug = format!("{stack:?} {:?}", stack.tip().await.unwrap());
    for (path, bytes) in bytes_below(&root) {
        let text = String::from_utf8_lossy(&bytes);
        assert!(!text.contains(CANARY), "{path}");
    }
    assert!(!debug.contains(CANARY));

    let provider = keys(9, &identity);
    let again = opened(&root, Some(Arc::clone(&provider))).await;
    let view = again.tip().await.unwrap();
    assert_eq!(view.authenticity, Authenticity::Checked);
    let open = again.reveal(view.snapshot()).await.unwrap();
    let opened: Vec<_> = open.entries.iter().map(|entry| entry.inputs.clone()).collect();
    assert_eq!(
        opened,
        [
            secret_entry("a", "first").inputs,
            secret_entry("b", "first").inputs
        ]
    );
    assert_eq!(open.outputs, secret_outputs().values);
    let pending = open.pending_operations[0].entry.as_ref().unwrap();
    assert_eq!(pending.inputs, secret_entry("d", "never ends").inputs);
    for revision in again.list().await.unwrap() {
        let open = again.reveal(again.get(&revision).await.unwrap()).await.unwrap();
        assert!(!format!("{:?}", open.entries.len()).is_empty());
        let texts: Vec<_> = open
            .entries
            .iter()
            .filter_map(|entry| entry.inputs.clone())
            .collect();
        assert!(texts.iter().all(|inputs| inputs.json().as_str().contains(CANARY)));
    }
    assert!(again.verify(true).await.unwrap().report.is_valid());
}

#[tokio::test]
async fn client_without_key_lists_but_neither_opens_nor_writes() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("store");
    let stack = sealed_stack(&root, &generate_identity()).await;
    work_hard(&stack).await;
    let before = bytes_below(&root);
    for provider in [None, Some(keys(5, &generate_identity()))] {
        let stack = opened(&root, provider).await;
        let view = stack.tip().await.unwrap();
        assert_eq!(view.authenticity, Authenticity::Unchecked);
        assert_eq!(view.state.len(), 2);
        assert_eq!(stack.history().await.unwrap().len(), 4);
        assert!(stack.verify(true).await.unwrap().report.is_valid());
        let error = stack.reveal(view.snapshot()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Sealed, "{error}");
        let error = stack.lock("write").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Sealed, "{error}");
        assert!(!error.to_string().contains(CANARY));
    }
    // A refused writer has changed only the head, the lock and the journal, which got an empty segment. All snapshots,
    // history pages and keys must be unchanged.
    let unchanged = |all: Vec<(String, Vec<u8>)>| -> Vec<(String, state_core::Digest)> {
        let derived = |path: &str| {
            ["/snapshots/", "/updates/", "/keys/"]
                .iter()
                .any(|folder| path.contains(folder))
        };
        let found = all.into_iter().filter(|(path, _)| derived(path));
        let mut found: Vec<_> = found
            .map(|(path, bytes)| (path, state_core::Digest::of(&bytes)))
            .collect();
        found.sort();
        found
    };
    assert_eq!(unchanged(bytes_below(&root)), unchanged(before));
}

#[tokio::test]
async fn sensitive_value_without_key_is_refused_and_not_written() {
    let backend = MemoryBackend::default();
    let stacks = stacks(&backend, 1);
    let stack = stacks.new_stack(&"shop".parse().unwrap()).await.unwrap();
    let session = stack.lock("work").await.unwrap();
    let update = start(&session).await;
    let error = update
        .begin(Intent::create(secret_entry("a", "x")))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Sealed, "{error}");
    // The result is recorded without its values: only the resource and its id.
    let step = update.begin(Intent::create(entry("a", &[]))).await.unwrap();
    let came_back = Entry {
        id: Some("i-1".to_owned()),
        ..secret_entry("a", "x")
    };
    assert_eq!(step.succeed(Some(came_back)).await.unwrap().len(), 1);
    let state = session.state();
    let kept = state.entry(&key("a")).unwrap();
    assert_eq!(
        (kept.id.as_deref(), &kept.inputs, &kept.outputs),
        (Some("i-1"), &None, &None)
    );
    assert!(!format!("{:?}", stack.tip().await.unwrap().snapshot()).contains(CANARY));
}

#[tokio::test]
async fn unchanged_sealed_value_keeps_its_bytes() {
    let backend = MemoryBackend::default();
    let identity = generate_identity();
    let stacks = stacks(&backend, 1).with_keys(keys(1, &identity));
    let stack = stacks.new_stack(&"shop".parse().unwrap()).await.unwrap();
    let session = stack.lock("work").await.unwrap();
    let update = start(&session).await;
    let made = secret_entry("a", "one");
    update
        .begin(Intent::create(made.clone()))
        .await
        .unwrap()
        .succeed(Some(made))
        .await
        .unwrap();
    update.finish(UpdateResult::Succeeded).await.unwrap();
    session.close().await.unwrap();
    let sealed = |state: &state_core::State| {
        let inputs = state.entry(&key("a")).unwrap().inputs.clone().unwrap();
        let text = inputs.json().as_str().to_owned();
        text.split_once("\"password\":").unwrap().1.to_owned()
    };
    let first = sealed(&stack.tip().await.unwrap().state);
    assert!(first.contains("$sealed"));

    let session = stack.lock("again").await.unwrap();
    let update = start(&session).await;
    let changed = secret_entry("a", "another note");
    let step = update.begin(Intent::update(changed.clone())).await.unwrap();
    step.succeed(Some(changed)).await.unwrap();
    assert_eq!(sealed(&session.state()), first);
    update.finish(UpdateResult::Succeeded).await.unwrap();
    session.close().await.unwrap();
    assert_eq!(sealed(&stack.tip().await.unwrap().state), first);
}

/// Writes enough data for a checkpoint, so that the first revisions lie before the live journal.
async fn make_a_checkpoint(stack: &Stack) {
    let session = stack.lock("large").await.unwrap();
    let update = start(&session).await;
    for number in 0..3 {
        let large = secret_entry(&format!("large-{number}"), &"x".repeat(600_000));
        let step = update.begin(Intent::create(large.clone())).await.unwrap();
        step.succeed(Some(large)).await.unwrap();
    }
    update.finish(UpdateResult::Succeeded).await.unwrap();
    session.close().await.unwrap();
}

#[tokio::test]
async fn forged_head_or_document_is_detected() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("store");
    let identity = generate_identity();
    let stack = sealed_stack(&root, &identity).await;
    work_hard(&stack).await;
    make_a_checkpoint(&stack).await;
    // Forged heads have a correct digest, but no valid tag.
    let place = root.join("stacks").join(stack.lineage().to_string());
    let head_path = place.join("head.json");
    let honest = std::fs::read(&head_path).unwrap();
    let head: state_core::Head = state_core::Enveloped::decode("head", &honest).unwrap();
    let changes: [fn(&mut state_core::Head); 3] = [
        |head| head.floor = state_core::Slot(1),
        |head| head.tag = None,
        |head| {
            let keys = head.keys.as_mut().unwrap();
            keys.recipients.push("age1stranger".to_owned());
        },
    ];
    for change in changes {
        let mut forged = head.clone();
        change(&mut forged);
        std::fs::write(&head_path, state_core::Enveloped::encode(&forged)).unwrap();
        let found = found(&root, Some(keys(9, &identity))).await;
        let error = found.map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Sealed, "{error}");
        // A client that found the stack before the forgery refuses the head too.
        assert_eq!(stack.tip().await.unwrap_err().kind(), ErrorKind::Sealed);
    }
    std::fs::write(&head_path, &honest).unwrap();
    assert!(opened(&root, Some(keys(9, &identity))).await.tip().await.is_ok());

    // Each forged page contains its own correct digest, which differs from the digest that the head names. One forged
    // document has another number of entries, the other one an unknown field.
    let updates = std::fs::read_dir(place.join("updates")).unwrap();
    let path = updates.map(|item| item.unwrap().path()).min().unwrap();
    let honest = std::fs::read_to_string(&path).unwrap();
    for wrong in ["\"entries\":7", "\"entries\":2,\"x\":1"] {
        let body = honest
            .split_once("\"body\":")
            .unwrap()
            .1
            .strip_suffix("}\n")
            .unwrap();
        let body = body.replacen("\"entries\":2", wrong, 1);
        let digest = state_core::Digest::of_parts(&[b"history", b"\n", body.as_bytes()]);
        let format = state_core::envelope::FORMAT;
        let forged =
            format!("{{\"digest\":\"{digest}\",\"format\":{format},\"kind\":\"history\",\"body\":{body}}}\n");
        assert_ne!(forged, honest);
        std::fs::write(&path, forged).unwrap();
        let stack = opened(&root, Some(keys(9, &identity))).await;
        let error = stack.history().await.unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::Sealed | ErrorKind::Corrupt),
            "{error}"
        );
    }
}

#[tokio::test]
async fn logs_are_sealed_and_stay_readable_after_key_rotations() {
    use state_core::{LogLevel, LogLine, Timestamp};
    use state_manager::{LogQuery, Rekey};
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("store");
    let identity = generate_identity();
    let stack = sealed_stack(&root, &identity).await;
    for _ in 0..2 {
        let session = stack.lock("work").await.unwrap();
        let update = start(&session).await;
        let message = format!("the server said {CANARY}");
        update.log(&LogLine::new(
            Timestamp::new("2026-01-01T00:00:00Z"),
            LogLevel::Error,
            message,
        ));
        update.finish(UpdateResult::Failed).await.unwrap();
        session.close().await.unwrap();
        stack.rekey("rekey", Rekey::default()).await.unwrap();
    }
    for (path, bytes) in bytes_below(&root) {
        assert!(!String::from_utf8_lossy(&bytes).contains(CANARY), "{path}");
    }
    let said = async |keys| {
        let lines = opened(&root, keys)
            .await
            .logs(&LogQuery {
                reveal: true,
                ..LogQuery::default()
            })
            .await
            .unwrap();
        lines
            .into_iter()
            .map(|line| line.line.message)
            .collect::<Vec<_>>()
    };
    assert_eq!(said(None).await, ["(sealed)", "(sealed)"]);
    let line = format!("the server said {CANARY}");
    assert_eq!(said(Some(keys(9, &identity))).await, [line.clone(), line]);
}

#[tokio::test]
async fn crypter_uses_the_data_key_of_its_stack() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("store");
    let identity = generate_identity();
    sealed_stack(&root, &identity).await;
    let name = "shop".parse().unwrap();
    let stacks = |with: bool| {
        let stacks = Stacks::open(&format!("file://{}", root.display()), environment(5)).unwrap();
        if with {
            stacks.with_keys(keys(5, &identity))
        } else {
            stacks
        }
    };
    let missing = stacks(true).crypter(&name).await.unwrap_err();
    assert_eq!(
        missing.kind(),
        ErrorKind::Sealed,
        "the stack must have no key before its first writer"
    );
    let stack = stacks(true).get(&name).await.unwrap().unwrap();
    stack.lock("first").await.unwrap().close().await.unwrap();
    let crypter = stacks(true).crypter(&name).await.unwrap();
    let values: [(&str, &[u8]); 2] = [("db", CANARY.as_bytes()), ("api", b"")];
    let tokens = crypter.encrypt_all(&values).unwrap();
    assert!(tokens.iter().all(|token| !token.contains(CANARY)));
    let again = stacks(true).crypter(&name).await.unwrap();
    assert_eq!(again.decrypt("db", &tokens[0]).unwrap(), CANARY.as_bytes());
    assert!(
        again.decrypt("api", &tokens[0]).is_err(),
        "a token must not open in another context"
    );
    assert_eq!(
        stacks(false).crypter(&name).await.unwrap_err().kind(),
        ErrorKind::Sealed
    );
}

#[tokio::test]
async fn key_file_with_the_highest_number_is_refused_in_a_rotation() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("store");
    let identity = generate_identity();
    let stack = sealed_stack(&root, &identity).await;
    work_hard(&stack).await;
    let keys = root.join("stacks").join(stack.lineage().to_string()).join("keys");
    let planted = format!("{}-{}.age", u64::MAX, "a".repeat(32));
    std::fs::write(keys.join(planted), "planted").unwrap();
    let refused = stack
        .rekey("rekey", state_manager::Rekey::default())
        .await
        .unwrap_err();
    assert_eq!(refused.kind(), state_core::ErrorKind::Corrupt);
    assert!(
        refused.to_string().contains("key files of stack shop"),
        "{refused}"
    );
}
