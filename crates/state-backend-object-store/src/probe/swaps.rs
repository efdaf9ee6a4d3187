//! Replacing an object only for who names the version that is there.

use super::place::{Answer, Ended, Place};
use bytes::Bytes;
use futures_util::future::try_join_all;
use object_store::path::Path;
use state_core::backend::Finding;

const CHECK: &str = "compare-and-swap";

const LOST: &str =
    "a writer may overwrite what another one wrote in between: heads, leases and names aren't safe";

/// How often a writer tries for each of those that it races with.
const TRIES: usize = 6;

/// One writer: a fresh version is taken, a stale one is not, nor one of an object that is gone.
pub(super) async fn conditions(place: &Place) -> Result<Finding, Ended> {
    const CHECK: &str = "conditions";
    let path = place.path("conditions/object");
    place.put(&path, "one").await?;
    if matches!(place.create(&path, "two").await?, Answer::Done) {
        let found = "an object that is there was created once more";
        return Ok(Finding::broken(CHECK, found, LOST));
    }
    let Some(first) = place.read(&path).await? else {
        return Ok(Finding::broken(
            CHECK,
            "an object that was written isn't there",
            LOST,
        ));
    };
    if !matches!(place.swap(&path, "two", &first.version).await?, Answer::Done) {
        let landed = place
            .read(&path)
            .await?
            .is_some_and(|seen| &*seen.bytes == b"two");
        if !landed {
            let found = "the version that is there isn't taken as a condition";
            return Ok(Finding::broken(CHECK, found, "nothing can be replaced safely"));
        }
    }
    if matches!(place.swap(&path, "three", &first.version).await?, Answer::Done) {
        let found = "a version that is there no more was taken as a condition";
        return Ok(Finding::broken(CHECK, found, LOST));
    }
    let gone = place.path("conditions/gone");
    if matches!(place.swap(&gone, "four", &first.version).await?, Answer::Done) {
        let found = "an object that isn't there was replaced";
        return Ok(Finding::broken(CHECK, found, LOST));
    }
    Ok(Finding::holds(
        CHECK,
        "a fresh version is taken, a stale one is not",
    ))
}

/// Many add a line each to one object: none of those that were told so may be missing.
pub(super) async fn no_lost_update(place: &Place, writers: usize) -> Result<Finding, Ended> {
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
            format!("none of {writers} writers got through"),
            "nothing can be replaced safely",
        )
    } else {
        Finding::holds(
            CHECK,
            format!(
                "{} updates of {writers} writers at once, none lost",
                acknowledged.len()
            ),
        )
    })
}

/// Whether the writer's line was acknowledged, at once or by a look afterwards.
async fn add(place: &Place, path: &Path, writer: usize, writers: usize) -> Result<bool, Ended> {
    for _ in 0..TRIES * writers {
        let Some(seen) = place.read(path).await? else {
            return Ok(false);
        };
        if has(&seen.bytes, writer) {
            return Ok(true);
        }
        let mut longer = seen.bytes.to_vec();
        longer.extend_from_slice(format!("{writer}\n").as_bytes());
        if let Answer::Done = place.swap(path, longer, &seen.version).await? {
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
