//! Other clients write to a stack while it is salvaged: nothing that they acknowledged is lost.

use super::watched_store::WatchedStore;
use super::*;
use tokio::sync::Mutex;

/// A store in which another client works right before the first write whose key contains a text.
fn raced_store(
    objects: &Arc<InMemory>,
    before: &'static str,
    work: impl Future<Output = ()> + Send + 'static,
) -> Arc<dyn ObjectStore> {
    let work = Arc::new(Mutex::new(Some(Box::pin(work))));
    Arc::new(WatchedStore::new(objects, move |path| {
        let work = Arc::clone(&work);
        Box::pin(async move {
            if path.as_ref().contains(before)
                && let Some(work) = work.lock().await.take()
            {
                work.await;
            }
            Ok(())
        })
    }))
}

impl Original {
    /// A stack that works, although one of its objects is damaged.
    async fn damaged(&self) -> Client {
        for key in self.objects.keys().filter(|key| !key.ends_with(".json")) {
            let client = self.copy().await;
            let path = Path::parse(key).unwrap();
            let damaged = Bytes::from("damaged");
            client.objects.put(&path, damaged.into()).await.unwrap();
            let survey = client.salvage().survey().await.unwrap();
            if client.view().await.is_ok() && !survey.is_intact() {
                return client;
            }
        }
        panic!("the stack needs each of its objects")
    }
}

/// Salvages a damaged stack. Another client deploys right before the first write whose key contains this text.
async fn raced(client: &mut Client, before: &'static str) -> state_core::Result<SalvageReport> {
    let stack = client.stacks().get(&shop()).await.unwrap().unwrap();
    client.store = raced_store(&client.objects, before, async move {
        deploy(&stack, &["raced"]).await;
    });
    let salvaged = client.salvage().salvage(None).await;
    client.store = Arc::clone(&client.objects) as Arc<dyn ObjectStore>;
    salvaged
}

async fn require_raced(client: &Client, case: &str) {
    let view = client.view().await.unwrap();
    let snapshot = view.get(view.state.current().unwrap()).await.unwrap();
    let mut addresses = snapshot.entries.iter().map(|entry| entry.address.to_string());
    assert!(addresses.any(|address| address.contains("raced")), "{case}");
}

#[tokio::test]
async fn revision_written_before_a_salvage_has_the_lock_is_kept() {
    for is_sealed in [false, true] {
        let original = Original::new(is_sealed).await;
        let mut client = original.damaged().await;
        let salvaged = raced(&mut client, "lease.json").await;
        assert!(is_salvaged(&salvaged), "{salvaged:?}");
        require_raced(&client, "before the lock").await;
        assert!(client.works().await);
    }
}

#[tokio::test]
async fn salvage_that_lost_its_lock_changes_nothing() {
    let original = Original::new(false).await;
    let mut client = original.damaged().await;
    // The lock of the salvage expires before its first copy, and another client takes it.
    let lease = Path::parse(format!("stacks/{}/lease.json", original.lineage)).unwrap();
    let objects = Arc::clone(&client.objects);
    let stack = client.stacks().get(&shop()).await.unwrap().unwrap();
    let before = contents(&client.objects).await;
    client.store = raced_store(&client.objects, "damaged/", async move {
        objects.delete(&lease).await.unwrap();
        deploy(&stack, &["raced"]).await;
    });
    let salvaged = client.salvage().salvage(None).await;
    client.store = Arc::clone(&client.objects) as Arc<dyn ObjectStore>;
    let obstacle = salvaged.unwrap().stacks[0].obstacle.clone().unwrap();
    assert!(obstacle.contains("another process changed it"), "{obstacle}");
    require_raced(&client, "after the lock was lost").await;
    let after = contents(&client.objects).await;
    for (key, bytes) in &before {
        // The other client replaces its head, and the compaction of the journal by a longer one.
        let is_document = ["lease.json", "head.json", "clock.json"]
            .iter()
            .any(|name| key.ends_with(name));
        let is_compaction = key
            .split_once("/journal/")
            .is_some_and(|(_, file)| file.contains('-'));
        let is_same = after.get(key) == Some(bytes);
        assert!(is_document || is_compaction || is_same, "{key}");
    }
    let salvaged = client.salvage().salvage(None).await;
    assert!(is_salvaged(&salvaged), "{salvaged:?}");
    require_raced(&client, "after the salvage").await;
    assert!(client.works().await);
}

#[tokio::test]
async fn lock_of_a_salvage_is_renewed() {
    let original = Original::new(false).await;
    let client = original.damaged().await;
    let salvaged = client.salvage().salvage(None).await;
    assert!(is_salvaged(&salvaged), "{salvaged:?}");
    let lease = Path::parse(format!("stacks/{}/lease.json", original.lineage)).unwrap();
    let lease = client.objects.get(&lease).await.unwrap().bytes().await.unwrap();
    let lease: serde_json::Value = serde_json::from_slice(&lease).unwrap();
    assert!(
        lease["body"]["renewals"].as_u64().unwrap_or_default() >= 2,
        "{lease}"
    );
    assert_eq!(lease["body"]["released"], true, "{lease}");
}
