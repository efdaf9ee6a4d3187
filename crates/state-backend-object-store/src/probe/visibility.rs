//! Reads and lists see at once what was written or deleted.

use super::place::{Answer, Ended, Place};
use object_store::path::Path;
use state_core::backend::Finding;
use std::collections::BTreeSet;

pub(super) async fn reads(place: &Place, objects: usize) -> Result<Finding, Ended> {
    const CHECK: &str = "reads";
    let stale = |found: String| {
        Finding::broken(
            CHECK,
            found,
            "a new owner may not see what was acknowledged before it took over",
        )
    };
    for number in 0..objects {
        let path = place.path(&format!("reads/{number}"));
        // A store may remember that there was nothing.
        let nothing = place.read(&path).await?;
        if nothing.is_some() {
            return Ok(stale("something was there that nobody wrote".to_owned()));
        }
        for content in ["first", "second"] {
            place.put(&path, content).await?;
            let seen = place.read(&path).await?;
            if seen.is_none_or(|seen| seen.bytes != content) {
                return Ok(stale(format!("a read behind the {content} write didn't see it")));
            }
        }
        place.delete(&path).await?;
        if place.read(&path).await?.is_some() {
            return Ok(stale("a read behind a deletion didn't see it".to_owned()));
        }
    }
    let found = format!(
        "{} writes and {objects} deletions, each seen at once",
        2 * objects
    );
    Ok(Finding::holds(CHECK, found))
}

pub(super) async fn lists(place: &Place, objects: usize) -> Result<Vec<Finding>, Ended> {
    const CHECK: &str = "lists";
    let folder = place.path("lists");
    let name = |number: usize| format!("{number:020}");
    let mut expected = BTreeSet::new();
    let mut sorted = true;
    let stale = |found: String| {
        let meaning = "the end of a journal may be missed, and with it what was acknowledged";
        Ok(vec![Finding::broken(CHECK, found, meaning)])
    };
    // Backwards, so that the order of the list isn't that of the writes.
    for number in (0..objects).rev() {
        let path = place.path(&format!("lists/{}", name(number)));
        if !matches!(place.create(&path, "x").await?, Answer::Done) && place.read(&path).await?.is_none() {
            return stale(format!("object {number} could not be made"));
        }
        expected.insert(path);
        let listed = place.list(&folder).await?;
        let listed: Vec<_> = listed.into_iter().map(|meta| meta.location).collect();
        sorted &= listed.is_sorted();
        if listed.into_iter().collect::<BTreeSet<_>>() != expected {
            let made = expected.len();
            return stale(format!(
                "a list behind write {made} doesn't show just what is there"
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
            return stale("a list behind a deletion still shows what is gone".to_owned());
        }
    }
    let Some(exact) = shows_what_is_behind(place, &expected).await? else {
        return stale("a list that begins behind a name doesn't show all that is behind it".to_owned());
    };
    let mut findings = vec![Finding::holds(
        CHECK,
        format!("{objects} writes and a deletion, each seen at once"),
    )];
    if !sorted {
        let meaning = "they are sorted here, which costs nothing that matters";
        findings.push(Finding::noted("order", "lists come unsorted", meaning));
    }
    if !exact {
        let found = "a list that begins behind a name shows what is before it too";
        let meaning = "what is shown too much is left out here";
        findings.push(Finding::noted("list-offsets", found, meaning));
    }
    Ok(findings)
}

/// Whether a list that begins behind a name shows just what is behind it; none if it doesn't show all of that.
async fn shows_what_is_behind(place: &Place, there: &BTreeSet<Path>) -> Result<Option<bool>, Ended> {
    let Some(middle) = there.iter().nth(there.len() / 2) else {
        return Ok(Some(true));
    };
    let shown = place.list_behind(&place.path("lists"), middle).await?;
    let shown: BTreeSet<_> = shown.into_iter().map(|meta| meta.location).collect();
    let behind: BTreeSet<_> = there.range(middle.clone()..).skip(1).cloned().collect();
    Ok(shown.is_superset(&behind).then_some(shown == behind))
}

/// The store's own times tell how old a lease is.
pub(super) async fn times(place: &Place) -> Result<Finding, Ended> {
    const CHECK: &str = "times";
    let mut before = None;
    for number in 0..3 {
        let path = place.path(&format!("times/{number}"));
        place.put(&path, "x").await?;
        let now = place.head(&path).await?.last_modified;
        if before.is_some_and(|before| now < before) {
            let meaning =
                "whether a silent writer is dead is judged by watching it, which takes a lease's time";
            return Ok(Finding::noted(CHECK, "the store's clock went backwards", meaning));
        }
        before = Some(now);
    }
    Ok(Finding::holds(CHECK, "the store's clock goes forward"))
}

/// What the store says when somebody deletes an object that does not exist.
pub(super) async fn deletions_of_nothing(place: &Place) -> Result<Finding, Ended> {
    const CHECK: &str = "deletions";
    let path = place.path("deletions/nothing");
    match place.delete(&path).await {
        Ok(()) => Ok(Finding::holds(CHECK, "deleting what isn't there is fine")),
        Err(trouble) if trouble.is_missing() => Ok(Finding::noted(
            CHECK,
            "deleting what isn't there is an error",
            "it is taken as done, as elsewhere",
        )),
        Err(trouble) => Err(trouble.into()),
    }
}
