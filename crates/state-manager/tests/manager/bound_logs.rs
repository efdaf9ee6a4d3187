//! Logs are bound to their revision, which names its log by digest. A log that no revision names is ignored, and a log
//! with another digest is refused.

use super::*;
use state_core::backend::{Backend, ObjectName};
use state_core::{ErrorKind, LogLevel, LogLine, RevisionId, Timestamp};
use state_encrypt::{GeneratedIdentity, generate_identity};
use state_manager::{LogQuery, Rekey};
use std::path::{Path, PathBuf};

/// A log line with this message.
fn logged(message: &str) -> LogLine {
    LogLine::new(
        Timestamp::new("2026-01-01T00:00:00Z"),
        LogLevel::Info,
        message.to_owned(),
    )
}

/// Makes one revision, whose update logs these messages.
async fn update(stack: &Stack, messages: &[&str]) -> RevisionId {
    let session = stack.lock("deploy").await.unwrap();
    let update = start(&session).await;
    for message in messages {
        update.log(&logged(message));
    }
    let revision = update.finish(UpdateResult::Succeeded).await.unwrap();
    session.close().await.unwrap();
    revision
}

/// The messages of all stored log lines, decrypted.
async fn messages(stack: &Stack) -> state_core::Result<Vec<String>> {
    let query = LogQuery {
        reveal: true,
        ..LogQuery::default()
    };
    let lines = stack.logs(&query).await?;
    Ok(lines.into_iter().map(|stored| stored.line.message).collect())
}

/// A sealed stack in a store of files.
struct Files {
    _folder: tempfile::TempDir,
    root: PathBuf,
    identity: GeneratedIdentity,
    stack: Stack,
}

impl Files {
    /// Creates the store and the stack.
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("store");
        let identity = generate_identity();
        let url = format!("file://{}", root.display());
        let stacks = Stacks::create(&url, environment(1)).unwrap();
        let stacks = stacks.with_keys(keys(1, &identity));
        let stack = stacks.new_stack(&"shop".parse().unwrap()).await.unwrap();
        Self {
            _folder: folder,
            root,
            identity,
            stack,
        }
    }

    /// The stack in a new process, which has no opened keys.
    async fn reopened(&self) -> Stack {
        let url = format!("file://{}", self.root.display());
        let stacks = Stacks::create(&url, environment(2)).unwrap();
        let stacks = stacks.with_keys(keys(2, &self.identity));
        stacks.get(&"shop".parse().unwrap()).await.unwrap().unwrap()
    }

    /// Path of the stored log of a revision.
    fn log(&self, revision: &RevisionId) -> PathBuf {
        let name = ObjectName::Log(revision.serial()).to_string();
        let stack = self.root.join("stacks").join(self.stack.lineage().to_string());
        stack.join(Path::new(&name))
    }
}

#[tokio::test]
async fn log_of_another_revision_is_refused() {
    let files = Files::new().await;
    let first = update(&files.stack, &["first"]).await;
    let second = update(&files.stack, &["second"]).await;
    assert_eq!(messages(&files.stack).await.unwrap(), ["first", "second"]);
    std::fs::copy(files.log(&first), files.log(&second)).unwrap();
    let refused = messages(&files.stack).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Corrupt);
    assert!(
        refused.to_string().contains("belongs to another revision"),
        "{refused}"
    );
}

#[tokio::test]
async fn log_that_no_revision_names_is_ignored() {
    let files = Files::new().await;
    let first = update(&files.stack, &["first"]).await;
    let silent = update(&files.stack, &[]).await;
    std::fs::copy(files.log(&first), files.log(&silent)).unwrap();
    assert_eq!(messages(&files.stack).await.unwrap(), ["first"]);
}

/// A former recipient still has an old key of the stack, and could seal log lines with it.
#[tokio::test]
async fn log_written_with_an_old_key_is_refused() {
    let files = Files::new().await;
    let first = update(&files.stack, &["sealed with the old key"]).await;
    let old = std::fs::read(files.log(&first)).unwrap();
    files.stack.rekey("rekey", Rekey::default()).await.unwrap();
    let second = update(&files.stack, &["sealed with the new key"]).await;
    assert_eq!(
        messages(&files.stack).await.unwrap(),
        ["sealed with the old key", "sealed with the new key"]
    );
    std::fs::write(files.log(&second), old).unwrap();
    assert_eq!(
        messages(&files.stack).await.unwrap_err().kind(),
        ErrorKind::Corrupt
    );
}

#[tokio::test]
async fn deleted_log_is_shown_as_missing() {
    let files = Files::new().await;
    let first = update(&files.stack, &["first"]).await;
    update(&files.stack, &["second"]).await;
    std::fs::remove_file(files.log(&first)).unwrap();
    let shown = messages(&files.stack).await.unwrap();
    assert!(
        shown[0].contains("the log of this update is missing"),
        "{shown:?}"
    );
    assert_eq!(shown[1], "second");
}

#[tokio::test]
async fn deep_verification_reads_logs_and_replaced_keys() {
    let files = Files::new().await;
    let first = update(&files.stack, &["first"]).await;
    let old = files.stack.tip().await.unwrap().head.key_id.unwrap();
    files.stack.rekey("rekey", Rekey::default()).await.unwrap();
    let second = update(&files.stack, &["second"]).await;
    let intact = files.stack.verify(true).await.unwrap();
    assert_eq!(
        (intact.logs, intact.missing_logs, intact.unopened_keys),
        (2, vec![], vec![])
    );

    std::fs::remove_file(files.log(&first)).unwrap();
    let keys = files
        .root
        .join("stacks")
        .join(files.stack.lineage().to_string())
        .join("keys");
    for file in std::fs::read_dir(keys).unwrap() {
        let path = file.unwrap().path();
        if path.to_string_lossy().contains(&old.to_string()) {
            std::fs::remove_file(path).unwrap();
        }
    }
    let found = files.reopened().await.verify(true).await.unwrap();
    assert_eq!((found.logs, found.missing_logs), (1, vec![first.serial()]));
    assert_eq!(found.unopened_keys, [old]);

    std::fs::write(files.log(&second), "forged").unwrap();
    let refused = files.stack.verify(true).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Corrupt);
    assert!(refused.object().contains("logs/"), "{refused}");
}

/// Once the base has moved past a revision, the digest of its log is read from a page of the history.
#[tokio::test]
async fn log_of_a_revision_on_a_page_is_shown() {
    let (backend, stack) = new_stack().await;
    update(&stack, &["first"]).await;
    let session = stack.lock("deploy").await.unwrap();
    for round in 0..8 {
        let update = start(&session).await;
        create(&update, super::checkpoints::heavy(&format!("e{round}"), 200_000)).await;
        update.finish(UpdateResult::Succeeded).await.unwrap();
    }
    session.close().await.unwrap();
    let pages = backend
        .list(stack.lineage(), state_core::backend::ObjectKind::Update)
        .await
        .unwrap();
    assert!(!pages.is_empty());
    assert_eq!(messages(&stack).await.unwrap(), ["first"]);
}
