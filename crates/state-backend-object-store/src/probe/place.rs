//! The place of one probe: a prefix of its own, and the few requests that all checks are made of.

use super::ProbeTarget;
use crate::error::Trouble;
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    Error as StoreError, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutOptions, UpdateVersion,
};
use state_core::Nonce;
use state_core::backend::Finding;
use std::sync::Arc;

/// How many objects are deleted at once.
const DELETIONS: usize = 16;

/// How often something is read before the store counts as unreachable.
const READS: usize = 4;

/// Why the checks can't go on.
pub(super) enum Ended {
    /// The store lacks what the checks behind rest on.
    Lacking(Finding),
    /// The store can't be asked.
    Trouble(Trouble),
}

impl From<Trouble> for Ended {
    fn from(trouble: Trouble) -> Self {
        Self::Trouble(trouble)
    }
}

impl From<StoreError> for Ended {
    fn from(error: StoreError) -> Self {
        Self::Trouble(error.into())
    }
}

/// What a store said to a conditional write.
pub(super) enum Answer {
    /// It is done.
    Done,
    /// The condition isn't met; or it was a retry of the client's own, of which the first try took effect.
    Refused,
    /// Nobody knows.
    Unknown,
}

/// An object as it was read.
pub(super) struct Seen {
    pub(super) bytes: Bytes,
    pub(super) version: UpdateVersion,
    pub(super) meta: ObjectMeta,
}

/// A prefix of a store.
pub(super) struct Place {
    store: Arc<dyn ObjectStore>,
    root: Path,
    shown: String,
}

impl Place {
    pub(super) fn new(candidate: &ProbeTarget, mark: Nonce) -> Self {
        let folder = format!(".probe-{mark}");
        Self {
            store: Arc::clone(&candidate.store),
            root: candidate.prefix.clone().join(folder.as_str()),
            shown: format!("{}/{folder}", candidate.url.trim_end_matches('/')),
        }
    }

    /// The same with something around the store.
    pub(super) fn over(&self, wrap: impl FnOnce(Arc<dyn ObjectStore>) -> Arc<dyn ObjectStore>) -> Self {
        Self {
            store: wrap(Arc::clone(&self.store)),
            root: self.root.clone(),
            shown: self.shown.clone(),
        }
    }

    pub(super) fn path(&self, name: &str) -> Path {
        name.split('/')
            .fold(self.root.clone(), |path, part| path.join(part))
    }

    pub(super) async fn read(&self, path: &Path) -> Result<Option<Seen>, Trouble> {
        let mut left = READS;
        loop {
            left -= 1;
            match self.read_once(path).await {
                // A server that many ask at once may drop some of them.
                Err(trouble) if left > 0 && trouble.refusal("").is_none() => {}
                other => return other,
            }
        }
    }

    async fn read_once(&self, path: &Path) -> Result<Option<Seen>, Trouble> {
        let answer = match self.store.get(path).await.map_err(Trouble::from) {
            Ok(answer) => answer,
            Err(trouble) if trouble.is_missing() => return Ok(None),
            Err(trouble) => return Err(trouble),
        };
        let meta = answer.meta.clone();
        let version = UpdateVersion {
            e_tag: meta.e_tag.clone(),
            version: meta.version.clone(),
        };
        let bytes = answer.bytes().await?;
        Ok(Some(Seen { bytes, version, meta }))
    }

    pub(super) async fn head(&self, path: &Path) -> Result<ObjectMeta, Trouble> {
        Ok(self.store.head(path).await?)
    }

    /// Writes an object whatever is there.
    pub(super) async fn put(&self, path: &Path, bytes: impl Into<Bytes>) -> Result<(), Trouble> {
        self.store.put(path, bytes.into().into()).await?;
        Ok(())
    }

    /// # Errors
    /// Only where every later try must fail too.
    pub(super) async fn create(&self, path: &Path, bytes: impl Into<Bytes>) -> Result<Answer, Ended> {
        let create = PutOptions::from(PutMode::Create);
        let answer = self.store.put_opts(path, bytes.into().into(), create).await;
        judged(answer.map(drop), "create-if-absent")
    }

    /// As [`Place::create`].
    pub(super) async fn swap(
        &self,
        path: &Path,
        bytes: impl Into<Bytes>,
        from: &UpdateVersion,
    ) -> Result<Answer, Ended> {
        let swap = PutOptions::from(PutMode::Update(from.clone()));
        let answer = self.store.put_opts(path, bytes.into().into(), swap).await;
        judged(answer.map(drop), "compare-and-swap")
    }

    pub(super) async fn delete(&self, path: &Path) -> Result<(), Trouble> {
        Ok(self.store.delete(path).await?)
    }

    pub(super) async fn list(&self, folder: &Path) -> Result<Vec<ObjectMeta>, Trouble> {
        Ok(self.store.list(Some(folder)).try_collect().await?)
    }

    pub(super) async fn list_behind(&self, folder: &Path, offset: &Path) -> Result<Vec<ObjectMeta>, Trouble> {
        let listed = self.store.list_with_offset(Some(folder), offset);
        Ok(listed.try_collect().await?)
    }

    /// What is told when something may stay.
    pub(super) fn left(&self, found: impl Into<String>) -> Finding {
        let meaning = format!("objects may be left under {}: delete them by hand", self.shown);
        Finding::noted("clean-up", found, meaning)
    }

    /// Deletes all that is there; what stays is told.
    pub(super) async fn clear(&self) -> Option<Finding> {
        let left = |found: String| Some(self.left(found));
        let listed = match self.list(&self.root).await {
            Ok(listed) => listed,
            Err(trouble) if trouble.is_missing() => return None,
            Err(trouble) => return left(trouble.to_string()),
        };
        let deletions = futures_util::stream::iter(listed).map(|meta| async move {
            match self.delete(&meta.location).await {
                Err(trouble) if !trouble.is_missing() => Err(trouble),
                _ => Ok(()),
            }
        });
        let done: Vec<_> = deletions.buffer_unordered(DELETIONS).collect().await;
        let failed: Vec<Trouble> = done.into_iter().filter_map(Result::err).collect();
        match failed.first() {
            None => None,
            Some(first) => left(format!("{} deletions failed: {first}", failed.len())),
        }
    }
}

fn judged(answer: object_store::Result<()>, check: &'static str) -> Result<Answer, Ended> {
    let error = match answer {
        Ok(()) => return Ok(Answer::Done),
        Err(error) => error,
    };
    if matches!(
        error,
        StoreError::NotImplemented { .. } | StoreError::NotSupported { .. }
    ) {
        let found = Trouble::from(error).to_string();
        let meaning = "the store can't do it at all: two writers would overwrite each other";
        return Err(Ended::Lacking(Finding::broken(check, found, meaning)));
    }
    let trouble = Trouble::from(error);
    if trouble.is_contested() && trouble.refusal("").is_none() {
        Ok(Answer::Refused)
    } else if trouble.refusal("").is_some() {
        Err(Ended::Trouble(trouble))
    } else {
        Ok(Answer::Unknown)
    }
}
