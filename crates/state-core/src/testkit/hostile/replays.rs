//! Replays: authentic bytes of an earlier moment, alone or together.

use super::loot::Loot;
use super::stored_kind::lineage_of;
use super::{Edit, StoreImage};

/// An object as it was at an earlier moment; deleted if it didn't exist then.
pub(super) fn object(earlier: &StoreImage, object: &str) -> Vec<Edit> {
    vec![Edit {
        object: object.to_owned(),
        content: earlier.get(object).cloned(),
    }]
}

/// The whole store as it was at an earlier moment.
pub(super) fn store(now: &StoreImage, earlier: &StoreImage) -> Vec<Edit> {
    restored(now, earlier, |_| true)
}

/// The attacked stack as it was at an earlier moment, its name and the lock apart.
pub(super) fn stack(now: &StoreImage, earlier: &StoreImage, loot: &Loot) -> Vec<Edit> {
    restored(now, earlier, |object| {
        lineage_of(object) == Some(loot.lineage) && !object.contains("/lock.")
    })
}

/// The journal of the attacked stack as it was at an earlier moment, under the present head.
pub(super) fn journal(now: &StoreImage, earlier: &StoreImage, loot: &Loot) -> Vec<Edit> {
    let folder = format!("stacks/{}/journal/", loot.lineage);
    restored(now, earlier, |object| object.starts_with(&folder))
}

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
