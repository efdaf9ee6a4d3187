//! Stores in memory, of files or of objects. Each can be copied, and opened with an attacker between the backend and
//! the bytes.

use bytes::Bytes;
use state_backend_fs::testkit::{HostileFs, SimulatedFs};
use state_backend_object_store::object_store::memory::InMemory;
use state_backend_object_store::object_store::path::Path;
use state_backend_object_store::object_store::{ObjectStore, ObjectStoreExt};
use state_backend_object_store::testkit::HostileStore;
use state_backend_object_store::{ObjectBackend, Options};
use state_core::backend::Opening;
use state_core::testkit::hostile::{Action, Attacker, Intervention, StoreImage};
use state_core::{Backend, Error, Result};
use std::sync::Arc;
use std::time::Duration;

const ROOT: &str = "/store";

/// Timeout of locks and requests. It is short, because no lock or object of these tests becomes available by waiting.
const PATIENCE: Duration = Duration::from_millis(20);

/// The kind of backend of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Files,
    Objects,
}

/// The bytes of a store, to which no client is connected.
#[derive(Clone)]
pub(crate) enum Disk {
    Files(SimulatedFs),
    Objects(Arc<InMemory>),
}

impl Disk {
    pub(crate) fn new(kind: Kind) -> Self {
        match kind {
            Kind::Files => Self::Files(SimulatedFs::new()),
            Kind::Objects => Self::Objects(Arc::default()),
        }
    }

    pub(crate) fn copy(&self) -> Self {
        match self {
            Self::Files(machine) => Self::Files(machine.copy()),
            Self::Objects(store) => Self::Objects(Arc::new(store.fork())),
        }
    }

    /// Opens the store with an attacker between the backend and the bytes. The attacker has recorded the present
    /// version of each object.
    pub(crate) async fn under(&self, attacker: &Attacker) -> Result<Arc<dyn Backend>> {
        let failed = |source: Box<dyn std::error::Error + Send + Sync>| Error::Unavailable {
            object: ROOT.to_owned(),
            source,
        };
        match self {
            Self::Files(machine) => {
                let hostile = HostileFs::simulated(machine, ROOT, attacker.clone());
                let store = hostile.create()?;
                hostile.record_all().map_err(|error| failed(error.into()))?;
                Ok(Arc::new(store.with_lock_timeout(PATIENCE)))
            }
            Self::Objects(store) => {
                let inner: Arc<dyn ObjectStore> = Arc::<InMemory>::clone(store);
                let hostile = HostileStore::new(inner, attacker.clone());
                hostile.record_all().await.map_err(|error| failed(error.into()))?;
                let hostile = Arc::new(hostile);
                Ok(Arc::new(ObjectBackend::new(hostile, options(), Opening::Create)))
            }
        }
    }

    /// Opens the existing store without an attacker. A missing store isn't created.
    pub(crate) fn open(&self) -> Result<Arc<dyn Backend>> {
        match self {
            Self::Files(machine) => Ok(Arc::new(machine.open(ROOT)?.with_lock_timeout(PATIENCE))),
            Self::Objects(store) => {
                let inner: Arc<dyn ObjectStore> = Arc::<InMemory>::clone(store);
                Ok(Arc::new(ObjectBackend::new(inner, options(), Opening::Existing)))
            }
        }
    }

    /// Replaces the content of an object while no client uses the store; `None` deletes the object.
    pub(crate) async fn put(&self, object: &str, content: Option<Bytes>) {
        match self {
            Self::Files(machine) => {
                let attacker = Attacker::default();
                let action = content.map_or(Action::Delete, Action::Replace);
                attacker.plan([Intervention::new(0, object, action)]);
                // The edit is made before the first request of the backend, which may fail because of it.
                drop(HostileFs::simulated(machine, ROOT, attacker.clone()).open());
                assert_eq!(attacker.edits_made(), 1, "{object}");
            }
            Self::Objects(store) => {
                let path = Path::from(object);
                let changed = match content {
                    Some(bytes) => store.put(&path, bytes.into()).await.map(drop),
                    None => store.delete(&path).await,
                };
                changed.expect("a store in memory accepts changes");
            }
        }
    }

    /// The present objects of the store.
    pub(crate) async fn image(&self) -> Result<StoreImage> {
        let attacker = Attacker::default();
        self.under(&attacker).await?;
        let objects = attacker.objects().into_iter();
        Ok(StoreImage::new(objects.filter_map(|object| {
            let bytes = attacker.versions(&object).pop().flatten()?;
            Some((object, bytes))
        })))
    }
}

fn options() -> Options {
    let mut options = Options::new("s3://bucket", Path::default());
    options.proof = None;
    options.retry_timeout = PATIENCE;
    options
}
