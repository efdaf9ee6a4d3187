//! Checks that exactly one of many concurrent creators creates an object.

use super::place::{ProbeAbort, ProbeFolder, WriteOutcome, races_at_once};
use futures_util::future::try_join_all;
use futures_util::{StreamExt, TryStreamExt, stream};
use state_core::backend::Finding;

const CHECK: &str = "create-if-absent";

const MEANING: &str =
    "two writers may both believe that they own a journal slot, and one of them loses its data";

/// Results of all rounds.
#[derive(Default)]
struct Tally {
    /// Number of rounds with several winners, or with another winner than the stored object shows.
    bad: usize,
    most: usize,
    /// Number of rounds after which the object was missing.
    empty: usize,
}

pub(super) async fn one_winner(
    place: &ProbeFolder<'_>,
    creators: usize,
    rounds: usize,
) -> Result<Finding, ProbeAbort> {
    let races = (0..rounds).map(|round| race(place, creators, round));
    let races = stream::iter(races).buffered(races_at_once(creators));
    let mut tally = Tally::default();
    for Round { winners, result } in races.try_collect::<Vec<_>>().await? {
        match result {
            RoundResult::Empty => tally.empty += 1,
            RoundResult::Wrong => tally.bad += 1,
            RoundResult::Right => {}
        }
        tally.most = tally.most.max(winners);
    }
    Ok(verdict(&tally, creators, rounds))
}

/// One round: the number of acknowledged winners, and what the object shows.
struct Round {
    winners: usize,
    result: RoundResult,
}

enum RoundResult {
    Empty,
    Wrong,
    Right,
}

async fn race(place: &ProbeFolder<'_>, creators: usize, round: usize) -> Result<Round, ProbeAbort> {
    let path = place.path(&format!("creates/{round}"));
    // One request each: a repeated one would be refused by its own first attempt.
    let tries = (0..creators).map(|creator| place.try_create(&path, creator.to_string()));
    let answers = try_join_all(tries).await?;
    let is_done = |answer: &WriteOutcome| matches!(answer, WriteOutcome::Done);
    let winner = answers
        .iter()
        .position(is_done)
        .map(|creator| creator.to_string());
    let winners = answers.iter().filter(|answer| is_done(answer)).count();
    // Without an acknowledged winner, the winner's answer was lost, and the stored object shows who it was.
    let is_winners = |bytes: &[u8]| winner.as_ref().is_none_or(|winner| winner.as_bytes() == bytes);
    let result = match place.read(&path).await? {
        None => RoundResult::Empty,
        Some(seen) if winners > 1 || !is_winners(&seen.bytes) => RoundResult::Wrong,
        Some(_) => RoundResult::Right,
    };
    Ok(Round { winners, result })
}

fn verdict(tally: &Tally, creators: usize, rounds: usize) -> Finding {
    if tally.bad > 0 {
        let found = format!(
            "{} of {rounds} rounds had several winners, or a wrong one: up to {} of {creators}",
            tally.bad, tally.most
        );
        return Finding::broken(CHECK, found, MEANING);
    }
    if tally.empty > 0 {
        let found = format!("the object was missing after {} of {rounds} rounds", tally.empty);
        return Finding::broken(
            CHECK,
            found,
            "created objects may be lost, or can't be created at all",
        );
    }
    Finding::holds(
        CHECK,
        format!("one winner of {creators} concurrent creators in each of {rounds} rounds"),
    )
}
