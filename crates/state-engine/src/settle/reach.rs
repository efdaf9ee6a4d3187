//! What an object refers to that turned out to be made, long after it was meant to be: much may have gone or moved.

use super::request;
use crate::deployment::missing;
use crate::error::Result;
use crate::plan::without_references_to;
use state_core::{Address, Dependency, Entry, SharedEntry, State, UpdateResult};
use state_manager::{Session, Update};

/// The entry without its references to what went since it was meant to be made.
pub(super) fn without_the_gone(meant: &Entry, state: &State) -> Entry {
    without(meant, state, |_| true)
}

/// The entry with nothing that it refers to behind the tombstone whose place it takes: that is brought before it, or, if
/// it needs the tombstone itself, referred to no more.
pub(super) async fn in_reach(session: &Session, meant: Entry) -> Result<Entry> {
    let state = session.state();
    let key = meant.key();
    // What has no place yet stands behind everything.
    let stands_before = |other: &SharedEntry| state.stands_before(&other.key(), &key);
    if state.entry(&key).is_none() {
        return Ok(meant);
    }
    let reached = without(&meant, &state, stands_before);
    if reached == meant {
        return Ok(meant);
    }
    // All of it, for nothing of the update that brings it is recorded yet.
    let needed = missing(&state, &|_| false, &meant);
    if needed.iter().any(|entry| entry.key() == key) {
        return Ok(reached);
    }
    let request = request("what it needs is brought before it");
    let update = session.start_update(request).await?;
    let brought = bring(session, &update, &needed).await;
    let result = match brought {
        Ok(()) => UpdateResult::Succeeded,
        Err(_) => UpdateResult::Failed,
    };
    update.finish(result).await?;
    brought.map(|()| meant)
}

async fn bring(session: &Session, update: &Update, needed: &[SharedEntry]) -> Result<()> {
    for entry in needed {
        update.same(Entry::clone(&*session.reveal(entry)?)).await?;
    }
    Ok(())
}

/// The entry without its references to what has no such generation.
fn without(meant: &Entry, state: &State, is_such: impl Fn(&SharedEntry) -> bool) -> Entry {
    let has_one = |address: &Address, id: Option<&str>| {
        let mut all = state.generations(address);
        all.any(|generation| (id.is_none() || generation.id.as_deref() == id) && is_such(generation))
    };
    let references = meant.references();
    let gone = references.filter_map(|reference| match reference.to {
        Dependency::Entry(address) => Some(address).filter(|address| !has_one(address, None)),
        Dependency::Group(_) => None,
    });
    let mut entry = without_references_to(meant, &gone.collect());
    let provider = entry.provider.into_inner();
    entry.provider = provider
        .filter(|by| has_one(&by.address, by.id.as_deref()))
        .into();
    entry
}
