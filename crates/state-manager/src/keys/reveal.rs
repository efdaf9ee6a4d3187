//! Opens sealed values with the keys of their stack.

use crate::compute::compute;
use crate::context::StackContext;
use crate::keys::authenticate::{Authenticated, OpenedJournal};
use crate::keys::wrapped;
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
    mut snapshot: Snapshot,
) -> Result<Snapshot> {
    let known = wrapped::keys_of(head);
    if known.is_empty() {
        // The stack never had a key, so no value is sealed, even if some value looks sealed. Returning here saves a
        // pass over the state.
        return Ok(snapshot);
    }
    let (found, same) = compute(move || {
        let stored = codec::encode_stored(&snapshot);
        let text = String::from_utf8_lossy(&stored);
        let found: Vec<String> = sealed::keys_in(&text).into_iter().map(str::to_owned).collect();
        (found, snapshot)
    })
    .await?;
    snapshot = same;
    let is_found = |id: &KeyId| {
        let id = id.to_string();
        found.iter().any(|short| id.starts_with(short.as_str()))
    };
    let ids: BTreeSet<KeyId> = known.into_iter().filter(is_found).collect();
    if let (Some(short), true) = (found.first(), ids.is_empty()) {
        let reason = format!("it is sealed with key {short}…, which was never a key of this stack");
        return Err(Error::sealed(stack.object(), reason));
    }
    for id in ids {
        let key = wrapped::unwrap(stack, id).await?;
        let sealed = snapshot;
        snapshot = compute(move || key.open_snapshot(&sealed)).await??;
    }
    Ok(snapshot)
}

/// Returns a crypter that seals single values with the key in use, and opens those that were sealed with one of the
/// stack's earlier keys, too. The values lie outside of the store, for example in a program, so a rotation doesn't seal
/// them again.
///
/// # Errors
/// `Sealed` if the stack has no data key, or if no available identity opens the key.
pub(crate) async fn crypter(stack: &StackContext, opened: OpenedJournal) -> Result<Arc<dyn Crypter>> {
    let missing = |reason: &str| Error::sealed(stack.object(), reason);
    let Some(key) = opened.key else {
        return Err(match opened.head.key_id {
            None => missing("it has no data key: rekey the stack first"),
            Some(id) => missing(&format!("no available identity opens its key {id}")),
        });
    };
    let crypter_of = |key: &Arc<dyn StackKey>| key.crypter(Arc::clone(&stack.environment().entropy));
    let mut earlier = Vec::new();
    for id in wrapped::keys_of(&opened.head)
        .into_iter()
        .filter(|id| *id != key.id())
    {
        match wrapped::unwrap(stack, id).await {
            Ok(key) => earlier.push(crypter_of(&key)?),
            // The key was wrapped to other recipients, or deleted together with the history.
            Err(Error::Sealed { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    let current = crypter_of(&key)?;
    Ok(match earlier.is_empty() {
        true => current,
        false => Arc::new(RotatedCrypter { current, earlier }),
    })
}

/// A crypter of a stack whose data key was replaced.
#[derive(Debug)]
struct RotatedCrypter {
    current: Arc<dyn Crypter>,
    /// The crypters of the earlier keys, oldest first.
    earlier: Vec<Arc<dyn Crypter>>,
}

impl Crypter for RotatedCrypter {
    fn encrypt(&self, context: &str, plaintext: &[u8]) -> Result<String> {
        self.current.encrypt(context, plaintext)
    }

    fn decrypt(&self, context: &str, ciphertext: &str) -> Result<Vec<u8>> {
        let refused = match self.current.decrypt(context, ciphertext) {
            Err(error @ Error::Sealed { .. }) => error,
            other => return other,
        };
        let mut opened = self
            .earlier
            .iter()
            .filter_map(|key| key.decrypt(context, ciphertext).ok());
        opened.next().ok_or(refused)
    }
}
