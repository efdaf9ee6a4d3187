//! Checks that exactly one of many concurrent creators creates an object.

use super::place::{ProbeAbort, ProbeFolder, WriteOutcome};
use futures_util::future::try_join_all;
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
    let mut tally = Tally::default();
    for round in 0..rounds {
        let path = place.path(&format!("creates/{round}"));
        let tries = (0..creators).map(|creator| place.create(&path, creator.to_string()));
        let answers = try_join_all(tries).await?;
        let mut winners = answers
            .iter()
            .enumerate()
            .filter(|(_, answer)| matches!(answer, WriteOutcome::Done));
        let winner = winners.next().map(|(creator, _)| creator.to_string());
        let won = usize::from(winner.is_some()) + winners.count();
        let there = place.read(&path).await?;
        // Without an acknowledged winner, the winner's answer was lost, and the stored object shows who it was.
        let is_winners = |bytes: &[u8]| winner.as_ref().is_none_or(|winner| winner.as_bytes() == bytes);
        match there {
            None => tally.empty += 1,
            Some(seen) if won > 1 || !is_winners(&seen.bytes) => tally.bad += 1,
            Some(_) => {}
        }
        tally.most = tally.most.max(won);
    }
    Ok(verdict(&tally, creators, rounds))
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
