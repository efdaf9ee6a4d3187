//! Checks that reads and lists show every write and deletion at once.

use super::place::{ProbeAbort, ProbeFolder, WriteOutcome};
use futures_util::future::try_join_all;
use object_store::path::Path;
use state_core::backend::Finding;
use std::collections::BTreeSet;

/// Checks that reads show each write and deletion of some objects, all at once.
pub(super) async fn reads(place: &ProbeFolder<'_>, objects: usize) -> Result<Finding, ProbeAbort> {
    const CHECK: &str = "reads";
    let seen = try_join_all((0..objects).map(|number| stale_read(place, number))).await?;
    if let Some(stale) = seen.into_iter().flatten().next() {
        let meaning = "a new owner may not see what was acknowledged before it took over";
        return Ok(Finding::broken(CHECK, stale, meaning));
    }
    let found = format!(
        "{} writes and {objects} deletions, each seen at once",
        2 * objects
    );
    Ok(Finding::holds(CHECK, found))
}

/// Writes an object twice and deletes it, with a read after each step. Returns what a read showed wrongly.
async fn stale_read(place: &ProbeFolder<'_>, number: usize) -> Result<Option<String>, ProbeAbort> {
    let path = place.path(&format!("reads/{number}"));
    // Read the missing object first: a store may cache that it doesn't exist.
    if place.read(&path).await?.is_some() {
        return Ok(Some("an object existed that no process wrote".to_owned()));
    }
    for content in ["first", "second"] {
        place.put(&path, content).await?;
        let seen = place.read(&path).await?;
        if seen.is_none_or(|seen| seen.bytes != content) {
            return Ok(Some(format!("a read after the {content} write didn't show it")));
        }
    }
    place.delete(&path).await?;
    let is_left = place.read(&path).await?.is_some();
    Ok(is_left.then(|| "a read after a deletion still showed the object".to_owned()))
}

pub(super) async fn lists(place: &ProbeFolder<'_>, objects: usize) -> Result<Vec<Finding>, ProbeAbort> {
    const CHECK: &str = "lists";
    let folder = place.path("lists");
    let name = |number: usize| format!("{number:020}");
    let mut expected = BTreeSet::new();
    let mut sorted = true;
    let stale = |found: String| {
        let meaning = "the end of a journal, and acknowledged writes in it, may be missed";
        Ok(vec![Finding::broken(CHECK, found, meaning)])
    };
    // In reverse, so that the order of the list differs from that of the writes.
    for number in (0..objects).rev() {
        let path = place.path(&format!("lists/{}", name(number)));
        if !matches!(place.create(&path, "x").await?, WriteOutcome::Done)
            && place.read(&path).await?.is_none()
        {
            return stale(format!("object {number} could not be created"));
        }
        expected.insert(path);
        let listed = place.list(&folder).await?;
        let listed: Vec<_> = listed.into_iter().map(|meta| meta.location).collect();
        sorted &= listed.is_sorted();
        if listed.into_iter().collect::<BTreeSet<_>>() != expected {
            let made = expected.len();
            return stale(format!(
                "a list after write {made} doesn't show exactly the objects that exist"
            ));
        }
    }
    if let Some(first) = expected.pop_first() {
        place.delete(&first).await?;
        let listed: BTreeSet<_> = place
            .list(&folder)
            .await?
            .into_iter()
            .map(|meta| meta.location)
            .collect();
        if listed != expected {
            return stale("a list after a deletion still shows the object".to_owned());
        }
    }
    let Some(exact) = shows_what_is_behind(place, &expected).await? else {
        return stale("a list with an offset doesn't show all objects after it".to_owned());
    };
    let mut findings = vec![Finding::holds(
        CHECK,
        format!("{objects} writes and a deletion, each seen at once"),
    )];
    if !sorted {
        let meaning = "harmless: lists are sorted by this program";
        findings.push(Finding::noted("order", "lists come unsorted", meaning));
    }
    if !exact {
        let found = "a list with an offset also shows objects before it";
        let meaning = "harmless: surplus objects are skipped";
        findings.push(Finding::noted("list-offsets", found, meaning));
    }
    Ok(findings)
}

/// Lists with an offset. Returns whether the list shows exactly the objects after the offset; `None` if some of them
/// are missing.
async fn shows_what_is_behind(
    place: &ProbeFolder<'_>,
    there: &BTreeSet<Path>,
) -> Result<Option<bool>, ProbeAbort> {
    let Some(middle) = there.iter().nth(there.len() / 2) else {
        return Ok(Some(true));
    };
    let shown = place.list_behind(&place.path("lists"), middle).await?;
    let shown: BTreeSet<_> = shown.into_iter().map(|meta| meta.location).collect();
    let behind: BTreeSet<_> = there.range(middle.clone()..).skip(1).cloned().collect();
    Ok(shown.is_superset(&behind).then_some(shown == behind))
}

/// Checks that the store's clock doesn't go backwards, because the age of a lease is measured by it.
pub(super) async fn times(place: &ProbeFolder<'_>) -> Result<Finding, ProbeAbort> {
    const CHECK: &str = "times";
    let mut before = None;
    for number in 0..3 {
        let path = place.path(&format!("times/{number}"));
        place.put(&path, "x").await?;
        let now = place.head(&path).await?.last_modified;
        if before.is_some_and(|before| now < before) {
            let meaning = "leases are then watched for their whole duration before a takeover";
            return Ok(Finding::noted(CHECK, "the store's clock went backwards", meaning));
        }
        before = Some(now);
    }
    Ok(Finding::holds(CHECK, "the store's clock goes forward"))
}

/// Checks the store's answer to the deletion of a missing object.
pub(super) async fn deletions_of_nothing(place: &ProbeFolder<'_>) -> Result<Finding, ProbeAbort> {
    const CHECK: &str = "deletions";
    let path = place.path("deletions/nothing");
    match place.delete_existing(&path).await {
        Ok(()) => Ok(Finding::holds(CHECK, "deleting a missing object succeeds")),
        Err(failure) if failure.is_missing() => Ok(Finding::noted(
            CHECK,
            "deleting a missing object is an error",
            "harmless: it counts as deleted",
        )),
        Err(failure) => Err(failure.into()),
    }
}
