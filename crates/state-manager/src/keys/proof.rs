//! How a client knows who wrote a value that it read.

use state_core::KeyId;

/// What this client knows about the writer of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proof {
    /// The value, or a value that names it by its digest, has a valid MAC under the data key with this id, which is or was
    /// the stack's.
    Mac(KeyId),
    /// The value is published and has a valid MAC under the output key in its document. The readers of the outputs hold that key too, so each of them may be the writer.
    Published,
    /// The client doesn't know the writer, because the stack has no data key. Digests detect damage, but not forgery.
    Plain,
    /// The client doesn't know the writer: no available identity opens the key under which the value is tagged, or the value
    /// says something that needs no tag, because the stack's authenticated head already says it. Such a value is
    /// shown as unchecked. It is never remembered in a pin and never signed.
    Unchecked,
}
