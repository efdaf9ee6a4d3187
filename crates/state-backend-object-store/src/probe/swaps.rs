//! Checks that an object is replaced only if the request names its current version, and by one writer.

use super::place::{ProbeAbort, ProbeFolder, WriteOutcome, races_at_once};
use futures_util::future::{try_join, try_join_all};
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
    let races = stream::iter(races).buffered(races_at_once(writers));
    let rounds: Vec<Round> = races.try_collect().await?;
    let bad = rounds.iter().filter(|round| round.is_wrong).count();
    let most = rounds.iter().map(|round| round.winners).max().unwrap_or_default();
    let all = rounds.len();
    if bad > 0 {
        let found =
            format!("{bad} of {all} rounds had several winners, or a wrong one: up to {most} of {writers}");
        return Ok(Finding::broken(CHECK, found, LOST));
    }
    if rounds.iter().any(|round| round.is_unchanged) {
        let found = format!("none of {writers} writers succeeded");
        return Ok(Finding::broken(CHECK, found, "nothing can be replaced safely"));
    }
    Ok(Finding::holds(
        CHECK,
        format!("one winner of {writers} concurrent writers in each of {all} rounds"),
    ))
}

/// The result of one round.
struct Round {
    winners: usize,
    /// Whether there are several winners, or the object holds the bytes of another writer.
    is_wrong: bool,
    is_unchanged: bool,
}

async fn race(place: &ProbeFolder<'_>, writers: usize, round: usize) -> Result<Round, ProbeAbort> {
    const BEFORE: &str = "before";
    let path = place.path(&format!("swaps/{round}"));
    place.put(&path, BEFORE).await?;
    let Some(before) = place.read(&path).await? else {
        return Err(Finding::broken(CHECK, "an object that was written is missing", LOST).into());
    };
    let swaps = (0..writers).map(|writer| place.swap(&path, writer.to_string(), &before.version));
    let answers = try_join_all(swaps).await?;
    let is_done = |answer: &WriteOutcome| matches!(answer, WriteOutcome::Done);
    let winner = answers.iter().position(is_done).map(|writer| writer.to_string());
    let winners = answers.iter().filter(|answer| is_done(answer)).count();
    let after = place.read(&path).await?.map(|seen| seen.bytes);
    let after = after.unwrap_or_default();
    // Without an acknowledged winner, the winner's answer was lost, and the object shows who it was.
    let is_winners = winner.as_ref().is_none_or(|winner| winner.as_bytes() == after);
    Ok(Round {
        winners,
        is_wrong: winners > 1 || !is_winners,
        is_unchanged: after == BEFORE,
    })
}
