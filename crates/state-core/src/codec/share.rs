//! Texts that stand many times in one snapshot, kept once.

use std::collections::HashSet;
use std::sync::Arc;

/// Longer values are seldom alike.
const LONGEST: usize = 256;

/// The texts that were seen while a snapshot is read. What it gives out lives on without it.
#[derive(Debug, Default)]
pub(super) struct Shared(HashSet<Arc<str>>);

impl Shared {
    /// The text, the same one for the same content if it is short.
    pub(super) fn text(&mut self, text: &str) -> Arc<str> {
        if text.len() > LONGEST {
            return text.into();
        }
        if let Some(known) = self.0.get(text) {
            return Arc::clone(known);
        }
        let new: Arc<str> = text.into();
        self.0.insert(Arc::clone(&new));
        new
    }
}
