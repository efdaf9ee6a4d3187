//! What a store says when somebody deletes what isn't there.

use super::place::{Ended, Place};
use state_core::backend::Finding;

pub(super) async fn of_what_is_missing(place: &Place) -> Result<Finding, Ended> {
    const CHECK: &str = "deletions";
    let path = place.path("deletions/nothing");
    match place.delete(&path).await {
        Ok(()) => Ok(Finding::holds(CHECK, "deleting what isn't there is fine")),
        Err(trouble) if trouble.is_missing() => Ok(Finding::noted(
            CHECK,
            "deleting what isn't there is an error",
            "it is taken as done, as elsewhere",
        )),
        Err(trouble) => Err(trouble.into()),
    }
}
