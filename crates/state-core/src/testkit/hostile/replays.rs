//! Replays: the attacker restores authentic bytes of an earlier moment, of one object or of many.

use super::loot::Loot;
use super::stored_kind::lineage_of;
use super::{Edit, StoreImage};

/// Restores an object as it was at an earlier moment, or deletes it if it didn't exist then.
pub(super) fn object(earlier: &StoreImage, object: &str) -> Vec<Edit> {
    vec![Edit {
        object: object.to_owned(),
        content: earlier.get(object).cloned(),
    }]
}

/// Restores the whole store as it was at an earlier moment.
pub(super) fn store(now: &StoreImage, earlier: &StoreImage) -> Vec<Edit> {
    restored(now, earlier, |_| true)
}

/// Restores the attacked stack as it was at an earlier moment, except for its name pointer and its lock files.
pub(super) fn stack(now: &StoreImage, earlier: &StoreImage, loot: &Loot) -> Vec<Edit> {
    restored(now, earlier, |object| {
        lineage_of(object) == Some(loot.lineage) && !object.contains("/lock.")
    })
}

/// Restores the journal of the attacked stack as it was at an earlier moment, and keeps the current head.
pub(super) fn journal(now: &StoreImage, earlier: &StoreImage, loot: &Loot) -> Vec<Edit> {
    let folder = format!("stacks/{}/journal/", loot.lineage);
    restored(now, earlier, |object| object.starts_with(&folder))
}

/// Restores all objects for which `is_restored` returns true, and deletes those of them that didn't exist then.
fn restored(now: &StoreImage, earlier: &StoreImage, is_restored: impl Fn(&str) -> bool) -> Vec<Edit> {
    let newer = now.iter().filter(|(object, _)| earlier.get(object).is_none());
    let newer = newer.map(|(object, _)| Edit::delete(object));
    let older = earlier
        .iter()
        .map(|(object, bytes)| Edit::put(object, bytes.clone()));
    newer
        .chain(older)
        .filter(|edit| is_restored(&edit.object))
        .collect()
}
