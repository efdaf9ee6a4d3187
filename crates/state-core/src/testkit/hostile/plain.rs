//! A plain stack in the place of a sealed one.

use super::image::head_of;
use super::loot::Loot;
use super::stored_kind::lineage_of;
use super::{Edit, StoreImage};
use crate::backend::NamePointer;
use crate::head::SealingPolicy;
use crate::{Enveloped, Head, Nonce};

/// Replaces the attacked stack by an empty plain one with the same lineage and name, as if it had just been created. Its
/// lock files stay.
pub(super) fn empty_stack(store: &StoreImage, loot: &Loot) -> Vec<Edit> {
    let Some(now) = store.head(loot.lineage) else {
        return Vec::new();
    };
    let mut head = Head::new(loot.lineage, now.name, Nonce::from_bytes([0x66; 16]));
    head.policy = SealingPolicy::Plaintext;
    (head.epoch, head.generation) = (now.epoch, now.generation);
    let is_kept = |object: &str| object.ends_with("/meta.json") || object.contains("/lock.");
    let of_stack = store.iter().map(|(object, _)| object);
    let of_stack = of_stack.filter(|object| lineage_of(object) == Some(loot.lineage) && !is_kept(object));
    of_stack
        .map(Edit::delete)
        .chain(names_without_tags(store, loot))
        .chain([Edit::put(head_of(loot.lineage), head.encode())])
        .collect()
}

/// Removes the tags from all name pointers that lead to the attacked stack.
fn names_without_tags(store: &StoreImage, loot: &Loot) -> Vec<Edit> {
    let names = store.below("names/");
    let pointers =
        names.filter_map(|(object, bytes)| Some((object, NamePointer::decode(object, bytes).ok()?)));
    let of_stack = pointers.filter(|(_, pointer)| pointer.lineage() == Some(loot.lineage));
    of_stack
        .map(|(object, mut pointer)| {
            pointer.tags.clear();
            Edit::put(object, pointer.encode())
        })
        .collect()
}
