//! Implements the `StackKey` contract of state-core for an unwrapped data key.

use crate::authenticator::Authenticator;
use crate::config_crypter::ConfigCrypter;
use crate::data_key::DataKey;
use crate::endorsement::endorse;
use crate::outputs_document::OutputsDocument;
use crate::plugin_rules::PluginRules;
use crate::recipient::Recipients;
use crate::sealer::Sealer;
use crate::wrapped::wrap;
use state_core::head::SealingPolicy;
use state_core::mutation::StackOutputs;
use state_core::sealing::{MacKey, StackKey, Tag, TagDomain};
use state_core::{Crypter, Entropy, Entry, KeyId, Lineage, Result, Serial, SharedEntry, Snapshot, StackName};
use std::fmt;
use std::sync::Arc;

/// Seals, opens and tags values of one stack. Opening refuses marked values that are not sealed. Plaintext revisions
/// from before the stack was sealed therefore can't be opened with this key.
pub struct SealingKey {
    key: Arc<DataKey>,
    sealer: Sealer,
    authenticator: Authenticator,
    lineage: Lineage,
    plugins: Arc<PluginRules>,
}

impl SealingKey {
    /// Creates the key of a stack. The policy of the sealer is ignored: every call names its own policy.
    pub fn new(key: Arc<DataKey>, lineage: Lineage, sealer: &Sealer) -> Self {
        Self {
            sealer: sealer.with_policy(SealingPolicy::Sensitive),
            authenticator: Authenticator::new(&key, lineage),
            key,
            lineage,
            plugins: Arc::default(),
        }
    }

    /// Sets the plugins that may wrap the key of the outputs. By default there are none.
    #[must_use]
    pub fn with_plugins(mut self, plugins: Arc<PluginRules>) -> Self {
        self.plugins = plugins;
        self
    }
}

impl MacKey for SealingKey {
    fn id(&self) -> KeyId {
        self.authenticator.key_id()
    }

    fn tag(&self, domain: TagDomain, bytes: &[u8]) -> Tag {
        Tag::from_bytes(self.authenticator.tag(domain, &[bytes]))
    }
}

impl StackKey for SealingKey {
    fn seal_entry(&self, policy: SealingPolicy, entry: &Entry) -> Result<Entry> {
        Ok(self.sealer.with_policy(policy).seal_entry(entry)?)
    }

    fn seal_shared(&self, policy: SealingPolicy, entry: &SharedEntry) -> Result<SharedEntry> {
        Ok(self.sealer.with_policy(policy).seal_shared(entry)?)
    }

    fn open_entry(&self, entry: &Entry) -> Result<Entry> {
        Ok(self.sealer.open_entry(entry)?)
    }

    fn seal_outputs(&self, policy: SealingPolicy, outputs: &StackOutputs) -> Result<StackOutputs> {
        Ok(self.sealer.with_policy(policy).seal_outputs(outputs)?)
    }

    fn open_outputs(&self, outputs: &StackOutputs) -> Result<StackOutputs> {
        Ok(self.sealer.open_outputs(outputs)?)
    }

    fn seal_snapshot(&self, policy: SealingPolicy, snapshot: &Snapshot) -> Result<Snapshot> {
        Ok(self.sealer.with_policy(policy).seal_snapshot(snapshot)?)
    }

    fn open_snapshot(&self, snapshot: &Snapshot) -> Result<Snapshot> {
        Ok(self.sealer.open_snapshot(snapshot)?)
    }

    fn endorse(&self, successor: KeyId, generation: u64) -> Tag {
        Tag::from_bytes(endorse(&self.key, self.lineage, successor, generation))
    }

    fn crypter(&self, entropy: Arc<dyn Entropy>) -> Result<Arc<dyn Crypter>> {
        Ok(Arc::new(ConfigCrypter::new(&self.key, self.lineage, entropy)))
    }

    fn outputs_id(&self) -> Option<KeyId> {
        Some(self.key.for_outputs().id())
    }

    fn outputs_document(
        &self,
        policy: SealingPolicy,
        stack: &StackName,
        serial: Serial,
        outputs: &StackOutputs,
        recipients: &[String],
    ) -> Result<Vec<u8>> {
        let mut named = Recipients::default();
        for recipient in recipients {
            named.add(recipient.parse()?);
        }
        let key = self.key.for_outputs();
        let wraps = wrap(&key, &self.plugins.apply(named)?)?;
        let open = self.open_outputs(outputs)?;
        let document = OutputsDocument::seal(&key, &wraps, self.lineage, stack, serial, policy, &open)?;
        Ok(document.encode())
    }
}

impl fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SealingKey({})", self.id())
    }
}
