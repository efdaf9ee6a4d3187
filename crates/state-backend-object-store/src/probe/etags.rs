//! Checks of ETags, which are the conditions of compare-and-swap, and of their differences between stores.

use super::place::{ProbeAbort, ProbeFolder, WriteOutcome};
use state_core::backend::Finding;

const UNQUOTED: &str = "etags";

/// Returns whether the endpoint accepts an ETag as a condition only without the quotes that its answers have.
pub(super) async fn goes_back_unquoted(place: &ProbeFolder<'_>) -> Result<bool, ProbeAbort> {
    let path = place.path("etags/quotes");
    place.put(&path, "one").await?;
    let Some(seen) = place.read(&path).await? else {
        return Ok(false);
    };
    let etag = seen.version.e_tag.clone().unwrap_or_default();
    if !etag.starts_with('"') || matches!(place.swap(&path, "two", &seen.version).await?, WriteOutcome::Done)
    {
        return Ok(false);
    }
    let Some(still) = place.read(&path).await?.filter(|still| still.bytes == seen.bytes) else {
        // The first swap took effect although its answer was lost, so quoted ETags are accepted.
        return Ok(false);
    };
    let mut bare = still.version;
    bare.e_tag = Some(etag.trim_matches('"').to_owned());
    let swapped = place.swap(&path, "two", &bare).await?;
    // A repeated swap is refused by its own first attempt, if only the answer to that one was lost.
    let landed =
        async { Ok::<_, ProbeAbort>(place.read(&path).await?.is_some_and(|now| now.bytes == "two")) };
    Ok(matches!(swapped, WriteOutcome::Done) || landed.await?)
}

/// Returns the finding for an endpoint that accepts ETags only without quotes.
pub(super) fn quirk() -> Finding {
    Finding::noted(
        UNQUOTED,
        "an ETag is accepted as a condition only without quotes",
        "ETags are sent without quotes (`unquoted-etags=true`); a new store at this URL records this setting",
    )
}

/// Compares the ETags in lists with those of reads.
pub(super) async fn in_lists(place: &ProbeFolder<'_>) -> Result<Finding, ProbeAbort> {
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
            "they differ from those of reads",
            "harmless: only ETags of reads are used as conditions",
        )
    })
}

/// Checks whether an object that gets its earlier content back also gets its earlier ETag back.
pub(super) async fn repeat(place: &ProbeFolder<'_>) -> Result<Finding, ProbeAbort> {
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
            "an object that gets its earlier content back gets its earlier ETag back",
            "harmless: each document contains a nonce, so no content is ever written twice",
        )
    } else {
        Finding::holds(CHECK, "each write has a new version")
    })
}
