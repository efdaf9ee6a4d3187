//! Seals the values of a locked stack before they are recorded. Without a key, a session refuses to record a value that
//! the stack's policy requires to be sealed.

use state_core::head::SealingPolicy;
use state_core::mutation::StackOutputs;
use state_core::sealing::StackKey;
use state_core::{Entry, Error, Json, Properties, Result, SharedEntry, Snapshot, sealed, sensitive};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Policy and key of a session. Cheap to clone, so that each caller can seal values in its own task.
#[derive(Clone, Debug)]
pub(crate) struct SessionSealer {
    policy: SealingPolicy,
    key: Option<Arc<dyn StackKey>>,
}

impl SessionSealer {
    pub(crate) const fn new(policy: SealingPolicy, key: Option<Arc<dyn StackKey>>) -> Self {
        Self { policy, key }
    }

    pub(crate) fn key(&self) -> Option<&dyn StackKey> {
        self.key.as_deref()
    }

    pub(crate) const fn policy(&self) -> SealingPolicy {
        self.policy
    }

    pub(crate) fn shared_key(&self) -> Option<Arc<dyn StackKey>> {
        self.key.clone()
    }

    /// An entry sealed for storage. It must already have the uid under which it is recorded, because its values are
    /// bound to that uid.
    pub(crate) fn entry(&self, entry: Entry) -> Result<Entry> {
        match (self.policy, &self.key) {
            (SealingPolicy::Plaintext, _) => require_unsealed(&entry).map(|()| entry),
            (policy, Some(key)) => key.seal_entry(policy, &entry),
            (SealingPolicy::Sensitive, None) if !sensitive::entry_has_sensitive(&entry) => {
                require_unsealed(&entry).map(|()| entry)
            }
            (_, None) => Err(no_key(format!("resource {}", entry.key()))),
        }
    }

    /// An entry of the state with its values opened; unchanged if the session has no key.
    pub(crate) fn reveal(&self, entry: &SharedEntry) -> Result<SharedEntry> {
        match &self.key {
            Some(key) => key.open_entry(entry).map(Arc::new),
            None => Ok(Arc::clone(entry)),
        }
    }

    /// Entries of another stack, sealed for this one: values that are sealed for one lineage can't be opened in
    /// another.
    pub(crate) fn adopt(&self, from: &Self, entries: &[SharedEntry]) -> Result<Vec<SharedEntry>> {
        if from.key.is_none() && self.policy == SealingPolicy::Plaintext {
            return Ok(entries.to_vec());
        }
        if from.key.is_some() && self.policy == SealingPolicy::Plaintext {
            let reason = "the destination stores values in plaintext, but the source seals them";
            return Err(Error::sealed("the move", reason));
        }
        let adopt = |entry: &SharedEntry| {
            let open = match &from.key {
                Some(key) => key.open_entry(entry)?,
                None => Entry::clone(entry),
            };
            self.entry(open).map(Arc::new)
        };
        entries.iter().map(adopt).collect()
    }

    /// The stack's outputs, sealed for storage.
    pub(crate) fn outputs(&self, outputs: StackOutputs) -> Result<StackOutputs> {
        match (self.policy, &self.key) {
            (SealingPolicy::Plaintext, _) => require_unsealed_outputs(&outputs.values).map(|()| outputs),
            (policy, Some(key)) => key.seal_outputs(policy, &outputs),
            (SealingPolicy::Sensitive, None) if outputs.sensitive.is_empty() => {
                require_unsealed_outputs(&outputs.values).map(|()| outputs)
            }
            (_, None) => Err(no_key("the stack's outputs".to_owned())),
        }
    }

    /// A snapshot sealed for storage.
    pub(crate) fn snapshot(&self, mut snapshot: Snapshot) -> Result<Snapshot> {
        match (self.policy, &self.key) {
            (SealingPolicy::Plaintext, _) => require_unsealed_snapshot(&snapshot).map(|()| snapshot),
            (policy, Some(key)) => {
                // Entries are sealed one at a time and in place: a large state must not be in memory twice.
                let mut entries = std::mem::take(&mut snapshot.entries);
                for entry in &mut entries {
                    *entry = key.seal_shared(policy, entry)?;
                }
                let sealed = key.seal_snapshot(policy, &snapshot)?;
                Ok(Snapshot { entries, ..sealed })
            }
            (SealingPolicy::Sensitive, None) if !sensitive::has_sensitive(&snapshot) => {
                require_unsealed_snapshot(&snapshot).map(|()| snapshot)
            }
            (_, None) => Err(no_key("the snapshot".to_owned())),
        }
    }
}

/// Refuses an entry with a value that is sealed with some key: the stack has no key, so the value could never be
/// opened.
fn require_unsealed(entry: &Entry) -> Result<()> {
    let sides = [&entry.inputs, &entry.outputs].into_iter().flatten();
    let values = sides.map(Properties::json).chain(entry.extensions.values());
    require_unsealed_values(values, || format!("resource {}", entry.key()))
}

fn require_unsealed_outputs(outputs: &BTreeMap<String, Json>) -> Result<()> {
    require_unsealed_values(outputs.values(), || "the stack's outputs".to_owned())
}

fn require_unsealed_snapshot(snapshot: &Snapshot) -> Result<()> {
    require_unsealed_outputs(&snapshot.outputs)?;
    snapshot
        .entries
        .iter()
        .try_for_each(|entry| require_unsealed(entry))
}

fn require_unsealed_values<'a>(
    mut values: impl Iterator<Item = &'a Json>,
    object: impl Fn() -> String,
) -> Result<()> {
    match values.find_map(sealed::key_within) {
        None => Ok(()),
        Some(key) => {
            let reason = format!(
                "it contains a value that is sealed with key {key}…, and this stack is not encrypted: export the value \
                 opened, with `--show-secrets`"
            );
            Err(Error::sealed(object(), reason))
        }
    }
}

fn no_key(object: String) -> Error {
    Error::sealed(
        object,
        "the stack's policy requires sealed values, and the stack has no key to seal them with: pass recipients or an \
         identity, or create the stack with the policy `plaintext`",
    )
}

#[cfg(test)]
mod tests {
    use super::SessionSealer;
    use state_core::head::SealingPolicy;
    use state_core::mutation::StackOutputs;
    use state_core::sealing::{MacKey, StackKey, Tag, TagDomain};
    use state_core::testkit::key::TagKey;
    use state_core::{Entry, Error, Json, KeyId, Properties, Result, SharedEntry, Snapshot};
    use std::sync::Arc;

    /// A key that writes its label into an entry instead of encrypting the entry.
    #[derive(Debug)]
    struct LabelKey(&'static str, TagKey);

    impl MacKey for LabelKey {
        fn id(&self) -> KeyId {
            self.1.id()
        }

        fn tag(&self, domain: TagDomain, bytes: &[u8]) -> Tag {
            self.1.tag(domain, bytes)
        }
    }

    impl StackKey for LabelKey {
        fn seal_entry(&self, _: SealingPolicy, entry: &Entry) -> Result<Entry> {
            let mut sealed = entry.clone();
            let name = Json::from_string(self.0);
            let before = sealed.extensions.insert("sealed".to_owned(), name);
            assert_eq!(before, None, "an entry must be opened before it is sealed again");
            Ok(sealed)
        }

        fn open_entry(&self, entry: &Entry) -> Result<Entry> {
            let mut open = entry.clone();
            match open.extensions.remove("sealed") {
                Some(name) if name == Json::from_string(self.0) => Ok(open),
                _ => Err(Error::sealed("entry", "it is sealed with another key")),
            }
        }

        fn seal_outputs(&self, policy: SealingPolicy, outputs: &StackOutputs) -> Result<StackOutputs> {
            self.1.seal_outputs(policy, outputs)
        }

        fn open_outputs(&self, outputs: &StackOutputs) -> Result<StackOutputs> {
            self.1.open_outputs(outputs)
        }

        fn seal_snapshot(&self, policy: SealingPolicy, snapshot: &Snapshot) -> Result<Snapshot> {
            self.1.seal_snapshot(policy, snapshot)
        }

        fn open_snapshot(&self, snapshot: &Snapshot) -> Result<Snapshot> {
            self.1.open_snapshot(snapshot)
        }

        fn endorse(&self, successor: KeyId, generation: u64) -> Tag {
            self.1.endorse(successor, generation)
        }
    }

    fn seal(name: &'static str) -> SessionSealer {
        SessionSealer::new(
            SealingPolicy::Sensitive,
            Some(Arc::new(LabelKey(name, TagKey::new(1)))),
        )
    }

    fn sensitive() -> Entry {
        let mut entry = Entry::leaf("a".parse().unwrap(), "thing");
        let outputs = Json::parse(r#"{"password":"hunter22"}"#).unwrap();
        entry.outputs = Properties::new(outputs);
        entry.sensitive_outputs.push("password".to_owned());
        entry
    }

    #[test]
    fn sealed_value_is_not_recorded_in_a_stack_without_key() {
        let token = Json::parse(r#"{"deep":[{"$sealed":"v1:00112233aabbccdd:c2VhbGVk"}]}"#).unwrap();
        let lookalike =
            Json::parse(r#"{"deep":["$sealed:v1:00112233aabbccdd:c2VhbGVk",{"$sealed":1}]}"#).unwrap();
        for policy in [SealingPolicy::Plaintext, SealingPolicy::Sensitive] {
            let sealer = SessionSealer::new(policy, None);
            for (value, is_refused) in [(&token, true), (&lookalike, false)] {
                let mut entry = Entry::leaf("a".parse().unwrap(), "thing");
                entry.outputs = Properties::new(value.clone());
                let outputs = StackOutputs {
                    values: [("a".to_owned(), value.clone())].into(),
                    sensitive: Vec::new(),
                };
                let moment = state_core::Timestamp::new("2026-01-01T00:00:00Z");
                let mut snapshot = Snapshot::new(state_core::FactoryInfo::default(), "shop", moment);
                snapshot.entries = vec![entry.clone().into()];
                let results = [
                    sealer.entry(entry).map(drop),
                    sealer.outputs(outputs).map(drop),
                    sealer.snapshot(snapshot).map(drop),
                ];
                for result in results {
                    let kind = result.err().map(|error| error.kind());
                    assert_eq!(kind, is_refused.then_some(state_core::ErrorKind::Sealed));
                }
            }
        }
    }

    #[test]
    fn moved_entries_are_resealed_for_the_destination() {
        let plain: [SharedEntry; 1] = [sensitive().into()];
        let one: [SharedEntry; 1] = [seal("one").entry(sensitive()).unwrap().into()];
        let two = seal("two").adopt(&seal("one"), &one).unwrap();
        assert_eq!(*two[0], seal("two").entry(sensitive()).unwrap());
        let open = SessionSealer::new(SealingPolicy::Plaintext, None);
        assert_eq!(seal("two").adopt(&open, &plain).unwrap(), two);
        assert_eq!(open.adopt(&open, &plain).unwrap(), plain);
        open.adopt(&seal("one"), &one).unwrap_err();
        seal("two").adopt(&seal("other"), &one).unwrap_err();
        let keyless = SessionSealer::new(SealingPolicy::Sensitive, None);
        keyless.adopt(&open, &plain).unwrap_err();
    }
}
