//! A small change is recorded as such, and the export stays exact.

#![expect(clippy::unwrap_used, reason = "a test that can't continue should panic")]

use state_core::backend::{Backend, ObjectKind};
use state_core::head::SealingPolicy;
use state_core::{MemoryBackend, UpdateKind};
use state_formats::{Formats, Imported, ReadOptions, Terraform};
use state_import::{ImportError, ImportOptions, ImportOutcome, RecordMethod, import};
use state_manager::{Actor, Environment, Stack, Stacks, UpdateRequest};
use std::path::Path;
use std::sync::Arc;

struct Fixture {
    backend: Arc<MemoryBackend>,
    environment: Environment,
    stack: Stack,
}

impl Fixture {
    async fn new() -> Self {
        let backend = Arc::new(MemoryBackend::default());
        let environment = Environment::system(Actor::default());
        let shared = Arc::clone(&backend) as Arc<dyn Backend>;
        let stacks = Stacks::new(shared, environment.clone());
        let name = "shop".parse().unwrap();
        let stack = stacks.new_stack_with(&name, SealingPolicy::Plaintext).await;
        Self {
            backend,
            environment,
            stack: stack.unwrap(),
        }
    }

    fn read(&self, text: &str) -> Imported {
        let options = ReadOptions::new(&*self.environment.clock);
        Formats::standard().import(text, &Terraform, &options).unwrap()
    }

    async fn import(&self, text: &str) -> Result<ImportOutcome, ImportError> {
        let session = self.stack.lock("import").await?;
        let options = ImportOptions {
            method: RecordMethod::Changes,
            ..ImportOptions::new(UpdateRequest::new(UpdateKind::Import))
        };
        let mut imported = self.read(text);
        let done = import(&session, &Formats::standard(), &mut imported, options, |_, _| ()).await;
        session.close().await?;
        done.map(|(outcome, ())| outcome)
    }

    async fn snapshots(&self) -> usize {
        let listed = self
            .backend
            .list(self.stack.lineage(), ObjectKind::Snapshot)
            .await;
        listed.unwrap().len()
    }

    async fn exported(&self) -> String {
        let snapshot = self.stack.current().await.unwrap();
        let bytes = Formats::standard().export(&snapshot, &Terraform).unwrap();
        String::from_utf8(bytes).unwrap()
    }
}

fn shop() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/shop.tfstate");
    std::fs::read_to_string(path).unwrap()
}

/// The state with another serial, in which each occurrence of `from` is `to`.
fn changed(serial: u64, from: &str, to: &str) -> String {
    let text = shop();
    let start = text.find("\"serial\": ").unwrap();
    let end = start + text[start..].find(',').unwrap();
    let text = format!("{}\"serial\": {serial}{}", &text[..start], &text[end..]);
    text.replace(from, to)
}

fn serial() -> u64 {
    let json: serde_json::Value = serde_json::from_str(&shop()).unwrap();
    json["serial"].as_u64().unwrap()
}

#[tokio::test]
async fn change_of_values_stores_no_snapshot() {
    let fixture = Fixture::new().await;
    fixture.import(&shop()).await.unwrap();
    let before = fixture.snapshots().await;
    for (by, to) in [(1, "wrong horse"), (2, "tame horse"), (3, "correct horse")] {
        let text = changed(serial() + by, "correct horse", to);
        let outcome = fixture.import(&text).await.unwrap();
        assert!(matches!(outcome, ImportOutcome::Recorded { .. }), "{outcome:?}");
        assert_eq!(fixture.exported().await, text);
    }
    let report = fixture.stack.verify(true).await.unwrap();
    assert!(report.report.violations.is_empty(), "{report:?}");
    assert_eq!(fixture.snapshots().await, before);
}

#[tokio::test]
async fn skipped_serial_stores_a_snapshot_with_it() {
    let fixture = Fixture::new().await;
    fixture.import(&shop()).await.unwrap();
    let before = fixture.snapshots().await;
    let text = changed(serial() + 5, "correct horse", "wrong horse");
    fixture.import(&text).await.unwrap();
    assert_eq!(fixture.exported().await, text);
    assert!(fixture.snapshots().await > before);
}

#[tokio::test]
async fn same_state_is_unchanged_and_older_is_refused() {
    let fixture = Fixture::new().await;
    fixture.import(&shop()).await.unwrap();
    let newer = changed(serial() + 1, "correct horse", "wrong horse");
    fixture.import(&newer).await.unwrap();
    let again = fixture.import(&newer).await.unwrap();
    assert!(matches!(again, ImportOutcome::Unchanged(Some(_))), "{again:?}");
    let older = fixture.import(&shop()).await;
    assert!(matches!(older, Err(ImportError::Refused(_))), "{older:?}");
    assert_eq!(fixture.exported().await, newer);
}
