//! How a client knows who wrote a value that it read.

use state_core::KeyId;

/// How this client knows that a holder of the data key wrote a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proof {
    /// By a MAC under the stack's data key.
    Mac(KeyId),
    /// It doesn't: the stack has no data key. Digests detect damage, not malice.
    Plain,
    /// It doesn't: no available identity opens the stack's data key. Such a value is shown as unchecked; it is never
    /// remembered and never signed.
    Unchecked,
}
