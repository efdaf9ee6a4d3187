//! Checks that exactly one of many concurrent creators creates an object.

use super::place::{ProbeAbort, ProbeFolder};
use super::race::{Race, Races, at_once};
use futures_util::{StreamExt, TryStreamExt, stream};
use state_core::backend::Finding;

const CHECK: &str = "create-if-absent";

const MEANING: &str =
    "two writers may both believe that they own a journal slot, and one of them loses its data";

pub(super) async fn one_winner(
    place: &ProbeFolder<'_>,
    creators: usize,
    rounds: usize,
) -> Result<Finding, ProbeAbort> {
    let races = (0..rounds).map(|round| race(place, creators, round));
    let races = stream::iter(races).buffered(at_once(creators));
    let races = Races(races.try_collect().await?);
    if let Some(found) = races.wrong(creators) {
        return Ok(Finding::broken(CHECK, found, MEANING));
    }
    if let Some(found) = races.missing() {
        let meaning = "created objects may be lost, or can't be created at all";
        return Ok(Finding::broken(CHECK, found, meaning));
    }
    Ok(Finding::holds(
        CHECK,
        format!("one winner of {creators} concurrent creators in each of {rounds} races"),
    ))
}

async fn race(place: &ProbeFolder<'_>, creators: usize, round: usize) -> Result<Race, ProbeAbort> {
    let path = place.path(&format!("creates/{round}"));
    // One request each: a repeated one would be refused by its own first attempt.
    let creations = (0..creators).map(|creator| place.try_create(&path, creator.to_string()));
    Race::run(place, &path, None, creations).await
}
