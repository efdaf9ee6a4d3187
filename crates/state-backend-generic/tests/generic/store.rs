//! An in-memory store with injected failures.

use async_trait::async_trait;
use bytes::Bytes;
use state_backend_generic::{KeyValueStore, ListedKey, RequestError, Value, Version};
use std::collections::BTreeMap;
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
}

type Hook = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Inner {
    values: BTreeMap<String, (u64, Bytes)>,
    writes: usize,
    fault: Option<(usize, Fault)>,
    dead: bool,
    /// A hook that runs before the first write of a key with this suffix.
    hook: Option<(&'static str, Hook)>,
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
        inner.fault = Some((inner.writes + after, fault));
    }

    pub(crate) fn heal(&self) {
        let mut inner = self.0.lock().unwrap();
        (inner.dead, inner.fault) = (false, None);
    }

    pub(crate) fn writes(&self) -> usize {
        self.0.lock().unwrap().writes
    }

    /// The value of a key.
    pub(crate) fn value(&self, key: &str) -> Option<Bytes> {
        let inner = self.0.lock().unwrap();
        inner.values.get(key).map(|(_, value)| value.clone())
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
            let fault = inner.fault.filter(|(at, _)| *at == inner.writes);
            inner.writes += 1;
            let fault = fault.map(|(_, fault)| fault);
            if fault == Some(Fault::Before) {
                return Err(RequestError::no_answer("a fault before the effect"));
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
