//! Large objects, in parts. No store makes such an upload on a condition: it is for names that say what is in them.
//!
//! | what failed | what is there | so |
//! |---|---|---|
//! | the beginning, or a part | nothing that anybody can see, now or later | what was sent is dropped; from the beginning again |
//! | the request that makes an object of the parts | these bytes | done |
//! | the same | nothing | it may come late: nothing is dropped; another upload of the same bytes |
//! | the same | other bytes | a conflict: they stay |
//! | the same | no answer, until patience ends | nobody knows: `Indeterminate` |

use super::Objects;
use crate::error::Trouble;
use bytes::Bytes;
use futures_util::future::try_join_all;
use object_store::{MultipartUpload, ObjectStoreExt, PutPayload};
use state_backend_generic::protocol::{MAX_OBJECT, SettledStore};
use state_core::{Error, Result};

/// Where an upload failed.
enum Failed {
    /// Before anything could be seen.
    Unseen(Trouble),
    /// While the parts became an object: nobody knows whether they did, or will.
    Completing(Trouble),
}

impl Objects {
    /// Uploads an object in parts, unless it is there with these bytes. Who comes second writes the same.
    ///
    /// # Errors
    /// `Conflict` when it is there with other bytes; `Indeterminate` when nobody knows; everything else had no effect.
    pub(super) async fn upload(&self, store: &SettledStore, key: &str, bytes: &Bytes) -> Result<()> {
        let there = store.read(key, MAX_OBJECT).await?;
        if self.is_done(key, bytes, there.map(|found| found.bytes))? {
            return Ok(());
        }
        let mut backoff = store.backoff();
        let mut certain = true;
        loop {
            let trouble = match self.upload_once(key, bytes).await {
                Ok(()) => return Ok(()),
                Err(Failed::Unseen(trouble)) => {
                    store.unless_refused(self.failed(&trouble, key), key, certain)?;
                    trouble
                }
                Err(Failed::Completing(trouble)) => {
                    store.unless_refused(self.failed(&trouble, key), key, certain)?;
                    certain = false;
                    let there = store.read_back(key, bytes, &mut backoff).await;
                    let there = there.map_err(|_| trouble.indeterminate(&self.shown(key)))?;
                    if self.is_done(key, bytes, there.map(|found| found.bytes))? {
                        return Ok(());
                    }
                    trouble
                }
            };
            if !backoff.wait().await {
                return Err(if certain {
                    trouble.not_applied(&self.shown(key))
                } else {
                    trouble.indeterminate(&self.shown(key))
                });
            }
        }
    }

    /// Whether these bytes are there. Others are never replaced.
    fn is_done(&self, key: &str, bytes: &Bytes, there: Option<Bytes>) -> Result<bool> {
        match there {
            None => Ok(false),
            Some(there) if there == *bytes => Ok(true),
            Some(_) => Err(Error::conflict(self.shown(key), "it exists with other bytes")),
        }
    }

    async fn upload_once(&self, key: &str, bytes: &Bytes) -> Result<(), Failed> {
        let path = self.path(key);
        let begun = self.ask(0, self.store.put_multipart(&path)).await;
        let mut upload = begun.map_err(Failed::Unseen)?;
        if let Err(trouble) = self.send_parts(&mut *upload, bytes).await {
            // What was sent costs money until it is dropped. Nobody can see it, and nothing makes an object of it.
            drop(self.ask(0, upload.abort()).await);
            return Err(Failed::Unseen(trouble));
        }
        let completed = self.ask(0, upload.complete()).await;
        completed.map(drop).map_err(Failed::Completing)
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
        Ok(())
    }
}
