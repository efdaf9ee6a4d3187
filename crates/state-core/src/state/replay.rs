//! `replay`: from a base and the frames after it to the state that they mean.

use super::{Loaded, State};
use crate::error::{Error, Result};
use crate::journal::{Frame, FrameKind, decode_records};

/// Applies frames, in order, to the state before them. Fences change nothing.
///
/// Whoever calls has checked that the frames are linked, and loaded the snapshots that they refer to.
///
/// # Errors
/// [`Error::Corrupt`] when a record doesn't apply: it would not have been acknowledged.
pub fn replay<'a>(
    mut state: State,
    frames: impl IntoIterator<Item = &'a Frame>,
    loaded: &Loaded,
) -> Result<State> {
    for frame in frames {
        if frame.kind() != FrameKind::Data {
            continue;
        }
        let object = format!("journal frame {} of stack {}", frame.slot(), state.lineage());
        for record in decode_records(&object, frame.payload())? {
            state.apply(&record, loaded).map_err(|violations| {
                let reasons: Vec<String> = violations.iter().map(ToString::to_string).collect();
                Error::corrupt(
                    &object,
                    0,
                    format!("a record doesn't apply: {}", reasons.join("; ")),
                )
            })?;
        }
        state.settle(frame.chain());
    }
    Ok(state)
}
