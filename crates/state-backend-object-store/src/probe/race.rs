//! A race: many clients write one object under a condition that only one of them can meet.

use super::place::{ProbeAbort, ProbeFolder, WriteOutcome};
use futures_util::future::try_join_all;
use object_store::path::Path;

/// Number of concurrent requests of one check. More would measure the server's connection limit.
const REQUESTS: usize = 100;

/// The number of races between this number of clients that may run at the same time, at least one.
pub(super) fn at_once(clients: usize) -> usize {
    (REQUESTS / clients.max(1)).max(1)
}

/// What the object shows after a race.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RaceResult {
    /// One client won, and the object has its bytes.
    Right,
    /// Several clients won, or the object has the bytes of a client that lost.
    Wrong,
    /// The object has the bytes from before the race.
    Unchanged,
    /// The object doesn't exist after the race.
    Missing,
}

/// The number of winners of one race, and what the object showed afterwards.
#[derive(Clone, Copy, Debug)]
pub(super) struct Race {
    /// Number of clients whose write was acknowledged.
    pub(super) winners: usize,
    pub(super) result: RaceResult,
}

impl Race {
    /// Runs the writes at the same time, each of which stores the number of its client, and then reads the object.
    /// `before` is its content before the race.
    pub(super) async fn run(
        place: &ProbeFolder<'_>,
        path: &Path,
        before: Option<&[u8]>,
        writes: impl Iterator<Item = impl Future<Output = Result<WriteOutcome, ProbeAbort>>>,
    ) -> Result<Self, ProbeAbort> {
        let answers = try_join_all(writes).await?;
        let done = answers.iter().enumerate();
        let mut done = done.filter(|(_, answer)| matches!(answer, WriteOutcome::Done));
        let winner = done.next().map(|(client, _)| client.to_string());
        let winners = done.count() + usize::from(winner.is_some());
        let after = place.read(path).await?;
        // Without an acknowledged winner, the winner's answer was lost, and the object shows who it was.
        let is_winners = |bytes: &[u8]| winner.as_ref().is_none_or(|winner| winner.as_bytes() == bytes);
        let result = match after {
            None => RaceResult::Missing,
            Some(after) if winners > 1 || !is_winners(&after.bytes) => RaceResult::Wrong,
            Some(after) if before.is_some_and(|before| before == after.bytes) => RaceResult::Unchanged,
            Some(_) => RaceResult::Right,
        };
        Ok(Self { winners, result })
    }
}

/// All races of one check, which together give its finding.
pub(super) struct Races(pub(super) Vec<Race>);

impl Races {
    pub(super) fn count(&self, result: RaceResult) -> usize {
        self.0.iter().filter(|race| race.result == result).count()
    }

    /// Describes the races with a wrong result among `clients` clients; none if there is none.
    pub(super) fn wrong(&self, clients: usize) -> Option<String> {
        let (wrong, all) = (self.count(RaceResult::Wrong), self.0.len());
        let most = self.0.iter().map(|race| race.winners).max().unwrap_or_default();
        (wrong > 0).then(|| {
            format!("{wrong} of {all} races had several winners, or a wrong one: up to {most} of {clients}")
        })
    }

    /// Describes the races after which the object was missing; none if there is none.
    pub(super) fn missing(&self) -> Option<String> {
        let (missing, all) = (self.count(RaceResult::Missing), self.0.len());
        (missing > 0).then(|| format!("the object was missing after {missing} of {all} races"))
    }
}
