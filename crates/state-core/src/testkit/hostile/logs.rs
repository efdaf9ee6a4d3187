//! Forged logs of updates. A log has no tag: the record that ended its update names the log by its digest, and that
//! record is in a journal frame with a tag, or on a page of the history that the head names.

use super::documents::{path_of, referred_page, rewritten, uncompressed};
use super::journals::{ForgedHead, ForgedTag, StoredJournal};
use super::loot::{Loot, MARKER};
use super::{Edit, StoreImage};
use crate::journal::LogRef;
use crate::{LogLevel, LogLine, Timestamp};

/// Returns a stored log with one line, which no client logged.
fn forged() -> Option<Vec<u8>> {
    let line = LogLine::new(Timestamp::new("2026-01-01T00:00:00Z"), LogLevel::Info, MARKER);
    let mut text = serde_json::to_vec(&line).ok()?;
    text.push(b'\n');
    uncompressed(&text)
}

/// Replaces a stored log by a forged one.
pub(super) fn lines(store: &StoreImage, object: &str) -> Vec<Edit> {
    let forged = forged().filter(|_| store.get(object).is_some());
    forged
        .map(|bytes| vec![Edit::put(object, bytes)])
        .unwrap_or_default()
}

/// Replaces a stored log by a forged one, and its digest in every frame and page that names the log. The head is forged
/// too, and refers to the new chain and the new pages.
pub(super) fn named_lines(store: &StoreImage, object: &str, loot: &Loot, tag: ForgedTag) -> Vec<Edit> {
    let (Some(stored), Some(forged)) = (store.get(object), forged()) else {
        return Vec::new();
    };
    let [Some(old), Some(new)] =
        [stored, &forged[..]].map(|bytes| serde_json::to_string(&LogRef::of(bytes)).ok())
    else {
        return Vec::new();
    };
    let mut edits = Vec::new();
    if let Some(mut journal) = StoredJournal::read(store, loot) {
        let mut is_named = false;
        for frame in &mut journal.frames {
            let text = String::from_utf8_lossy(&frame.payload);
            if text.contains(&old) {
                frame.payload = text.replace(&old, &new).into_bytes();
                is_named = true;
            }
        }
        if is_named {
            edits = journal.edits(store, loot, tag, ForgedHead::Adapted);
        }
    }
    // The pages are forged in the store with the forged journal, because both forgeries change the head.
    let head = store.with(&edits).head(loot.lineage);
    let pages = head.map(|head| head.history.pages).unwrap_or_default();
    for (at, page) in pages.iter().enumerate() {
        let forged = store.get(&path_of(page, loot)).and_then(|page| {
            rewritten(page, |body| {
                if let Ok(forged) = serde_json::from_str(&body.to_string().replace(&old, &new)) {
                    *body = forged;
                }
            })
            .filter(|forged| forged != page)
        });
        if let Some(forged) = forged {
            edits.extend(referred_page(&store.with(&edits), at, forged, loot));
        }
    }
    edits.push(Edit::put(object, forged));
    edits
}
