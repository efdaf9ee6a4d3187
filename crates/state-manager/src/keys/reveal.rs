//! Opens sealed values with the keys of their stack.

use crate::compute::compute;
use crate::context::StackContext;
use crate::keys::authenticate::{Authenticated, OpenedHead};
use crate::keys::wrapped::{self, KeyFiles};
use state_core::head::SealingPolicy;
use state_core::sealing::StackKey;
use state_core::{Crypter, Error, Head, KeyId, Result, Snapshot, codec, sealed};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Returns the snapshot with all values opened, whichever key of the stack they are sealed with. A removed recipient
/// can therefore still open a snapshot whose values were all sealed before the removal. Each value is authenticated by
/// its own seal.
pub(crate) async fn reveal(
    stack: &StackContext,
    head: &Authenticated<Head>,
    snapshot: Snapshot,
) -> Result<Snapshot> {
    match reveal_if_possible(stack, head, snapshot).await? {
        (opened, None) => Ok(opened),
        (_, Some(unopened)) => Err(unopened),
    }
}

/// As [`reveal`]. If no available identity opens one of the keys, returns the snapshot unchanged, with the reason.
///
/// # Errors
/// `Sealed` if a value doesn't open although its key is open: the value was altered.
pub(crate) async fn reveal_if_possible(
    stack: &StackContext,
    head: &Authenticated<Head>,
    snapshot: Snapshot,
) -> Result<(Snapshot, Option<Error>)> {
    let known = wrapped::keys_of(head);
    if known.is_empty() {
        // The stack never had a key, so no value is sealed, even if some value looks sealed. Returning here saves a
        // pass over the state.
        return Ok((snapshot, None));
    }
    let mut snapshot = snapshot;
    if let (1, Some(key)) = (
        known.len(),
        known.iter().find_map(|id| stack.keyring().known(*id)),
    ) {
        // Nearly every stack: all sealed values open with the only key it ever had, and no search for their keys is needed.
        let (opened, sealed) = compute(move || (key.open_snapshot(&snapshot), snapshot)).await?;
        match opened {
            Ok(opened) => return Ok((opened, None)),
            // The search below determines whether the value was altered or is sealed with another key.
            Err(_) => snapshot = sealed,
        }
    }
    let (found, mut snapshot) = compute(move || {
        let found = sealing_keys(&snapshot);
        (found, snapshot)
    })
    .await?;
    let is_found = |id: &KeyId| {
        let id = id.to_string();
        found.iter().any(|short| id.starts_with(short.as_str()))
    };
    let ids: BTreeSet<KeyId> = known.into_iter().filter(is_found).collect();
    if let (Some(short), true) = (found.first(), ids.is_empty()) {
        let reason = format!("it is sealed with key {short}…, which was never a key of this stack");
        return Ok((snapshot, Some(Error::sealed(stack.object(), reason))));
    }
    let mut keys = Vec::new();
    for id in ids {
        match wrapped::unwrap(stack, id).await {
            Err(unopened @ Error::Sealed { .. }) => return Ok((snapshot, Some(unopened))),
            other => keys.push(other?),
        }
    }
    for key in keys {
        let sealed = snapshot;
        snapshot = compute(move || key.open_snapshot(&sealed)).await??;
    }
    Ok((snapshot, None))
}

/// The key ids, 16 hex digits each, of all values of a snapshot that look sealed. Searches the parts of an entry that can
/// hold a sealed value as they are, because encoding a large state takes much longer than the search.
fn sealing_keys(snapshot: &Snapshot) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut search = |text: &str| found.extend(sealed::keys_in(text).into_iter().map(str::to_owned));
    for entry in &snapshot.entries {
        for properties in [&entry.inputs, &entry.outputs].into_iter().flatten() {
            search(properties.json().as_str());
        }
        for (_, json) in entry.extensions.iter().chain(entry.unknown.iter()) {
            search(json.as_str());
        }
        for text in entry.id.iter().chain(&entry.init_errors) {
            search(text);
        }
    }
    // All other parts are small.
    let rest = Snapshot {
        entries: Vec::new(),
        ..snapshot.clone()
    };
    search(&String::from_utf8_lossy(&codec::encode_stored(&rest)));
    found
}

/// Returns a crypter that seals single values with the key in use, and opens those that were sealed with one of the
/// stack's earlier keys, too. The values lie outside of the store, for example in a program, so a rotation doesn't seal
/// them again.
///
/// # Errors
/// `Sealed` if the stack has no data key, or if no available identity opens the key.
pub(crate) async fn crypter(stack: &StackContext, opened: &OpenedHead) -> Result<Arc<dyn Crypter>> {
    let current = encrypter(stack, opened)?;
    let mut earlier = wrapped::keys_of(&opened.head);
    earlier.retain(|id| Some(*id) != opened.head.key_id);
    if earlier.is_empty() {
        return Ok(current);
    }
    let is_unopened = |id: &KeyId| stack.keyring().known(*id).is_none();
    let unopened: Vec<KeyId> = earlier.iter().copied().filter(is_unopened).collect();
    let files = match unopened.is_empty() {
        true => KeyFiles::new(),
        false => wrapped::read_files(stack, &unopened).await?,
    };
    Ok(Arc::new(RotatedCrypter {
        stack: stack.clone(),
        current,
        earlier,
        files,
    }))
}

/// Returns a crypter that seals single values with the key in use. It opens no value of an earlier key, so it reads no
/// key file.
///
/// # Errors
/// As [`crypter`].
pub(crate) fn encrypter(stack: &StackContext, opened: &OpenedHead) -> Result<Arc<dyn Crypter>> {
    match (&opened.key, opened.head.key_id) {
        (Some(key), _) => crypter_of(stack, &**key),
        (None, None) => Err(no_key(stack, opened.head.policy)),
        (None, Some(id)) => {
            let reason = format!("no available identity opens its key {id}");
            Err(Error::sealed(stack.object(), reason))
        }
    }
}

/// The error for a stack without a data key. Only a change of its policy gives a plaintext stack a key. Any other stack
/// gets one from the next session that has a key provider.
pub(crate) fn no_key(stack: &StackContext, policy: SealingPolicy) -> Error {
    let reason = match policy {
        SealingPolicy::Plaintext => "it has no data key: encrypt the stack first",
        _ => "it has no data key yet: the first session with an identity creates one",
    };
    Error::sealed(stack.object(), reason)
}

fn crypter_of(stack: &StackContext, key: &dyn StackKey) -> Result<Arc<dyn Crypter>> {
    key.crypter(Arc::clone(&stack.environment().entropy))
}

/// A crypter of a stack whose data key was replaced.
///
/// An earlier key is unwrapped when a value names it, and only once: a passphrase takes about a second, and a plugin may
/// ask for a touch.
#[derive(Debug)]
struct RotatedCrypter {
    stack: StackContext,
    current: Arc<dyn Crypter>,
    /// The ids of the earlier keys, oldest first.
    earlier: Vec<KeyId>,
    /// The files of the earlier keys that aren't unwrapped yet.
    files: KeyFiles,
}

impl Crypter for RotatedCrypter {
    fn encrypt(&self, context: &str, plaintext: &[u8]) -> Result<String> {
        self.current.encrypt(context, plaintext)
    }

    fn decrypt(&self, context: &str, ciphertext: &str) -> Result<Vec<u8>> {
        let Some(id) = self.earlier_key(ciphertext) else {
            return self.current.decrypt(context, ciphertext);
        };
        // A removed recipient who keeps an earlier key can make such a value: a caller who names the key refuses it.
        let object = format!("configuration secret `{}`", context.escape_debug());
        let expectations = self.stack.expectations();
        expectations.require_key(&object, Some(id), Some(id))?;
        let key = wrapped::unwrap_from(&self.stack, id, &self.files).map_err(|error| match error {
            Error::Sealed { reason, .. } => {
                let object = format!("configuration secret `{}`", context.escape_debug());
                let reason = format!("its data key {id} was replaced, and can't be opened: {reason}");
                Error::sealed(object, reason)
            }
            other => other,
        })?;
        crypter_of(&self.stack, &*key)?.decrypt(context, ciphertext)
    }

    fn earlier_key(&self, ciphertext: &str) -> Option<KeyId> {
        let (digits, _) = sealed::split(ciphertext)?;
        wrapped::find(&self.earlier, digits)
    }
}
