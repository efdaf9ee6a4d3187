//! The keys, names and old copies that an attacker has besides access to the store, and the text that identifies forged
//! content.

use super::image::StoreImage;
use crate::sealing::StackKey;
use crate::{Lineage, Serial, StackName};
use bytes::Bytes;
use std::sync::Arc;

/// A text that forged content contains and that no client writes. A test fails if a client shows this text as content
/// of the stack.
pub const MARKER: &str = "mallory";

/// The keys, names and old copies that an attacker has besides access to the store.
#[derive(Clone, Debug)]
pub struct Loot {
    /// The stack under attack.
    pub lineage: Lineage,
    /// The name of the user who made the revisions of the stack, as the metadata of their updates contains it. Some
    /// forgeries replace this name by [`MARKER`]; they change nothing if no revision has this author.
    pub author: String,
    /// A public key of the attacker, as the head stores recipients of the data key.
    pub recipient: String,
    /// Another stack of the same store, with the same recipients.
    pub other: Option<Lineage>,
    /// The name of the stack `other`.
    pub other_name: Option<StackName>,
    /// Copies of the store at earlier moments, oldest first.
    pub earlier: Vec<StoreImage>,
    /// A data key that the attacker held before it was replaced.
    pub former: Option<Arc<dyn StackKey>>,
    /// A key file that the attacker wrapped to the recipients of the stack.
    pub wrapped: Option<Bytes>,
    /// Documents of published outputs with their serials, in ascending order. The attacker sealed them with a key of
    /// their own, which is wrapped to the recipients of the stack. Their outputs contain [`MARKER`].
    pub outputs: Vec<(Serial, Bytes)>,
}
