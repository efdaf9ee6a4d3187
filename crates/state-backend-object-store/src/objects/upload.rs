//! Large objects, in parts. No store makes such an upload on a condition: it is for names that say what is in them.

use super::Objects;
use crate::failure::Trouble;
use bytes::Bytes;
use futures_util::future::try_join_all;
use object_store::path::Path;
use object_store::{MultipartUpload, ObjectStoreExt, PutPayload};
use state_core::{Error, Result};

impl Objects {
    /// Uploads an object in parts, unless it is there with these bytes. A part is sent again if need be, and so is the
    /// whole: who comes second writes the same.
    ///
    /// # Errors
    /// `Conflict` when it is there with other bytes.
    pub(crate) async fn upload(&self, path: &Path, bytes: &Bytes) -> Result<()> {
        let most = crate::layout::MAX_OBJECT;
        if let Some(found) = self.read(path, most).await? {
            if found.bytes == *bytes {
                return Ok(());
            }
            return Err(Error::conflict(self.shown(path), "it exists with other bytes"));
        }
        let mut patience = self.patience();
        loop {
            let Err(trouble) = self.upload_once(path, bytes).await else {
                return Ok(());
            };
            if let Some(refusal) = trouble.refusal(&self.shown(path)) {
                return Err(refusal);
            }
            let landed = self.read(path, most).await.ok().flatten();
            if landed.is_some_and(|found| found.bytes == *bytes) {
                return Ok(());
            }
            if !patience.again().await {
                return Err(trouble.indeterminate(&self.shown(path)));
            }
        }
    }

    async fn upload_once(&self, path: &Path, bytes: &Bytes) -> Result<(), Trouble> {
        let mut upload = self.ask(0, self.store.put_multipart(path)).await?;
        let sent = self.send_parts(&mut *upload, bytes).await;
        if sent.is_err() {
            // What was sent costs money until it is dropped. Nobody can see it.
            drop(self.ask(0, upload.abort()).await);
        }
        sent
    }

    async fn send_parts(&self, upload: &mut dyn MultipartUpload, bytes: &Bytes) -> Result<(), Trouble> {
        let size = self.options.part.max(1);
        let parts: Vec<Bytes> = (0..bytes.len())
            .step_by(size)
            .map(|at| bytes.slice(at..bytes.len().min(at + size)))
            .collect();
        for group in parts.chunks(self.options.concurrency.max(1)) {
            let requests = group.iter().map(|part| {
                let request = upload.put_part(PutPayload::from_bytes(part.clone()));
                self.ask((part.len() * group.len()) as u64, request)
            });
            try_join_all(requests.collect::<Vec<_>>()).await?;
        }
        self.ask(0, upload.complete()).await.map(drop)
    }
}
