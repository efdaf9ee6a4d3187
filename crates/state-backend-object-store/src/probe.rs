//! What a store must be able to do, proved on the live store in a place of its own: [`prove`].
//!
//! State is safe on an object store that creates a name for exactly one of many, replaces an object only for who names
//! the version that is there, and shows at once what was written. Stores that accept such conditions and ignore them
//! exist; nothing but trying tells them apart. In the rest stores differ, and either way is fine: whether an ETag goes
//! back in quotes, whether deleting what isn't there is an error, in which order a list comes.

mod creates;
mod etags;
mod place;
mod swaps;
mod visibility;

#[cfg(test)]
mod tests;

use crate::etags::UnquotedEtags;
use crate::error::Trouble;
use futures_util::future::{Either, select};
use object_store::ObjectStore;
use object_store::path::Path;
use place::{Ended, Place};
use state_core::backend::{Finding, StoreCheck};
use state_core::{Clock, Nonce, Result};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

/// How long it may take to delete what was made.
const CLEARING: Duration = Duration::from_secs(30);

/// How much is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProbeDepth {
    /// How many create one name at once.
    pub creators: usize,
    /// How often they do.
    pub rounds: usize,
    /// How many replace one object at once.
    pub writers: usize,
    /// How many objects reads and lists must see.
    pub objects: usize,
    /// Whether to find out in what else stores differ.
    pub differences: bool,
    /// How long all of it may take.
    pub limit: Duration,
}

impl ProbeDepth {
    /// What `doctor` does: some thousand requests.
    pub const FULL: Self = Self {
        creators: 100,
        rounds: 5,
        writers: 50,
        objects: 20,
        differences: true,
        limit: Duration::from_secs(180),
    };

    /// What the first write to a store does that was never proved: some hundred requests.
    pub const SHORT: Self = Self {
        creators: 16,
        rounds: 2,
        writers: 6,
        objects: 3,
        differences: false,
        limit: Duration::from_secs(60),
    };
}

/// A store on which to try.
#[derive(Clone, Debug)]
pub struct ProbeTarget {
    /// The store, as its endpoint is: nothing that corrects quirks around it.
    pub store: Arc<dyn ObjectStore>,
    /// How messages name it. It must hold no secret.
    pub url: String,
    /// Under which path a place is made for the probe, and cleared again.
    pub prefix: Path,
}

/// What was found out.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProbeReport {
    /// What was checked, and what came of it.
    pub examination: StoreCheck,
    /// Whether the endpoint takes ETags only without their quotes: see [`UnquotedEtags`].
    pub unquoted_etags: bool,
}

/// Proves what state needs, under a prefix that nobody else uses: the mark must be random. All that was made there is
/// deleted again, whatever comes of it.
///
/// # Errors
/// `Denied`, `NotFound` for a bucket that isn't there, `Unavailable`. That the store lacks something is no error: it is
/// in the examination.
///
/// # Cancellation
/// A future that is dropped leaves objects under `<prefix>/.probe-<mark>/`.
pub async fn prove(
    candidate: &ProbeTarget,
    mark: Nonce,
    effort: ProbeDepth,
    clock: &dyn Clock,
) -> Result<ProbeReport> {
    let place = Place::new(candidate, mark);
    let proved = {
        let work = pin!(tried(&place, effort));
        match select(work, clock.sleep(effort.limit)).await {
            Either::Left((proved, _)) => proved,
            Either::Right(((), _)) => Err(Trouble::Slow(effort.limit)),
        }
    };
    let cleared = match select(pin!(place.clear()), clock.sleep(CLEARING)).await {
        Either::Left((cleared, _)) => cleared,
        Either::Right(((), _)) => Some(place.left(format!("no answer within {CLEARING:?}"))),
    };
    let mut proof = proved.map_err(|trouble| trouble.unavailable(&candidate.url))?;
    if let Some(left) = cleared {
        proof.examination.findings.push(left);
    }
    Ok(proof)
}

async fn tried(place: &Place, effort: ProbeDepth) -> std::result::Result<ProbeReport, Trouble> {
    let mut findings = Vec::new();
    let ended = findings_of(place, effort, &mut findings).await;
    let unquoted_etags = match ended {
        Ok(unquoted) => unquoted,
        // It lacks what the rest rests on.
        Err(Ended::Lacking(finding)) => {
            findings.push(finding);
            false
        }
        Err(Ended::Trouble(trouble)) => return Err(trouble),
    };
    Ok(ProbeReport {
        examination: StoreCheck { findings },
        unquoted_etags,
    })
}

/// One after the other: what comes later rests on what came before. Whether ETags go back without their quotes.
async fn findings_of(
    place: &Place,
    effort: ProbeDepth,
    findings: &mut Vec<Finding>,
) -> std::result::Result<bool, Ended> {
    findings.push(visibility::reads(place, effort.objects).await?);
    findings.push(creates::one_winner(place, effort.creators, effort.rounds).await?);
    let unquoted = etags::goes_back_unquoted(place).await?;
    let place = if unquoted {
        findings.push(etags::quirk());
        &place.over(|store| Arc::new(UnquotedEtags::new(store)))
    } else {
        place
    };
    findings.push(swaps::conditions(place).await?);
    findings.push(swaps::no_lost_update(place, effort.writers).await?);
    findings.extend(visibility::lists(place, effort.objects).await?);
    findings.push(visibility::times(place).await?);
    if effort.differences {
        findings.push(visibility::deletions_of_nothing(place).await?);
        findings.push(etags::in_lists(place).await?);
        findings.push(etags::repeat(place).await?);
    }
    Ok(unquoted)
}
