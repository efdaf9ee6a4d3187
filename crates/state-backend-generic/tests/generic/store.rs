//! An in-memory store with injected failures.

use async_trait::async_trait;
use bytes::Bytes;
use state_backend_generic::{KeyValueStore, ListedKey, RequestError, Value, Version};
use state_core::Error;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::pending;
use std::sync::{Arc, Mutex};

/// The kinds of injected write failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The write has no effect and no answer.
    Before,
    /// The write takes effect, and the answer is lost.
    After,
    /// The write takes effect, and a retry of the client library conflicts with it: the answer is that the condition
    /// was not met.
    OwnConflict,
    /// The write takes effect, and from then on the store answers no request.
    Dead,
    /// The write takes effect, and the request never completes.
    Never,
    /// The write has no effect: the store refuses it, as it would refuse every repetition.
    Refused,
}

type Hook = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Inner {
    values: BTreeMap<String, (u64, Bytes)>,
    writes: usize,
    /// The planned faults, by the number of the write.
    faults: BTreeMap<usize, Fault>,
    dead: bool,
    /// A hook that runs before the first write of a key with this suffix.
    hook: Option<(&'static str, Hook)>,
    /// A hook that runs before the first read of a key with this suffix.
    read_hook: Option<(&'static str, Hook)>,
    /// The keys that lists contain; `None` for all.
    listed: Option<BTreeSet<String>>,
}

#[derive(Clone, Default)]
pub(crate) struct MemoryStore(Arc<Mutex<Inner>>);

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MemoryStore")
    }
}

impl MemoryStore {
    /// Makes a write fail after a number of successful writes.
    pub(crate) fn fail(&self, after: usize, fault: Fault) {
        let mut inner = self.0.lock().unwrap();
        let at = inner.writes + after;
        inner.faults.insert(at, fault);
    }

    pub(crate) fn heal(&self) {
        let mut inner = self.0.lock().unwrap();
        inner.dead = false;
        inner.faults.clear();
    }

    pub(crate) fn writes(&self) -> usize {
        self.0.lock().unwrap().writes
    }

    /// The value of a key.
    pub(crate) fn value(&self, key: &str) -> Option<Bytes> {
        let inner = self.0.lock().unwrap();
        inner.values.get(key).map(|(_, value)| value.clone())
    }

    /// The keys that end with this suffix.
    pub(crate) fn keys(&self, suffix: &str) -> Vec<String> {
        let inner = self.0.lock().unwrap();
        let keys = inner.values.keys().filter(|key| key.ends_with(suffix));
        keys.cloned().collect()
    }

    /// Writes a value, as another process does.
    pub(crate) fn put(&self, key: &str, value: Bytes) {
        let values = &mut self.0.lock().unwrap().values;
        let version = values.get(key).map_or(0, |(version, _)| version + 1);
        values.insert(key.to_owned(), (version, value));
    }

    /// From now on, lists omit all keys that don't exist yet.
    pub(crate) fn freeze_lists(&self) {
        let mut inner = self.0.lock().unwrap();
        inner.listed = Some(inner.values.keys().cloned().collect());
    }

    /// Runs a hook before the first read of a key with this suffix.
    pub(crate) fn before_read_of(&self, file: &'static str, hook: impl FnOnce() + Send + 'static) {
        self.0.lock().unwrap().read_hook = Some((file, Box::new(hook)));
    }

    /// Replaces a value by damage, or removes it.
    pub(crate) fn damage(&self, key: &str, value: Option<Bytes>) {
        let values = &mut self.0.lock().unwrap().values;
        let (version, _) = values.remove(key).unwrap();
        if let Some(value) = value {
            values.insert(key.to_owned(), (version + 1, value));
        }
    }

    /// Runs a hook just before the next write of a key with this suffix.
    pub(crate) fn before_write_of(&self, file: &'static str, hook: impl FnOnce() + Send + 'static) {
        self.0.lock().unwrap().hook = Some((file, Box::new(hook)));
    }

    async fn write(
        &self,
        key: &str,
        change: impl FnOnce(&mut Inner) -> Result<Version, RequestError> + Send,
    ) -> Result<Version, RequestError> {
        let hook = self
            .0
            .lock()
            .unwrap()
            .hook
            .take_if(|(file, _)| key.ends_with(*file));
        if let Some((_, hook)) = hook {
            hook();
        }
        let (result, fault) = {
            let mut inner = self.0.lock().unwrap();
            inner.answer()?;
            let at = inner.writes;
            let fault = inner.faults.remove(&at);
            inner.writes += 1;
            match fault {
                Some(Fault::Before) => return Err(RequestError::no_answer("a fault before the effect")),
                Some(Fault::Refused) => {
                    return Err(RequestError::Refused(Error::not_applied(key, "it is refused")));
                }
                _ => {}
            }
            inner.dead = fault == Some(Fault::Dead);
            (change(&mut inner), fault)
        };
        match fault {
            None => result,
            Some(Fault::OwnConflict) => Err(RequestError::conflict("its own retry")),
            Some(Fault::Never) => pending().await,
            Some(_) => Err(RequestError::no_answer("a fault after the effect")),
        }
    }
}

impl Inner {
    fn answer(&self) -> Result<(), RequestError> {
        if self.dead {
            return Err(RequestError::no_answer("the store is dead"));
        }
        Ok(())
    }
}

#[async_trait]
impl KeyValueStore for MemoryStore {
    async fn get(&self, key: &str, _limit: u64) -> Result<Option<Value>, RequestError> {
        let hook = self
            .0
            .lock()
            .unwrap()
            .read_hook
            .take_if(|(file, _)| key.ends_with(*file));
        if let Some((_, hook)) = hook {
            hook();
        }
        let inner = self.0.lock().unwrap();
        inner.answer()?;
        let found = inner.values.get(key);
        Ok(found.map(|(version, bytes)| Value::new(bytes.clone(), Version::new(version.to_string()))))
    }

    async fn create(&self, key: &str, value: Bytes) -> Result<Version, RequestError> {
        self.write(key, |inner| {
            if inner.values.contains_key(key) {
                return Err(RequestError::conflict("it exists"));
            }
            inner.values.insert(key.to_owned(), (0, value));
            Ok(Version::new("0"))
        })
        .await
    }

    async fn compare_and_swap(
        &self,
        key: &str,
        expected: &Version,
        value: Bytes,
    ) -> Result<Version, RequestError> {
        self.write(key, |inner| match inner.values.get_mut(key) {
            Some((version, there)) if version.to_string() == expected.as_str() => {
                (*version, *there) = (*version + 1, value);
                Ok(Version::new(version.to_string()))
            }
            _ => Err(RequestError::conflict("it changed")),
        })
        .await
    }

    async fn list(&self, prefix: &str, after: Option<&str>) -> Result<Vec<ListedKey>, RequestError> {
        let inner = self.0.lock().unwrap();
        inner.answer()?;
        let found = inner.values.iter().filter(|(key, _)| key.starts_with(prefix));
        let found = found.filter(|(key, _)| after.is_none_or(|after| key.as_str() > after));
        let listed = inner.listed.as_ref();
        let found = found.filter(|(key, _)| listed.is_none_or(|listed| listed.contains(*key)));
        let listed = found.map(|(key, (_, bytes))| ListedKey {
            key: key.clone(),
            bytes: bytes.len() as u64,
        });
        Ok(listed.collect())
    }

    async fn delete(&self, key: &str) -> Result<(), RequestError> {
        let mut inner = self.0.lock().unwrap();
        inner.answer()?;
        inner.values.remove(key);
        Ok(())
    }
}
