//! The records with which an update begins and ends.

use state_core::journal::{Mark, Record};
use state_core::state::Loaded;
use state_core::{Base, Error, Result, State, Timestamp, UpdateInfo, UpdateResult};

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
