//! One object at a time, with patience: every answer that isn't certain is settled by reading back.
//!
//! | the store says | what is there | so |
//! |---|---|---|
//! | anything but a refusal | these bytes | it took effect, now or in an earlier try |
//! | anything but a refusal | nothing, or what was there before | the same bytes are sent again: the first may still be under way |
//! | anything but a refusal | something else | it had no effect and never will; a swap that wasn't answered may have had one in between |
//! | anything but a refusal | no answer, until patience ends | nobody knows: `Indeterminate`, and nothing is cleaned up |
//!
//! Every document and frame holds a nonce, so the same bytes are the same write.

mod patience;
mod upload;

use crate::failure::Trouble;
use crate::options::Options;
use bytes::Bytes;
use futures_util::TryStreamExt;
use futures_util::future::{Either, select};
use object_store::path::Path;
use object_store::{
    GetOptions, GetResult, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload,
    UpdateVersion,
};
use patience::Patience;
use state_core::{Error, Result};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

/// How often a store may refuse to replace what it just gave before it is taken at its word.
const REFUSALS: usize = 4;

/// How long a first contact is tried.
const FIRST_CONTACT: Duration = Duration::from_secs(1);

/// An object store and how it is used.
#[derive(Clone, Debug)]
pub(crate) struct Objects {
    store: Arc<dyn ObjectStore>,
    pub(crate) options: Arc<Options>,
}

/// An object as it was read or written, and what a swap of it must name.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) bytes: Bytes,
    pub(crate) version: UpdateVersion,
    /// When the store got it, by the store's clock, in milliseconds; none for what was written just now.
    pub(crate) modified: Option<i64>,
}

/// What became of a creation.
#[derive(Debug)]
pub(crate) enum Created {
    /// These bytes are there.
    Ours(Found),
    /// Others are.
    Taken(Found),
}

/// What became of a swap.
#[derive(Debug)]
pub(crate) enum Swapped {
    /// These bytes are there.
    Ours(Found),
    /// Others are, or nothing. Ours may have been there in between only if it isn't `certain`.
    Changed { now: Option<Found>, certain: bool },
}

/// An object in a list. Its ETag is of no use: some stores give others here.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Listed {
    pub(crate) path: Path,
    pub(crate) bytes: u64,
}

impl Listed {
    pub(crate) fn file(&self) -> &str {
        self.path.filename().unwrap_or_default()
    }
}

impl Objects {
    pub(crate) fn new(store: Arc<dyn ObjectStore>, options: Options) -> Self {
        Self {
            store,
            options: Arc::new(options),
        }
    }

    /// The same with another store below.
    pub(crate) fn over(&self, wrap: impl FnOnce(Arc<dyn ObjectStore>) -> Arc<dyn ObjectStore>) -> Self {
        Self {
            store: wrap(Arc::clone(&self.store)),
            options: Arc::clone(&self.options),
        }
    }

    /// The same for a first contact: who gives a wrong place shall hear of it at once.
    pub(crate) fn impatient(&self) -> Self {
        let mut options = Options::clone(&self.options);
        options.patience = options.patience.min(FIRST_CONTACT);
        Self {
            store: Arc::clone(&self.store),
            options: Arc::new(options),
        }
    }

    pub(crate) const fn store(&self) -> &Arc<dyn ObjectStore> {
        &self.store
    }

    /// The object as messages name it.
    pub(crate) fn shown(&self, path: &Path) -> String {
        let inside = path.prefix_match(&self.options.prefix);
        let inside: Vec<String> = inside
            .into_iter()
            .flatten()
            .map(|part| part.as_ref().to_owned())
            .collect();
        format!("{}/{}", self.options.url.trim_end_matches('/'), inside.join("/"))
    }

    fn patience(&self) -> Patience<'_> {
        Patience::new(&*self.options.clock, self.options.patience)
    }

    /// Makes one request, and gives up on it in time. It may still take effect then.
    async fn ask<T>(
        &self,
        bytes: u64,
        request: impl Future<Output = object_store::Result<T>>,
    ) -> Result<T, Trouble> {
        let limit = self.options.request + Duration::from_secs(bytes >> 20);
        match select(pin!(request), self.options.clock.sleep(limit)).await {
            Either::Left((answer, _)) => Ok(answer?),
            Either::Right(((), _)) => Err(Trouble::Slow(limit)),
        }
    }

    /// The object, if it is there.
    pub(crate) async fn read(&self, path: &Path, most: u64) -> Result<Option<Found>> {
        self.read_within(path, most, &mut self.patience()).await
    }

    async fn read_within(
        &self,
        path: &Path,
        most: u64,
        patience: &mut Patience<'_>,
    ) -> Result<Option<Found>> {
        loop {
            let trouble = match self.read_once(path, most).await {
                Ok(found) => return Ok(Some(found)),
                Err(trouble) if trouble.is_missing() => return Ok(None),
                Err(trouble) => trouble,
            };
            let refused = trouble.refusal(&self.shown(path)).is_some();
            if refused || !patience.again().await {
                return Err(trouble.unavailable(&self.shown(path)));
            }
        }
    }

    async fn read_once(&self, path: &Path, most: u64) -> Result<Found, Trouble> {
        let answer = self
            .ask(0, self.store.get_opts(path, GetOptions::default()))
            .await?;
        let meta = answer.meta.clone();
        if meta.size > most {
            return Err(Trouble::Large { most });
        }
        let bytes = self.whole(answer, meta.size).await?;
        Ok(Found {
            bytes,
            version: UpdateVersion {
                e_tag: meta.e_tag,
                version: meta.version,
            },
            modified: Some(meta.last_modified.timestamp_millis()),
        })
    }

    /// The first bytes of an object, if it is there.
    pub(crate) async fn begin(&self, path: &Path, bytes: u64) -> Result<Option<Bytes>> {
        let mut patience = self.patience();
        loop {
            let trouble = match self.begin_once(path, bytes).await {
                Ok(found) => return Ok(Some(found)),
                Err(trouble) if trouble.is_missing() => return Ok(None),
                Err(trouble) => trouble,
            };
            if trouble.refusal(&self.shown(path)).is_some() || !patience.again().await {
                return Err(trouble.unavailable(&self.shown(path)));
            }
        }
    }

    async fn begin_once(&self, path: &Path, bytes: u64) -> Result<Bytes, Trouble> {
        let options = GetOptions::default().with_range(Some(0..bytes));
        let answer = self.ask(0, self.store.get_opts(path, options)).await?;
        let wanted = answer.range.end - answer.range.start;
        self.whole(answer, wanted).await
    }

    /// The body of an answer, all of it.
    async fn whole(&self, answer: GetResult, wanted: u64) -> Result<Bytes, Trouble> {
        let bytes = self.ask(wanted, answer.bytes()).await?;
        let there = bytes.len() as u64;
        if there == wanted {
            return Ok(bytes);
        }
        Err(Trouble::Short { there, wanted })
    }

    /// Creates an object; never replaces one.
    ///
    /// # Errors
    /// `Indeterminate` when nobody knows; everything else certainly had no effect.
    pub(crate) async fn create(&self, path: &Path, bytes: &Bytes) -> Result<Created> {
        let mut patience = self.patience();
        let mut certain = true;
        loop {
            let trouble = match self.put(path, bytes, PutMode::Create).await {
                Ok(found) => return Ok(Created::Ours(found)),
                Err(trouble) => trouble,
            };
            self.unless_refused(&trouble, path, certain)?;
            certain &= trouble.is_contested();
            match self.look(path, bytes, &trouble, &mut patience).await? {
                Some(found) if found.bytes == *bytes => return Ok(Created::Ours(found)),
                Some(found) => return Ok(Created::Taken(found)),
                None => {}
            }
            if !patience.again().await {
                return Err(trouble.indeterminate(&self.shown(path)));
            }
        }
    }

    /// Replaces an object if it is still the one that was found.
    ///
    /// # Errors
    /// As [`Objects::create`].
    pub(crate) async fn swap(&self, path: &Path, bytes: &Bytes, from: &Found) -> Result<Swapped> {
        let mut patience = self.patience();
        let mut expected = from.version.clone();
        let (mut certain, mut refusals) = (true, 0);
        loop {
            let trouble = match self.put(path, bytes, PutMode::Update(expected.clone())).await {
                Ok(found) => return Ok(Swapped::Ours(found)),
                Err(trouble) => trouble,
            };
            self.unless_refused(&trouble, path, certain)?;
            certain &= trouble.is_contested();
            match self.look(path, bytes, &trouble, &mut patience).await? {
                Some(found) if found.bytes == *bytes => return Ok(Swapped::Ours(found)),
                Some(found) if found.bytes == from.bytes => expected = found.version,
                now => return Ok(Swapped::Changed { now, certain }),
            }
            refusals += usize::from(trouble.is_contested());
            if refusals == REFUSALS && certain {
                return Err(Error::Unsupported {
                    object: self.shown(path),
                    missing: "to replace what is there: the store refuses the ETag that it gave; without its quotes \
                              it may take it (`unquoted-etags=true`), which"
                        .to_owned(),
                });
            }
            if !patience.again().await {
                return Err(trouble.indeterminate(&self.shown(path)));
            }
        }
    }

    /// A refusal tells of this try only: an earlier one that wasn't answered may have taken effect.
    fn unless_refused(&self, trouble: &Trouble, path: &Path, certain: bool) -> Result<()> {
        match trouble.refusal(&self.shown(path)) {
            Some(_) if !certain => Err(trouble.indeterminate(&self.shown(path))),
            Some(refusal) => Err(refusal),
            None => Ok(()),
        }
    }

    /// What is there after a write that wasn't answered well.
    async fn look(
        &self,
        path: &Path,
        written: &Bytes,
        trouble: &Trouble,
        patience: &mut Patience<'_>,
    ) -> Result<Option<Found>> {
        let most = crate::layout::MAX_FRAME.max(written.len() as u64);
        let found = self.read_within(path, most, patience).await;
        found.map_err(|_| trouble.indeterminate(&self.shown(path)))
    }

    async fn put(&self, path: &Path, bytes: &Bytes, mode: PutMode) -> Result<Found, Trouble> {
        let payload = PutPayload::from_bytes(bytes.clone());
        let put = self.store.put_opts(path, payload, PutOptions::from(mode));
        let result = self.ask(bytes.len() as u64, put).await?;
        Ok(Found {
            bytes: bytes.clone(),
            version: result.into(),
            modified: None,
        })
    }

    /// Writes an object whatever is there: for those that say nothing but when they were written.
    pub(crate) async fn touch(&self, path: &Path, bytes: Bytes) -> Result<ObjectMeta> {
        let touched = async {
            self.put(path, &bytes, PutMode::Overwrite).await?;
            self.ask(0, self.store.head(path)).await
        };
        touched
            .await
            .map_err(|trouble: Trouble| trouble.unavailable(&self.shown(path)))
    }

    /// Deletes an object. One that isn't there is fine: stores differ in what they say of it.
    pub(crate) async fn delete(&self, path: &Path) -> Result<()> {
        let mut patience = self.patience();
        loop {
            let trouble = match self.ask(0, self.store.delete(path)).await {
                Ok(()) => return Ok(()),
                Err(trouble) if trouble.is_missing() => return Ok(()),
                Err(trouble) => trouble,
            };
            if let Some(refusal) = trouble.refusal(&self.shown(path)) {
                return Err(refusal);
            }
            if !patience.again().await {
                return Err(trouble.indeterminate(&self.shown(path)));
            }
        }
    }

    /// The objects in a folder, and in those inside, sorted: stores need not sort them. With an `offset` those behind it.
    pub(crate) async fn list(&self, folder: &Path, offset: Option<&Path>) -> Result<Vec<Listed>> {
        let mut patience = self.patience();
        loop {
            let trouble = match self.list_once(folder, offset).await {
                Ok(mut listed) => {
                    listed.sort();
                    listed.dedup();
                    return Ok(listed);
                }
                Err(trouble) if trouble.is_missing() => return Ok(Vec::new()),
                Err(trouble) => trouble,
            };
            if trouble.refusal(&self.shown(folder)).is_some() || !patience.again().await {
                return Err(trouble.unavailable(&self.shown(folder)));
            }
        }
    }

    async fn list_once(&self, folder: &Path, offset: Option<&Path>) -> Result<Vec<Listed>, Trouble> {
        let mut stream = match offset {
            Some(offset) => self.store.list_with_offset(Some(folder), offset),
            None => self.store.list(Some(folder)),
        };
        let mut listed = Vec::new();
        // It comes in pages, each a request.
        while let Some(meta) = self.ask(0, stream.try_next()).await? {
            listed.push(Listed {
                path: meta.location,
                bytes: meta.size,
            });
        }
        Ok(listed)
    }
}
