//! Checks that an object is replaced only if the request names its current version, and by one writer.

use super::place::{ProbeAbort, ProbeFolder, WriteOutcome};
use super::race::{Race, RaceResult, Races, at_once};
use futures_util::future::try_join;
use futures_util::{StreamExt, TryStreamExt, stream};
use state_core::backend::Finding;

const CHECK: &str = "compare-and-swap";

const LOST: &str = "a writer may overwrite another writer's change: heads, leases and names aren't safe";

/// Checks with one writer: an existing object can't be created again. A swap is accepted with the current version, and
/// refused with a stale version or for a missing object.
pub(super) async fn conditions(place: &ProbeFolder<'_>) -> Result<Finding, ProbeAbort> {
    const CHECK: &str = "conditions";
    let path = place.path("conditions/object");
    place.put(&path, "one").await?;
    let read = async { Ok(place.read(&path).await?) };
    let (created, first) = try_join(place.create(&path, "two"), read).await?;
    if matches!(created, WriteOutcome::Done) {
        let found = "an existing object was created again";
        return Ok(Finding::broken(CHECK, found, LOST));
    }
    let Some(first) = first else {
        return Ok(Finding::broken(
            CHECK,
            "an object that was written is missing",
            LOST,
        ));
    };
    if !matches!(
        place.swap(&path, "two", &first.version).await?,
        WriteOutcome::Done
    ) {
        // The swap may have taken effect nevertheless: its answer was lost, or the HTTP client repeated the request
        // and the repetition was refused.
        let landed = place
            .read(&path)
            .await?
            .is_some_and(|seen| &*seen.bytes == b"two");
        if !landed {
            let found = "the current version isn't accepted as a condition";
            return Ok(Finding::broken(CHECK, found, "nothing can be replaced safely"));
        }
    }
    let gone = place.path("conditions/gone");
    let stale = place.swap(&path, "three", &first.version);
    let (stale, missing) = try_join(stale, place.swap(&gone, "four", &first.version)).await?;
    if matches!(stale, WriteOutcome::Done) {
        let found = "a stale version was accepted as a condition";
        return Ok(Finding::broken(CHECK, found, LOST));
    }
    if matches!(missing, WriteOutcome::Done) {
        let found = "a missing object was replaced";
        return Ok(Finding::broken(CHECK, found, LOST));
    }
    Ok(Finding::holds(
        CHECK,
        "the current version is accepted, a stale version is refused",
    ))
}

/// Lets many writers replace the same version of an object at the same time, in several rounds. Exactly one of them may
/// succeed in each round. A round has an object of its own and writes it twice, because some stores allow one write per
/// second to an object.
pub(super) async fn one_winner(
    place: &ProbeFolder<'_>,
    writers: usize,
    rounds: usize,
) -> Result<Finding, ProbeAbort> {
    let races = (0..rounds).map(|round| race(place, writers, round));
    let races = stream::iter(races).buffered(at_once(writers));
    let races = Races(races.try_collect().await?);
    if let Some(found) = races.wrong(writers) {
        return Ok(Finding::broken(CHECK, found, LOST));
    }
    if let Some(found) = races.missing() {
        return Ok(Finding::broken(CHECK, found, "replaced objects may be lost"));
    }
    let (unchanged, all) = (races.count(RaceResult::Unchanged), races.0.len());
    if unchanged > 0 {
        let found = format!("none of {writers} writers succeeded in {unchanged} of {all} races");
        return Ok(Finding::broken(CHECK, found, "nothing can be replaced safely"));
    }
    Ok(Finding::holds(
        CHECK,
        format!("one winner of {writers} concurrent writers in each of {all} races"),
    ))
}

async fn race(place: &ProbeFolder<'_>, writers: usize, round: usize) -> Result<Race, ProbeAbort> {
    const BEFORE: &str = "before";
    let path = place.path(&format!("swaps/{round}"));
    place.put(&path, BEFORE).await?;
    let Some(before) = place.read(&path).await? else {
        return Err(Finding::broken(CHECK, "an object that was written is missing", LOST).into());
    };
    let swaps = (0..writers).map(|writer| place.swap(&path, writer.to_string(), &before.version));
    Race::run(place, &path, Some(BEFORE.as_bytes()), swaps).await
}
