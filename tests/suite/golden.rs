//! Opens the stores in `tests/golden/`, which earlier versions of the crates wrote. A store of the current format must
//! stay readable and writable. A store of an earlier format must be refused with an error that names its format number.

#![expect(clippy::unwrap_used, reason = "a test that can't set up its case fails")]

use state_core::head::SealingPolicy;
use state_core::testkit::clock::{ManualClock, SeededEntropy};
use state_core::{Address, Dependency, Entry, Error, Json, Properties, StackName, UpdateKind, UpdateResult};
use state_formats::{Formats, ReadOptions, StateFormat, Terraform};
use state_manager::{Actor, Environment, Intent, Stack, Stacks, UpdateRequest};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const SHOP: &str = "fixtures/shop.tfstate";

/// Returns the path of a file in `tests/`.
fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn environment(seed: u64) -> Environment {
    Environment {
        clock: Arc::new(ManualClock::default()),
        entropy: Arc::new(SeededEntropy::new(seed)),
        actor: Actor {
            who: "ana".into(),
            host: "ci".into(),
            pid: 42,
        },
        writer_version: "0.1.0".into(),
    }
}

fn name() -> StackName {
    "shop/production".parse().unwrap()
}

#[tokio::test]
async fn store_of_format_2_stays_readable_and_writable() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    copy(&here("golden/format-2/plain"), &store);
    let url = format!("file://{}", store.display());
    let stack = Stacks::open(&url, environment(3))
        .unwrap()
        .get(&name())
        .await
        .unwrap()
        .unwrap();
    let report = stack.verify(true).await.unwrap();
    assert!(report.report.is_valid(), "{:?}", report.report.violations);
    assert!(report.snapshots >= 2, "expected an import and a checkpoint");
    let revisions = stack.list().await.unwrap();
    let expected = fs::read_to_string(here("golden/format-2/plain.revisions")).unwrap();
    assert_eq!(
        revisions.iter().map(ToString::to_string).collect::<Vec<_>>(),
        expected.lines().collect::<Vec<_>>()
    );
    let imported = stack.get(&revisions[0]).await.unwrap();
    let shop = fs::read(here(SHOP)).unwrap();
    assert_eq!(Formats::standard().export(&imported, &Terraform).unwrap(), shop);
    assert_eq!(stack.tip().await.unwrap().state.pending().count(), 1);

    let session = stack.lock("continue").await.unwrap();
    let update = session
        .start_update(UpdateRequest::new(UpdateKind::Update))
        .await
        .unwrap();
    let entry = Entry::leaf("one-more".parse().unwrap(), "thing");
    update
        .begin(Intent::create(entry.clone()))
        .await
        .unwrap()
        .succeed(Some(entry))
        .await
        .unwrap();
    update.finish(UpdateResult::Succeeded).await.unwrap();
    session.close().await.unwrap();
    assert!(stack.verify(true).await.unwrap().report.is_valid());
}

#[tokio::test]
async fn store_of_format_1_is_refused_with_its_number() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    copy(&here("golden/format-1"), &store);
    let url = format!("file://{}", store.display());
    let refused = Stacks::open(&url, environment(3)).unwrap_err();
    assert!(
        matches!(
            refused,
            Error::Format {
                found: 1,
                supported: 2,
                ..
            }
        ),
        "{refused}"
    );
}

/// Writes a store with the content of the golden store. `STATE_GOLDEN=write cargo test -p state-tests golden` replaces
/// the golden store by this store. Replace the golden store only when the format changes.
#[tokio::test]
async fn golden_store_can_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let url = format!("file://{}", store.display());
    let stack = Stacks::create(&url, environment(2))
        .unwrap()
        .new_stack_with(&name(), SealingPolicy::Plaintext)
        .await
        .unwrap();
    import(&stack).await;
    work(&stack).await;
    let revisions: Vec<String> = stack
        .list()
        .await
        .unwrap()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(revisions.len(), 3);
    if std::env::var_os("STATE_GOLDEN").is_some_and(|value| value == "write") {
        copy(&store, &here("golden/format-2/plain"));
        fs::write(
            here("golden/format-2/plain.revisions"),
            revisions.join("\n") + "\n",
        )
        .unwrap();
    }
}

async fn import(stack: &Stack) {
    let shop = fs::read(here(SHOP)).unwrap();
    let environment = environment(1);
    let options = ReadOptions::new(&*environment.clock);
    let imported = Terraform.read(shop.into(), &options).unwrap();
    let foreign = imported
        .foreign
        .map(|foreign| (foreign.system.to_string(), foreign.serial));
    let session = stack.lock("import").await.unwrap();
    session
        .import(UpdateRequest::new(UpdateKind::Import), imported.snapshot, foreign)
        .await
        .unwrap();
    session.close().await.unwrap();
}

/// Performs an update that is large enough for a checkpoint, and one that leaves an operation pending.
async fn work(stack: &Stack) {
    let session = stack.lock("deploy").await.unwrap();
    let update = session
        .start_update(UpdateRequest::new(UpdateKind::Update))
        .await
        .unwrap();
    let mut previous: Option<Address> = None;
    for round in 0..14 {
        let mut entry = Entry::leaf(format!("heavy[{round}]").parse().unwrap(), "thing");
        entry.depends_on = previous.iter().cloned().map(Dependency::Entry).collect();
        entry.outputs =
            Properties::new(Json::parse(&format!(r#"{{"data":"{}"}}"#, "z".repeat(60_000))).unwrap());
        update
            .begin(Intent::create(entry.clone()))
            .await
            .unwrap()
            .succeed(Some(entry.clone()))
            .await
            .map(|refused| assert_eq!(refused, []))
            .unwrap();
        previous = Some(entry.address);
    }
    let first = update.finish(UpdateResult::Succeeded).await.unwrap();
    let update = session
        .start_update(UpdateRequest::new(UpdateKind::Update))
        .await
        .unwrap();
    drop(
        update
            .begin(Intent::create(Entry::leaf("pending".parse().unwrap(), "thing")))
            .await
            .unwrap(),
    );
    update.finish(UpdateResult::Failed).await.unwrap();
    assert!(first.serial().get() == 2);
    session.close().await.unwrap();
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}
