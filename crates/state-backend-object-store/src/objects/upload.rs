//! Uploads of large objects in parts. They can't be conditional, so they are only for names that contain a digest.
//!
//! | failed request | state of the object | reaction |
//! |---|---|---|
//! | the start, or a part | not visible, now or later | abort the upload and start again |
//! | the completion | it has these bytes | done |
//! | the completion | missing | it may appear later: don't abort; upload the same bytes again |
//! | the completion | it has other bytes | report a conflict and leave the object as it is |
//! | the completion | no answer within the retry timeout | report `Indeterminate` |

use super::Objects;
use crate::error::RequestFailure;
use bytes::Bytes;
use futures_util::future::try_join_all;
use object_store::{MultipartUpload, ObjectStoreExt, PutPayload};
use state_backend_generic::protocol::{MAX_OBJECT, SettledStore};
use state_core::{Error, Result};

/// The phase in which an upload failed.
enum UploadFailure {
    /// Before the completion request, so the object can't appear.
    BeforeCompletion(RequestFailure),
    /// In the completion request: the object may exist already, or appear later.
    Completing(RequestFailure),
}

impl Objects {
    /// Uploads an object in parts, unless it exists with these bytes. Concurrent uploads write the same bytes.
    ///
    /// # Errors
    /// `Conflict` if it exists with other bytes; `Indeterminate` if the outcome is unknown. After any other error
    /// the object was not written.
    pub(super) async fn upload(&self, store: &SettledStore, key: &str, bytes: &Bytes) -> Result<()> {
        let there = store.read(key, MAX_OBJECT).await?;
        if self.exists_with(key, bytes, there.map(|found| found.bytes))? {
            return Ok(());
        }
        let mut backoff = store.backoff();
        // False once a completion request got no clear answer: from then on the object may appear at any time.
        let mut certain = true;
        loop {
            let failure = match self.upload_once(key, bytes).await {
                Ok(()) => return Ok(()),
                Err(UploadFailure::BeforeCompletion(failure)) => {
                    store.unless_refused(self.failed(&failure, key), key, certain)?;
                    failure
                }
                Err(UploadFailure::Completing(failure)) => {
                    store.unless_refused(self.failed(&failure, key), key, certain)?;
                    certain = false;
                    let there = store.read_back(key, bytes, &mut backoff).await;
                    let there = there.map_err(|_| failure.indeterminate(&self.shown(key)))?;
                    if self.exists_with(key, bytes, there.map(|found| found.bytes))? {
                        return Ok(());
                    }
                    failure
                }
            };
            if !backoff.wait().await {
                return Err(if certain {
                    failure.not_applied(&self.shown(key))
                } else {
                    failure.indeterminate(&self.shown(key))
                });
            }
        }
    }

    /// Returns whether the object exists with these bytes. An object with other bytes is never replaced.
    fn exists_with(&self, key: &str, bytes: &Bytes, there: Option<Bytes>) -> Result<bool> {
        match there {
            None => Ok(false),
            Some(there) if there == *bytes => Ok(true),
            Some(_) => Err(Error::conflict(self.shown(key), "it exists with other bytes")),
        }
    }

    async fn upload_once(&self, key: &str, bytes: &Bytes) -> Result<(), UploadFailure> {
        let path = self.path(key);
        let begun = self.ask(0, self.store.put_multipart(&path)).await;
        let mut upload = begun.map_err(UploadFailure::BeforeCompletion)?;
        if let Err(failure) = self.send_parts(&mut *upload, bytes).await {
            // Stores charge for the parts until the upload is aborted. Aborting is safe here, because the
            // completion request was never sent.
            drop(self.ask(0, upload.abort()).await);
            return Err(UploadFailure::BeforeCompletion(failure));
        }
        let completed = self.ask(0, upload.complete()).await;
        completed.map(drop).map_err(UploadFailure::Completing)
    }

    async fn send_parts(
        &self,
        upload: &mut dyn MultipartUpload,
        bytes: &Bytes,
    ) -> Result<(), RequestFailure> {
        let size = self.options.part.max(1);
        let parts: Vec<Bytes> = (0..bytes.len())
            .step_by(size)
            .map(|at| bytes.slice(at..bytes.len().min(at + size)))
            .collect();
        for group in parts.chunks(self.options.concurrency.max(1)) {
            let requests = group.iter().map(|part| {
                let request = upload.put_part(PutPayload::from_bytes(part.clone()));
                // The parts of a group share the bandwidth, so each part gets the time limit of the whole group.
                self.ask((part.len() * group.len()) as u64, request)
            });
            try_join_all(requests.collect::<Vec<_>>()).await?;
        }
        Ok(())
    }
}
