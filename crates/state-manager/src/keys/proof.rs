//! How a client knows who wrote a value that it read.

use state_core::KeyId;

/// How this client knows that a holder of the data key wrote a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proof {
    /// The value has a valid MAC under the stack's data key with this id.
    Mac(KeyId),
    /// The value is published and has a valid MAC under the output key that belongs to the data key with this id. The
    /// readers of the outputs hold that key too, so each of them may be the writer.
    Published(KeyId),
    /// The client doesn't know the writer, because the stack has no data key. Digests detect damage, but not forgery.
    Plain,
    /// The client doesn't know the writer, because no available identity opens the stack's data key. Such a value is
    /// shown as unchecked. It is never remembered in a pin and never signed.
    Unchecked,
}
