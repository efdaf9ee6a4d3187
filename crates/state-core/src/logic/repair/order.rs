//! Entries that stand before what they refer to.

use super::Step;
use crate::dag;
use crate::entry::SharedEntry;

/// Moves what is needed to just before what needs it, and tells of each move. Leaves a list with a circle as it is.
pub(super) fn restore(entries: &mut Vec<SharedEntry>, steps: &mut Vec<Step>) {
    if let Ok(order) = dag::stable_order(entries) {
        steps.extend(moves(entries, &order));
        *entries = order.iter().map(|&position| entries[position].clone()).collect();
    }
}

/// The entries that stand before one that they stood behind, in their new order.
pub(super) fn moves(entries: &[SharedEntry], order: &[usize]) -> Vec<Step> {
    let mut moves = Vec::new();
    // The entry with the lowest old position of those that come later, from the end on.
    let mut lowest: Option<usize> = None;
    for &position in order.iter().rev() {
        match lowest {
            Some(before) if before < position => moves.push(Step::Move {
                entry: entries[position].key(),
                before: entries[before].key(),
            }),
            _ => lowest = Some(position),
        }
    }
    moves.reverse();
    moves
}
