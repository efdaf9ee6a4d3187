//! The records with which an update begins and ends.

use state_core::journal::{Mark, Record, Vouch};
use state_core::state::Loaded;
use state_core::{Base, Error, Result, State, Timestamp, UpdateInfo, UpdateKind, UpdateResult};

pub(super) fn started(state: &State, mut info: UpdateInfo) -> Record {
    info.parent = state.current().cloned();
    Record::UpdateStart(info)
}

pub(super) fn finished(
    state: &State,
    base: &Base,
    records: Vec<Record>,
    result: UpdateResult,
    end: &Timestamp,
) -> Result<Vec<Record>> {
    finished_with(state, base, records, result, end, &Loaded::new())
}

/// The records, then the mark that ends their update. The mark tells what the update did, so they are applied to
/// a copy first.
pub(super) fn finished_with(
    state: &State,
    base: &Base,
    mut records: Vec<Record>,
    result: UpdateResult,
    end: &Timestamp,
    loaded: &Loaded,
) -> Result<Vec<Record>> {
    let mut after = state.clone();
    for record in &records {
        let applied = after.apply(record, loaded);
        applied.map_err(|violations| Error::Integrity {
            object: "the change".to_owned(),
            violations,
        })?;
    }
    let Some(update) = after.update() else {
        return Err(Error::conflict("the update", "it has ended already"));
    };
    if is_vouched_for(&after, update, result) {
        records.push(Record::Validate(Vouch::Succeeded));
    }
    let update = UpdateInfo {
        end: Some(end.clone()),
        result: Some(result),
        ..update.clone()
    };
    let mark = Mark {
        serial: after.serial().next(),
        update,
        base: base.clone(),
        entries: after.len() as u64,
    };
    records.push(Record::Mark(mark));
    Ok(records)
}

/// Whether an update that ends says what the world is, of a state that is marked as unreliable: it changed the world,
/// compared itself with it or came from elsewhere, all of it went well, and nothing is pending. A change by hand says
/// nothing of the world, and one who failed may not have seen all of it.
fn is_vouched_for(after: &State, update: &UpdateInfo, result: UpdateResult) -> bool {
    let looks_at_the_world = update.kind.is_driven() || update.kind == UpdateKind::Import;
    after.invalidated().is_some()
        && after.pending().next().is_none()
        && looks_at_the_world
        && result == UpdateResult::Succeeded
}
