//! Many create one name at once: exactly one of them may.

use super::place::{Answer, Ended, Place};
use futures_util::future::try_join_all;
use state_core::backend::Finding;

const CHECK: &str = "create-if-absent";

const MEANING: &str =
    "two writers may both think that a slot of the journal is theirs, and what one of them wrote is lost";

/// What came of the rounds.
#[derive(Default)]
struct Tally {
    /// Rounds with more than one winner, or another one than the store shows.
    bad: usize,
    most: usize,
    /// Rounds after which nothing was there.
    empty: usize,
}

pub(super) async fn one_winner(place: &Place, creators: usize, rounds: usize) -> Result<Finding, Ended> {
    let mut tally = Tally::default();
    for round in 0..rounds {
        let path = place.path(&format!("creates/{round}"));
        let tries = (0..creators).map(|creator| place.create(&path, creator.to_string()));
        let answers = try_join_all(tries).await?;
        let mut winners = answers
            .iter()
            .enumerate()
            .filter(|(_, answer)| matches!(answer, Answer::Done));
        let winner = winners.next().map(|(creator, _)| creator.to_string());
        let won = usize::from(winner.is_some()) + winners.count();
        let there = place.read(&path).await?;
        // When nobody was told that it won, a lost answer hides the winner: the store shows it.
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
            "{} of {rounds} rounds had more than one winner, or a false one: up to {} of {creators}",
            tally.bad, tally.most
        );
        return Finding::broken(CHECK, found, MEANING);
    }
    if tally.empty > 0 {
        let found = format!("after {} of {rounds} rounds nothing was there", tally.empty);
        return Finding::broken(
            CHECK,
            found,
            "what was created may be gone, or can't be created at all",
        );
    }
    Finding::holds(
        CHECK,
        format!("one winner of {creators} at once, in each of {rounds} rounds"),
    )
}
