//! Uploads in parts with injected faults: in each part, in the completion, and in the abort.

use super::{FaultyStore, failed};
use async_trait::async_trait;
use futures_util::FutureExt;
use object_store::path::Path;
use object_store::{Error, MultipartUpload, PutPayload, PutResult, Result, UploadPart};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// The parts that the store received, by number.
type Parts = Arc<Mutex<BTreeSet<usize>>>;

/// An upload that passes requests on to the wrapped store.
#[derive(Debug)]
pub(super) struct FaultyUpload {
    store: FaultyStore,
    path: Path,
    /// `None` after the upload was completed or aborted: the store then refuses further requests for it.
    inner: Arc<tokio::sync::Mutex<Option<Box<dyn MultipartUpload>>>>,
    /// Number of parts requested so far. A completion fails unless the store received all of them.
    asked: usize,
    there: Parts,
}

impl FaultyUpload {
    pub(super) fn new(store: FaultyStore, path: Path, inner: Box<dyn MultipartUpload>) -> Self {
        Self {
            store,
            path,
            inner: Arc::new(tokio::sync::Mutex::new(Some(inner))),
            asked: 0,
            there: Parts::default(),
        }
    }
}

fn unknown(path: &Path) -> Error {
    Error::NotFound {
        path: path.to_string(),
        source: "404 NoSuchUpload".into(),
    }
}

#[async_trait]
impl MultipartUpload for FaultyUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let (store, path, there) = (self.store.clone(), self.path.clone(), Arc::clone(&self.there));
        let number = self.asked;
        self.asked += 1;
        // The wrapped upload numbers the parts in the order of its `put_part` calls, so it is called here: the futures
        // of several parts may run in any order.
        let part = match self.inner.try_lock() {
            Ok(mut inner) => inner.as_mut().map(|inner| inner.put_part(data)),
            Err(_) => None,
        };
        let part = part.unwrap_or_else(|| {
            let unknown = unknown(&path);
            async { Err(unknown) }.boxed()
        });
        let landing = async move {
            part.await?;
            there
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(number);
            Ok(())
        };
        // `strike` may call `run` twice. The second call does nothing, because a part that is sent twice has the same
        // effect as one that is sent once.
        let landing = Mutex::new(Some(landing.boxed()));
        async move {
            let fault = store.next(|counts| counts.parts += 1).await;
            let run = || {
                let landing = landing.lock().unwrap_or_else(PoisonError::into_inner).take();
                landing.unwrap_or_else(|| async { Ok(()) }.boxed())
            };
            store.strike(fault, &path, run).await
        }
        .boxed()
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let fault = self.store.next(|counts| counts.completions += 1).await;
        let run = || {
            let (inner, path) = (Arc::clone(&self.inner), self.path.clone());
            let (there, asked) = (Arc::clone(&self.there), self.asked);
            async move {
                if there.lock().unwrap_or_else(PoisonError::into_inner).len() != asked {
                    return Err(failed("400 InvalidPart"));
                }
                match inner.lock().await.take() {
                    Some(mut inner) => inner.complete().await,
                    None => Err(unknown(&path)),
                }
            }
            .boxed()
        };
        self.store.strike(fault, &self.path, run).await
    }

    async fn abort(&mut self) -> Result<()> {
        let fault = self.store.next(|counts| counts.aborts += 1).await;
        let run = || {
            let (inner, path) = (Arc::clone(&self.inner), self.path.clone());
            async move {
                match inner.lock().await.take() {
                    Some(mut inner) => inner.abort().await,
                    None => Err(unknown(&path)),
                }
            }
            .boxed()
        };
        self.store.strike(fault, &self.path, run).await
    }
}
