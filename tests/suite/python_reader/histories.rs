//! Writes the stores that the Python reader reads. Together their journals contain every kind of record.

use crate::store::{create, open};
use state_core::edits::{MovePlan, MoveRequest};
use state_core::head::SealingPolicy;
use state_core::json::JsonMap;
use state_core::mutation::{EditChange, Resolution, StackOutputs};
use state_core::snapshot::Plugin;
use state_core::target::SnapshotPersister;
use state_core::{
    Address, Dependency, Entry, EntryKey, FactoryInfo, Json, LogLevel, LogLine, Op, Outcome, Properties,
    Result, RevisionId, Snapshot, Timestamp, UpdateKind, UpdateResult,
};
use state_manager::{Intent, Retention, Session, Stack, Stacks, Update, UpdateRequest};
use state_tests::workload::{DESTINATION, LARGE, STACK, made};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Maximum time until the lock of a dropped session is released.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(30);

/// Creates two stacks with several sessions, checkpoints, an interrupted update, a rollback, a move and pending
/// operations.
pub(super) async fn everything(dir: &Path) -> Result<()> {
    let stacks = create(dir)?;
    let stack = stacks
        .new_stack_with(&STACK.parse()?, SealingPolicy::Plaintext)
        .await?;
    let destination = stacks
        .new_stack_with(&DESTINATION.parse()?, SealingPolicy::Plaintext)
        .await?;
    let imported = import(&stack).await?;
    let session = stack.lock("steps").await?;
    steps(&session).await?;
    session.close().await?;
    for round in 0..2 {
        let session = stack.lock("bulk").await?;
        bulk(&session, round).await?;
        session.close().await?;
    }
    detached(&stack, "kept").await?;
    forget(&stack, &detached(&stack, "forgotten").await?).await?;
    interrupted(&stack, 50).await?;
    resolved(&stack).await?;
    let session = stack.lock("rollback").await?;
    session
        .rollback(UpdateRequest::new(UpdateKind::Rollback), &imported)
        .await?;
    edit(&session).await?;
    session.close().await?;
    relocate(&stack, &destination).await?;
    let session = stack.lock("pending").await?;
    let update = session.start_update(request(UpdateKind::Update)).await?;
    broken_result(&update, "broken-at-last").await?;
    drop(update.begin(Intent::create(entry("pending")?)).await?);
    update.finish(UpdateResult::Failed).await?;
    session.close().await?;
    assert!(
        stack.verify(true).await?.snapshots >= 5,
        "the imports, checkpoints and the rollback must store snapshots"
    );
    Ok(())
}

/// Drops all revisions except the last two from the history, and deletes the objects that no other revision needs.
pub(super) async fn collected(dir: &Path) -> Result<()> {
    let stack = find(&open(dir)?, STACK).await?;
    let session = stack.lock("collect").await?;
    let mut retention = Retention::default();
    retention.keep_for = Duration::ZERO;
    retention.keep_last = 2;
    retention.grace = Duration::ZERO;
    let report = session.collect(&retention).await?;
    assert!(!report.dropped.is_empty(), "{report:?}");
    session.close().await
}

/// Creates a store of a few kilobytes with every kind of file except a page of the history. All sessions are closed.
pub(super) async fn small(dir: &Path) -> Result<()> {
    let stacks = create(dir)?;
    let stack = stacks
        .new_stack_with(&STACK.parse()?, SealingPolicy::Plaintext)
        .await?;
    import(&stack).await?;
    detached(&stack, "kept").await?;
    let session = stack.lock("update").await?;
    let update = session.start_update(request(UpdateKind::Update)).await?;
    make(&update, entry("one")?).await?;
    update.finish(UpdateResult::Succeeded).await?;
    session.close().await
}

/// Creates a store whose last session was dropped within an update. The last frame, with a pending operation, has inputs of
/// `size` bytes.
pub(super) async fn crashed(dir: &Path, size: usize) -> Result<()> {
    let stacks = create(dir)?;
    let stack = stacks
        .new_stack_with(&STACK.parse()?, SealingPolicy::Plaintext)
        .await?;
    let session = stack.lock("update").await?;
    let update = session.start_update(request(UpdateKind::Update)).await?;
    make(&update, entry("one")?).await?;
    update.finish(UpdateResult::Succeeded).await?;
    session.close().await?;
    interrupted(&stack, size).await
}

async fn find(stacks: &Stacks, name: &str) -> Result<Stack> {
    let found = stacks.get(&name.parse()?).await?;
    found.ok_or_else(|| state_core::Error::not_found(format!("stack {name}")))
}

const fn request(kind: UpdateKind) -> UpdateRequest {
    UpdateRequest::new(kind)
}

fn entry(address: &str) -> Result<Entry> {
    Ok(Entry::leaf(Address::new(address)?, "thing"))
}

/// Returns an entry that depends on the entry `on` and is its child.
fn depending(address: &str, on: &str) -> Result<Entry> {
    Ok(Entry {
        depends_on: vec![Dependency::Entry(on.parse()?)],
        parent: Some(on.parse()?),
        ..entry(address)?
    })
}

fn properties(text: &str) -> Option<Properties> {
    Json::parse(text).ok().and_then(Properties::new)
}

fn snapshot(name: &str) -> Result<Snapshot> {
    let moment = Timestamp::new("2026-01-01T00:00:00Z");
    let mut snapshot = Snapshot::new(FactoryInfo::default(), STACK, moment);
    for number in 0..4 {
        let tag = format!("{name}-{number}");
        let mut entry = made(Address::new(tag.as_str())?, &tag)?;
        entry.inputs = properties(r#"{"numbers":[1.0,1e0,-0,1],"text":"ä\u0007\u2028\"\\"}"#);
        entry.unknown = JsonMap::from_iter([("later".to_owned(), Json::from_string("kept"))]).into();
        snapshot.entries.push(Arc::new(entry));
    }
    snapshot
        .outputs
        .insert("url".to_owned(), Json::from_string("https://example.org"));
    snapshot
        .unknown
        .insert("from-later".to_owned(), Json::from_string("kept"));
    Ok(snapshot)
}

/// Imports a snapshot twice, the second time with a lower serial of Terraform. Returns the first revision.
async fn import(stack: &Stack) -> Result<RevisionId> {
    let session = stack.lock("import").await?;
    let foreign = Some(("terraform".to_owned(), 7));
    let first = session
        .import(request(UpdateKind::Import), snapshot("imported")?, foreign)
        .await?;
    let foreign = Some(("terraform".to_owned(), 3));
    session
        .import(
            request(UpdateKind::Import).with_message("again, an older one"),
            snapshot("imported")?,
            foreign,
        )
        .await?;
    session.close().await?;
    Ok(first)
}

/// Creates an entry with a begin and a successful end.
async fn make(update: &Update, entry: Entry) -> Result<()> {
    let begun = update.begin(Intent::create(entry.clone())).await?;
    assert_eq!(begun.succeed(Some(entry)).await?, []);
    Ok(())
}

/// Records every kind of step, and mutations with every outcome.
async fn steps(session: &Session) -> Result<()> {
    let update = session.start_update(request(UpdateKind::Update)).await?;
    let plugin = |name: &str| Plugin {
        kind: "resource".to_owned(),
        name: name.to_owned(),
        version: "1".to_owned(),
    };
    for name in ["b", "a", "b"] {
        update.record_plugin(plugin(name)).await?;
    }
    let first = session
        .state()
        .entries()
        .next()
        .map(|entry| Entry::clone(entry))
        .expect("the import has entries");
    update.same(first).await?;
    make(&update, entry("root")?).await?;
    make(&update, depending("middle", "root")?).await?;
    make(&update, depending("leaf", "middle")?).await?;
    changed(&update).await?;
    replaced(session, &update).await?;
    removed(&update).await?;
    // The object of `middle` is missing: its child `leaf` loses the references to `middle` and becomes a child of
    // `root`.
    update.refresh(EntryKey::live("middle".parse()?), None).await?;
    let drifted = Entry {
        id: Some("drifted".to_owned()),
        ..depending("leaf", "root")?
    };
    update
        .refresh(EntryKey::live("leaf".parse()?), Some(drifted))
        .await?;
    let outputs = properties(r#"{"port":443}"#).expect("an object");
    update
        .outputs(EntryKey::live("leaf".parse()?), outputs, vec!["port".to_owned()])
        .await?;
    update
        .set_outputs(StackOutputs {
            values: [("port".to_owned(), Json::parse("443").expect("JSON"))].into(),
            sensitive: vec!["port".to_owned()],
        })
        .await?;
    broken_result(&update, "broken").await?;
    let moment = Timestamp::new("2026-01-01T00:00:00Z");
    update.log(&LogLine::new(moment, LogLevel::Info, "steps were made"));
    update.finish(UpdateResult::Failed).await?;
    Ok(())
}

/// Performs a partial update, a read and a failed create.
async fn changed(update: &Update) -> Result<()> {
    let before = Entry {
        inputs: properties(r#"{"size":1}"#),
        ..entry("changed")?
    };
    let after = Entry {
        inputs: properties(r#"{"size":2}"#),
        ..entry("changed")?
    };
    make(update, before.clone()).await?;
    let begun = update.begin(Intent::update(after.clone())).await?;
    let reasons = vec!["half of it".to_owned()];
    assert_eq!(begun.end(Outcome::Partial, Some(after), reasons).await?, []);
    let begun = update.begin(Intent::read(before.clone())).await?;
    assert_eq!(begun.succeed(Some(before)).await?, []);
    update.begin(Intent::create(entry("never")?)).await?.fail().await
}

/// Performs a replacement that creates first, a replacement that deletes first, and a delete whose tombstone is
/// removed.
async fn replaced(session: &Session, update: &Update) -> Result<()> {
    make(update, entry("first")?).await?;
    update.replace(EntryKey::live("first".parse()?)).await?;
    let begun = update.begin(Intent::create(entry("first")?).replacing()).await?;
    assert_eq!(begun.succeed(Some(entry("first")?)).await?, []);
    let address: Address = "first".parse()?;
    let deposed = session
        .state()
        .generations(&address)
        .find(|entry| !entry.is_live())
        .map(|entry| entry.key())
        .expect("the replaced entry is deposed");
    let begun = update.begin(Intent::delete(deposed)).await?;
    assert_eq!(begun.succeed(None).await?, []);
    for name in ["second", "third"] {
        make(update, entry(name)?).await?;
        let intent = Intent::delete(EntryKey::live(name.parse()?)).leaving_tombstone();
        assert_eq!(update.begin(intent).await?.succeed(None).await?, []);
    }
    make(update, entry("second")?).await?;
    update
        .remove_pending_replace(EntryKey::live("third".parse()?))
        .await
}

/// Performs a delete, a partial delete and a discard.
async fn removed(update: &Update) -> Result<()> {
    for name in ["gone", "stays", "discarded"] {
        make(update, entry(name)?).await?;
    }
    let begun = update
        .begin(Intent::delete(EntryKey::live("gone".parse()?)))
        .await?;
    assert_eq!(begun.succeed(None).await?, []);
    let begun = update
        .begin(Intent::delete(EntryKey::live("stays".parse()?)))
        .await?;
    let reasons = vec!["still in use".to_owned()];
    assert_eq!(begun.end(Outcome::Partial, None, reasons).await?, []);
    let begun = update
        .begin(Intent::discard(EntryKey::live("discarded".parse()?)))
        .await?;
    assert_eq!(begun.succeed(None).await?, []);
    Ok(())
}

/// Ends an operation with a result that depends on a missing resource, so that the operation stays pending with its
/// result.
async fn broken_result(update: &Update, name: &str) -> Result<()> {
    let begun = update.begin(Intent::create(entry(name)?)).await?;
    let broken = begun.succeed(Some(depending(name, "nowhere")?)).await?;
    assert!(!broken.is_empty(), "the result refers to a missing resource");
    Ok(())
}

/// Writes one entry four times with large outputs, so that a checkpoint is due, and then once with small outputs, in
/// one update.
async fn bulk(session: &Session, round: u64) -> Result<()> {
    let update = session.start_update(request(UpdateKind::Update)).await?;
    let tags = (0..4).map(|number| format!("{LARGE}-{round}-{number}"));
    for tag in tags.chain([format!("small-again-{round}")]) {
        let intended = entry("bulk")?;
        let exists = session.state().entry(&intended.key()).is_some();
        let intent = if exists {
            Intent::update(intended)
        } else {
            Intent::create(intended)
        };
        let begun = update.begin(intent).await?;
        assert_eq!(begun.succeed(Some(made("bulk".parse()?, &tag)?)).await?, []);
    }
    update.finish(UpdateResult::Succeeded).await?;
    Ok(())
}

/// Stores a snapshot as a revision that isn't current. Returns the revision.
async fn detached(stack: &Stack, name: &str) -> Result<RevisionId> {
    let session = stack.lock("write").await?;
    let written = session.write(snapshot(name)?).await?;
    session.close().await?;
    Ok(written)
}

/// Deletes a revision from the history.
async fn forget(stack: &Stack, revision: &RevisionId) -> Result<()> {
    let session = stack.lock("delete").await?;
    session.delete(revision).await?;
    session.close().await
}

/// Drops a session within an update. The update has marked the state as unreliable and leaves two pending operations,
/// the second with inputs of `size` bytes.
async fn interrupted(stack: &Stack, size: usize) -> Result<()> {
    let session = stack.lock_within("interrupted", RELEASE_TIMEOUT).await?;
    let update = session.start_update(request(UpdateKind::Update)).await?;
    make(&update, entry("made-before")?).await?;
    update.invalidate().await?;
    drop(
        update
            .begin(Intent::delete(EntryKey::live("made-before".parse()?)))
            .await?,
    );
    let large = Entry {
        inputs: properties(&format!("{{\"fill\":\"{}\"}}", "x".repeat(size))),
        ..entry("interrupted")?
    };
    drop(update.begin(Intent::create(large)).await?);
    Ok(())
}

/// Resolves all pending operations: deletes and operations with a refused result as done, all others as not done. The
/// last resolution also marks the state as reliable.
async fn resolved(stack: &Stack) -> Result<()> {
    let session = stack.lock_within("resolve", RELEASE_TIMEOUT).await?;
    let pending: Vec<_> = session.state().pending().cloned().collect();
    assert!(pending.len() >= 3, "{pending:?}");
    for operation in pending {
        let resolution = match operation.result {
            Some(_) => Resolution::Done(Some(Arc::new(Entry {
                id: Some("found".to_owned()),
                ..entry(operation.target.address.as_str())?
            }))),
            None if operation.op == Op::Delete => Resolution::Done(None),
            None => Resolution::NotDone,
        };
        session
            .resolve(request(UpdateKind::Edit), operation.id, resolution)
            .await?;
    }
    session.close().await
}

/// Removes an entry, replaces and renames another, and appends a third, in one edit.
async fn edit(session: &Session) -> Result<()> {
    let state = session.state();
    let mut keys = state.entries().map(|entry| entry.key());
    let (removed, target) = keys.next().zip(keys.next()).expect("the state has two entries");
    let put = Entry {
        protect: true,
        ..entry("renamed")?
    };
    let changes = vec![
        EditChange::Remove(removed),
        EditChange::Put {
            target,
            entry: Arc::new(put),
        },
        EditChange::Append(Arc::new(depending("appended", "renamed")?)),
    ];
    session.edit(request(UpdateKind::Edit), &state, changes).await?;
    Ok(())
}

/// Moves the entry `renamed` and its dependents to another stack.
async fn relocate(source: &Stack, destination: &Stack) -> Result<()> {
    let lock = async |stack: &Stack| stack.lock("move").await;
    let (source, destination) = Stacks::lock_both(source, destination, lock).await?;
    let moved = MoveRequest {
        addresses: vec!["renamed".parse()?],
        with_dependents: true,
        ..MoveRequest::default()
    };
    let plan = MovePlan::new(&source.state(), &destination.state(), &moved).expect("the move is valid");
    source
        .move_to(&destination, request(UpdateKind::Edit), &plan)
        .await?;
    source.close().await?;
    destination.close().await
}
