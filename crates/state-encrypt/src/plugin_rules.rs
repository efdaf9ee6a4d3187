//! Which age plugins may be started for recipients that a store names.
//!
//! A plugin is a program on the user's path. A store, or another recipient of a stack, could name any program of the form
//! `age-plugin-NAME`, so a recipient alone never starts one.

use crate::error::{Error, Result};
use crate::recipient::Recipients;
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The age plugins that the user trusts, and the time limit of each call. By default no plugin is trusted.
#[derive(Debug)]
pub struct PluginRules {
    trusted: Mutex<BTreeSet<String>>,
    timeout: Duration,
}

impl Default for PluginRules {
    fn default() -> Self {
        Self {
            trusted: Mutex::default(),
            timeout: Self::DEFAULT_TIMEOUT,
        }
    }
}

impl PluginRules {
    /// The default time limit of each call: enough to touch a hardware key.
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

    /// Sets the time limit of each call.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Returns the time limit of each call.
    pub const fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Trusts plugins by their names.
    pub fn trust(&self, names: impl IntoIterator<Item = String>) {
        self.trusted
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend(names);
    }

    /// Trusts the plugins of recipients that the user named.
    pub fn trust_plugins_of(&self, recipients: &Recipients) {
        let names = recipients.keys().iter().filter_map(|key| key.plugin());
        self.trust(names.map(str::to_owned).collect::<Vec<_>>());
    }

    /// Checks recipients that a store names, and applies the time limit to them.
    ///
    /// # Errors
    /// [`Error::UntrustedPlugin`] if a recipient needs a plugin that isn't trusted.
    pub(crate) fn apply(&self, recipients: Recipients) -> Result<Recipients> {
        let trusted = self.trusted.lock().unwrap_or_else(PoisonError::into_inner);
        for recipient in recipients.keys() {
            if let Some(plugin) = recipient.plugin().filter(|name| !trusted.contains(*name)) {
                return Err(Error::UntrustedPlugin {
                    recipient: recipient.to_string(),
                    plugin: plugin.to_owned(),
                });
            }
        }
        #[cfg(feature = "plugin")]
        let recipients = recipients.with_plugin_timeout(self.timeout());
        Ok(recipients)
    }
}
