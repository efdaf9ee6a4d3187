//! Probes a live store, in a folder of its own, for the guarantees that the backend needs: [`prove`].
//!
//! State is safe only on an object store with three guarantees. Exactly one of many concurrent creators creates an
//! object. An object is replaced only if the request names its current version. Every write is visible at once. Some
//! stores accept conditional requests and ignore the condition, which only a test can detect. Other differences are
//! harmless: whether an ETag is sent back in quotes, whether deleting a missing object is an error, and the order of
//! lists.

mod creates;
mod etags;
mod place;
mod race;
mod swaps;
mod visibility;

#[cfg(test)]
mod tests;

use crate::error::RequestFailure;
use crate::etags::UnquotedEtags;
use futures_util::future::{Either, join, join5, select};
use object_store::ObjectStore;
use object_store::path::Path;
use place::{ProbeAbort, ProbeFolder};
use state_core::backend::{Finding, StoreCheck};
use state_core::{Clock, Nonce, Result};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

/// Time limit for deleting the objects of a probe.
const CLEARING: Duration = Duration::from_secs(30);

/// How thoroughly a store is probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProbeDepth {
    /// Number of concurrent creators of one object.
    pub creators: usize,
    /// Number of rounds of concurrent creation.
    pub rounds: usize,
    /// Number of concurrent writers that replace one version of an object.
    pub writers: usize,
    /// Number of races between these writers, each for another object.
    pub races: usize,
    /// Number of objects that reads and lists must show.
    pub objects: usize,
    /// Whether to check harmless differences between stores as well.
    pub differences: bool,
    /// Time limit of the whole probe.
    pub limit: Duration,
}

impl ProbeDepth {
    /// The depth that `doctor` uses: about a thousand requests.
    pub const FULL: Self = Self {
        creators: 100,
        rounds: 5,
        writers: 10,
        races: 40,
        objects: 20,
        differences: true,
        limit: Duration::from_secs(180),
    };

    /// The depth before the first write to a store that was never probed: about a hundred requests.
    ///
    /// A store that ignores conditions is always found. One that lets two clients win in one race of ten is found in
    /// 1 − 0.9ⁿ of the probes with n races: if replacements are at fault, in 41 % with five races (98 % with the 40 of
    /// [`ProbeDepth::FULL`]); if creations are, in 19 % with two (41 % with the five of `FULL`).
    pub const SHORT: Self = Self {
        creators: 16,
        rounds: 2,
        writers: 3,
        races: 5,
        objects: 3,
        differences: false,
        limit: Duration::from_secs(60),
    };
}

/// The store to probe.
#[derive(Clone, Debug)]
pub struct ProbeTarget {
    /// The store, without wrappers that correct its quirks.
    pub store: Arc<dyn ObjectStore>,
    /// The URL as messages show it. It must not contain a secret.
    pub url: String,
    /// Path under which the probe creates its folder.
    pub prefix: Path,
}

/// The result of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProbeReport {
    /// All checks with their findings.
    pub examination: StoreCheck,
    /// Whether the endpoint accepts ETags only without quotes: see [`UnquotedEtags`].
    pub unquoted_etags: bool,
}

/// Probes a store for the guarantees that state needs. All objects are created in a folder named after `mark`, which
/// must be random, so that no other process uses the folder. They are deleted afterwards, also after an error.
///
/// # Errors
/// `Denied`, `NotFound` for a missing bucket, or `Unavailable`. A missing guarantee is no error: it is reported in the
/// findings.
///
/// # Cancellation
/// Dropping the future leaves objects under `<prefix>/.probe-<mark>/`.
pub async fn prove(
    target: &ProbeTarget,
    mark: Nonce,
    depth: ProbeDepth,
    clock: &dyn Clock,
) -> Result<ProbeReport> {
    let place = ProbeFolder::new(target, mark, clock);
    let proved = {
        let work = pin!(run_checks(&place, depth));
        match select(work, clock.sleep(depth.limit)).await {
            Either::Left((proved, _)) => proved,
            Either::Right(((), _)) => Err(RequestFailure::Timeout(depth.limit)),
        }
    };
    // Delete the objects after a timeout or an error as well. The deletion has its own limit, since the store may hang.
    let cleared = match select(pin!(place.clear()), clock.sleep(CLEARING)).await {
        Either::Left((cleared, _)) => cleared,
        Either::Right(((), _)) => Some(place.left(format!("no answer within {CLEARING:?}"))),
    };
    let mut proof = proved.map_err(|failure| failure.unavailable(&target.url))?;
    if let Some(left) = cleared {
        proof.examination.findings.push(left);
    }
    Ok(proof)
}

async fn run_checks(
    place: &ProbeFolder<'_>,
    depth: ProbeDepth,
) -> std::result::Result<ProbeReport, RequestFailure> {
    let mut findings = Vec::new();
    let ended = findings_of(place, depth, &mut findings).await;
    let unquoted_etags = match ended {
        Ok(unquoted) => unquoted,
        // The remaining checks need the guarantee that is missing, and their results would mislead.
        Err(ProbeAbort::Unsupported(finding)) => {
            findings.push(finding);
            false
        }
        Err(ProbeAbort::RequestFailure(failure)) => return Err(failure),
    };
    Ok(ProbeReport {
        examination: StoreCheck { findings },
        unquoted_etags,
    })
}

/// Runs the checks. Those that need the result of an earlier one run after it, the others at the same time, because a
/// new store can be used only after the last of them. Returns whether the endpoint accepts ETags only without quotes.
///
/// # Errors
/// The first check that can't run. `findings` has the results of the others that ran with it.
async fn findings_of(
    place: &ProbeFolder<'_>,
    depth: ProbeDepth,
    findings: &mut Vec<Finding>,
) -> std::result::Result<bool, ProbeAbort> {
    let (reads, creates, lists, times, unquoted) = join5(
        visibility::reads(place, depth.objects),
        creates::one_winner(place, depth.creators, depth.rounds),
        visibility::lists(place, depth.objects),
        visibility::times(place),
        etags::goes_back_unquoted(place),
    )
    .await;
    let lists = lists.map(|found| findings.extend(found));
    let checked = [reads, creates, times].map(|check| check.map(|finding| findings.push(finding)));
    checked
        .into_iter()
        .chain([lists])
        .collect::<std::result::Result<(), _>>()?;
    let unquoted = unquoted?;
    let place = if unquoted {
        findings.push(etags::quirk());
        &place.over(|store| Arc::new(UnquotedEtags::new(store)))
    } else {
        place
    };
    let (conditions, swaps) = join(
        swaps::conditions(place),
        swaps::one_winner(place, depth.writers, depth.races),
    )
    .await;
    let checked = [conditions, swaps].map(|check| check.map(|finding| findings.push(finding)));
    checked.into_iter().collect::<std::result::Result<(), _>>()?;
    if depth.differences {
        findings.push(visibility::deletions_of_nothing(place).await?);
        findings.push(etags::in_lists(place).await?);
        findings.push(etags::repeat(place).await?);
    }
    Ok(unquoted)
}
