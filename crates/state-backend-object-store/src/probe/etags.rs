//! ETags: the tokens of compare-and-swap, and how stores differ in them.

use super::place::{Answer, Ended, Place};
use state_core::backend::Finding;

const UNQUOTED: &str = "etags";

/// Whether the endpoint takes an ETag as a condition only without the quotes in which it gave it.
pub(super) async fn goes_back_unquoted(place: &Place) -> Result<bool, Ended> {
    let path = place.path("etags/quotes");
    place.put(&path, "one").await?;
    let Some(seen) = place.read(&path).await? else {
        return Ok(false);
    };
    let etag = seen.version.e_tag.clone().unwrap_or_default();
    if !etag.starts_with('"') || matches!(place.swap(&path, "two", &seen.version).await?, Answer::Done) {
        return Ok(false);
    }
    let Some(still) = place.read(&path).await?.filter(|still| still.bytes == seen.bytes) else {
        // It landed, and the answer was lost.
        return Ok(false);
    };
    let mut bare = still.version;
    bare.e_tag = Some(etag.trim_matches('"').to_owned());
    Ok(matches!(place.swap(&path, "two", &bare).await?, Answer::Done))
}

/// How that is told.
pub(super) fn quirk() -> Finding {
    Finding::noted(
        UNQUOTED,
        "an ETag is taken as a condition only without its quotes",
        "it is sent so: `unquoted-etags=true`, which a store made here remembers",
    )
}

/// Lists may show other ETags than reads do.
pub(super) async fn in_lists(place: &Place) -> Result<Finding, Ended> {
    const CHECK: &str = "etags-in-lists";
    let path = place.path("etags/list/object");
    place.put(&path, "one").await?;
    let of_head = place.head(&path).await?.e_tag;
    let listed = place.list(&place.path("etags/list")).await?;
    let of_list = listed
        .into_iter()
        .find(|meta| meta.location == path)
        .and_then(|meta| meta.e_tag);
    Ok(if of_head == of_list {
        Finding::holds(CHECK, "the same as those of reads")
    } else {
        Finding::noted(
            CHECK,
            "others than those of reads",
            "only those of reads are used as conditions",
        )
    })
}

/// Whether an object that gets its old content back gets its old ETag back.
pub(super) async fn repeat(place: &Place) -> Result<Finding, Ended> {
    const CHECK: &str = "etag-repeats";
    let path = place.path("etags/repeat");
    let mut seen = Vec::new();
    for content in ["one", "two", "one"] {
        place.put(&path, content).await?;
        let meta = place.read(&path).await?.map(|seen| seen.meta);
        seen.push(meta.map(|meta| (meta.e_tag, meta.version)));
    }
    Ok(if seen.first() == seen.last() {
        Finding::noted(
            CHECK,
            "the same content has the same ETag again",
            "nothing here is ever written twice: each document holds a nonce",
        )
    } else {
        Finding::holds(CHECK, "no version comes twice")
    })
}
