//! A salvage of an object store that is killed at each of its writes: nothing is lost, no older state is shown as current, and the
//! next salvage completes it.

use super::watched_store::WatchedStore;
use super::*;
use state_backend_object_store::object_store::Error;
use state_manager::RevisionKind;
use std::sync::atomic::AtomicUsize;

/// A store that refuses all writes after a number of them, as if the client was killed.
fn killed_store(objects: &Arc<InMemory>, writes: usize) -> Arc<dyn ObjectStore> {
    let writes_left = AtomicUsize::new(writes);
    Arc::new(WatchedStore::new(objects, move |path| {
        let counted = |left: usize| -> Option<usize> { left.checked_sub(1) };
        let is_alive = writes_left
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, counted)
            .is_ok();
        Box::pin(async move {
            match is_alive {
                true => Ok(()),
                false => Err(Error::PermissionDenied {
                    path: path.to_string(),
                    source: "killed".into(),
                }),
            }
        })
    }))
}

/// Kills a salvage of this damage at each write, and completes it. Returns the number of writes.
async fn kills(original: &Original, key: &str) -> usize {
    for writes in 0..1_000 {
        let case = format!("{writes} writes, {key}");
        let mut client = original.copy().await;
        let path = Path::parse(key).unwrap();
        let zeros = Bytes::from(vec![0; original.objects[key].len()]);
        client.objects.put(&path, zeros.into()).await.unwrap();
        let before = contents(&client.objects).await;
        let (surviving, _) = original.survivors(&client, &case).await;
        assert!(!surviving.is_empty() && surviving.len() < 6, "{case}");
        client.store = killed_store(&client.objects, writes);
        let killed = client.salvage().salvage(None).await;
        client.store = Arc::clone(&client.objects) as Arc<dyn ObjectStore>;
        if is_salvaged(&killed) && client.works().await {
            return writes;
        }
        original.require_honest(&client, &case).await;
        // The lease of the killed process expires.
        let lease = Path::parse(format!("stacks/{}/lease.json", original.lineage)).unwrap();
        client.objects.delete(&lease).await.unwrap();
        let salvaged = client.salvage().salvage(None).await;
        assert!(is_salvaged(&salvaged), "{case}: {salvaged:?}");
        original.require_evidence(&client, &before, &case).await;
        for id in &surviving {
            let read = client.export(original.lineage, id).await;
            assert_eq!(
                read.as_ref().ok(),
                Some(&original.exports[id]),
                "{case}: {id}: {read:?}"
            );
        }
        // A salvage that was killed after its last replacement leaves an intact stack, which this client must accept: it
        // knows a later revision.
        if client.view().await.is_ok_and(|view| view.regression.is_some()) {
            client.stacks().trust(&shop(), None).await.unwrap();
        }
        assert!(client.works().await, "{case}: {salvaged:?}");
    }
    panic!("a salvage has an end")
}

impl Original {
    /// Requires that no client sees an older state as the current one, unless a revision records the salvage.
    async fn require_honest(&self, client: &Client, case: &str) {
        let knowing = Client {
            known: Arc::clone(&client.known),
            ..self.copy().await
        };
        let unknowing = self.copy().await;
        for mut reader in [
            knowing,
            Client {
                known: Arc::default(),
                ..unknowing
            },
        ] {
            reader.store = Arc::clone(&client.store);
            let Ok(view) = reader.view().await else { continue };
            let history = view.history().await.unwrap();
            let is_marked = match &history[0].kind {
                RevisionKind::Update(update) => update.message.starts_with("salvaged"),
                RevisionKind::Detached => false,
            };
            let is_honest = view.state.current() == Some(&self.current) || is_marked;
            assert!(
                is_honest || view.regression.is_some(),
                "{case}: {:?}",
                view.state.current()
            );
        }
    }
}

#[tokio::test]
async fn killed_salvage_of_objects_is_completed_by_the_next() {
    for is_sealed in [false, true] {
        let mut original = Original::new(is_sealed).await;
        let snapshot = original
            .objects
            .keys()
            .find(|key| key.contains("snapshots/00000000000000000018-"));
        kills(&original, &snapshot.unwrap().clone()).await;
        original.objects.retain(|key, _| !is_compaction(key));
        let slot = original
            .objects
            .keys()
            .find(|key| key.ends_with("journal/00000000000000000012"));
        let writes = kills(&original, &slot.unwrap().clone()).await;
        assert!(
            writes > original.objects.len(),
            "each object of the stack is copied"
        );
    }
}
