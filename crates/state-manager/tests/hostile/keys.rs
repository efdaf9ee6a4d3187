//! A key provider that opens each key file only once: the elliptic-curve operations of each opening would dominate the
//! time of thousands of runs. It also records which keys are honest and which an attacker holds.

use state_core::sealing::{KeyProvider, OpenedOutputs, StackKey, WrappedKey};
use state_core::{KeyId, Lineage, Result};
use state_encrypt::AgeKeys;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

type Opened = (Lineage, KeyId, Vec<Vec<u8>>);

/// Wraps a provider and caches its results, which depend only on the arguments.
#[derive(Debug)]
pub(crate) struct CachedKeys {
    inner: AgeKeys,
    /// Results of `unwrap`, by its arguments.
    opened: Mutex<BTreeMap<Opened, Arc<dyn StackKey>>>,
    /// Results of `open_outputs`, by its arguments.
    documents: Mutex<BTreeMap<Vec<u8>, OpenedOutputs>>,
    /// All keys that honest clients generated or opened.
    honest: Mutex<BTreeMap<KeyId, Arc<dyn StackKey>>>,
    /// Keys that an attacker holds too.
    lost: Mutex<BTreeSet<KeyId>>,
}

impl CachedKeys {
    pub(crate) fn new(inner: AgeKeys) -> Self {
        Self {
            inner,
            opened: Mutex::default(),
            documents: Mutex::default(),
            honest: Mutex::default(),
            lost: Mutex::default(),
        }
    }

    /// A key that honest clients generated or opened, and that no attacker holds.
    pub(crate) fn honest(&self, id: KeyId) -> Option<Arc<dyn StackKey>> {
        let key = lock(&self.honest).get(&id).cloned();
        key.filter(|key| !lock(&self.lost).contains(&key.id()))
    }

    /// A key that honest clients generated or opened. An attacker may hold the key too.
    pub(crate) fn any(&self, id: KeyId) -> Option<Arc<dyn StackKey>> {
        lock(&self.honest).get(&id).cloned()
    }

    /// Whether an honest key of published outputs has this id: it is derived from a data key that no attacker holds.
    pub(crate) fn is_of_outputs(&self, id: KeyId) -> bool {
        let keys: Vec<_> = lock(&self.honest).values().cloned().collect();
        let lost = lock(&self.lost);
        keys.iter()
            .any(|key| key.outputs_id() == Some(id) && !lost.contains(&key.id()))
    }

    /// Notes that an attacker holds a key.
    pub(crate) fn lose(&self, id: KeyId) {
        lock(&self.lost).insert(id);
    }

    fn keep(&self, key: &Arc<dyn StackKey>) {
        lock(&self.honest).insert(key.id(), Arc::clone(key));
    }
}

impl KeyProvider for CachedKeys {
    fn generate(&self, lineage: Lineage) -> Result<Arc<dyn StackKey>> {
        let key = self.inner.generate(lineage)?;
        self.keep(&key);
        Ok(key)
    }

    fn wrap(&self, key: KeyId, recipients: Option<&[String]>) -> Result<WrappedKey> {
        self.inner.wrap(key, recipients)
    }

    fn spelling(&self, recipient: &str) -> Result<String> {
        self.inner.spelling(recipient)
    }

    fn unwrap(&self, lineage: Lineage, id: KeyId, files: &[Vec<u8>]) -> Result<Arc<dyn StackKey>> {
        let arguments = (lineage, id, files.to_vec());
        if let Some(key) = lock(&self.opened).get(&arguments) {
            return Ok(Arc::clone(key));
        }
        let key = self.inner.unwrap(lineage, id, files)?;
        lock(&self.opened).insert(arguments, Arc::clone(&key));
        self.keep(&key);
        Ok(key)
    }

    fn open_outputs(&self, lineage: Lineage, document: &[u8]) -> Result<OpenedOutputs> {
        let arguments = [&lineage.as_bytes()[..], document].concat();
        if let Some(opened) = lock(&self.documents).get(&arguments) {
            return Ok(opened.clone());
        }
        let opened = self.inner.open_outputs(lineage, document)?;
        lock(&self.documents).insert(arguments, opened.clone());
        Ok(opened)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
