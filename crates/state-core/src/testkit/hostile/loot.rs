//! What an attacker has besides access to the store, and how forged content is recognized.

use super::image::StoreImage;
use crate::sealing::StackKey;
use crate::{Lineage, StackName};
use bytes::Bytes;
use std::sync::Arc;

/// The text by which forged content is recognized.
pub const MARKER: &str = "mallory";

/// What the attacker has besides access to the store.
#[derive(Clone, Debug)]
pub struct Loot {
    /// The stack under attack.
    pub lineage: Lineage,
    /// A recipient of the attacker, in the form of a head.
    pub recipient: String,
    /// Another stack of the same store, with the same recipients.
    pub other: Option<Lineage>,
    /// The name of that stack.
    pub other_name: Option<StackName>,
    /// Copies of the store at earlier moments, oldest first.
    pub earlier: Vec<StoreImage>,
    /// A data key that the attacker held before it was replaced.
    pub former: Option<Arc<dyn StackKey>>,
    /// A key file that the attacker wrapped to the recipients of the stack.
    pub wrapped: Option<Bytes>,
}
