//! Checks that an object is replaced only if the request names its current version.

use super::place::{ProbeAbort, ProbeFolder, WriteOutcome};
use bytes::Bytes;
use futures_util::future::try_join_all;
use object_store::path::Path;
use state_core::backend::Finding;

const CHECK: &str = "compare-and-swap";

const LOST: &str = "a writer may overwrite another writer's change: heads, leases and names aren't safe";

/// Each writer makes this number of attempts multiplied by the number of writers.
const TRIES: usize = 6;

/// Checks with one writer: an existing object can't be created again. A swap is accepted with the current version, and
/// refused with a stale version or for a missing object.
pub(super) async fn conditions(place: &ProbeFolder<'_>) -> Result<Finding, ProbeAbort> {
    const CHECK: &str = "conditions";
    let path = place.path("conditions/object");
    place.put(&path, "one").await?;
    if matches!(place.create(&path, "two").await?, WriteOutcome::Done) {
        let found = "an existing object was created again";
        return Ok(Finding::broken(CHECK, found, LOST));
    }
    let Some(first) = place.read(&path).await? else {
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
    if matches!(
        place.swap(&path, "three", &first.version).await?,
        WriteOutcome::Done
    ) {
        let found = "a stale version was accepted as a condition";
        return Ok(Finding::broken(CHECK, found, LOST));
    }
    let gone = place.path("conditions/gone");
    if matches!(
        place.swap(&gone, "four", &first.version).await?,
        WriteOutcome::Done
    ) {
        let found = "a missing object was replaced";
        return Ok(Finding::broken(CHECK, found, LOST));
    }
    Ok(Finding::holds(
        CHECK,
        "the current version is accepted, a stale version is refused",
    ))
}

/// Lets many writers add a line each to one object, and checks that no acknowledged line is missing.
pub(super) async fn no_lost_update(place: &ProbeFolder<'_>, writers: usize) -> Result<Finding, ProbeAbort> {
    let path = place.path("swaps/object");
    place.put(&path, "\n").await?;
    let added = try_join_all((0..writers).map(|writer| add(place, &path, writer, writers))).await?;
    let acknowledged: Vec<usize> = (0..writers).filter(|writer| added[*writer]).collect();
    let there = place.read(&path).await?;
    let there = there.map(|seen| seen.bytes).unwrap_or_default();
    let lost = acknowledged
        .iter()
        .filter(|writer| !has(&there, **writer))
        .count();
    Ok(if lost > 0 {
        let found = format!("{lost} of {} updates were lost", acknowledged.len());
        Finding::broken(CHECK, found, LOST)
    } else if acknowledged.is_empty() {
        Finding::broken(
            CHECK,
            format!("none of {writers} writers succeeded"),
            "nothing can be replaced safely",
        )
    } else {
        Finding::holds(
            CHECK,
            format!(
                "{} updates by {writers} concurrent writers, none lost",
                acknowledged.len()
            ),
        )
    })
}

/// Adds a line; returns whether it was acknowledged, or seen in the object after a lost answer.
async fn add(
    place: &ProbeFolder<'_>,
    path: &Path,
    writer: usize,
    writers: usize,
) -> Result<bool, ProbeAbort> {
    for _ in 0..TRIES * writers {
        let Some(seen) = place.read(path).await? else {
            return Ok(false);
        };
        if has(&seen.bytes, writer) {
            return Ok(true);
        }
        let mut longer = seen.bytes.to_vec();
        longer.extend_from_slice(format!("{writer}\n").as_bytes());
        if let WriteOutcome::Done = place.swap(path, longer, &seen.version).await? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn has(bytes: &Bytes, writer: usize) -> bool {
    let line = writer.to_string();
    bytes
        .split(|byte| *byte == b'\n')
        .any(|found| found == line.as_bytes())
}
