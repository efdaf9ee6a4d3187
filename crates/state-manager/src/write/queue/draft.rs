//! The records of a job while they are built, and the state after them.

use crate::write::queue::batch::Prepared;
use state_core::journal::Record;
use state_core::state::LoadedSnapshots;
use state_core::verify::Violation;
use state_core::{Base, Error, Op, Result, State};

/// The records of one job. Each record is applied to the state when it is added, so the next one can depend on it.
pub(crate) struct Draft<'a> {
    state: &'a mut State,
    base: &'a Base,
    loaded: &'a LoadedSnapshots,
    records: Vec<Prepared>,
    refused: Vec<Violation>,
}

impl<'a> Draft<'a> {
    /// Begins without records. `state` is a copy, which an error leaves with some of the records; `base` is the stack's
    /// present base, and `loaded` are the stored snapshots to which the records refer.
    pub(crate) const fn new(state: &'a mut State, base: &'a Base, loaded: &'a LoadedSnapshots) -> Self {
        Self {
            state,
            base,
            loaded,
            records: Vec::new(),
            refused: Vec::new(),
        }
    }

    /// The state after the records so far.
    pub(crate) const fn state(&self) -> &State {
        self.state
    }

    pub(crate) const fn base(&self) -> &Base {
        self.base
    }

    /// Applies a record and adds it.
    ///
    /// # Errors
    /// `Integrity` with all rules that the record breaks.
    pub(crate) fn add(&mut self, prepared: impl Into<Prepared>) -> Result<()> {
        let prepared = prepared.into();
        let record = prepared.record();
        let applied = self.state.apply(record, self.loaded);
        let report = applied.map_err(|violations| Error::integrity(describe(record), violations))?;
        self.refused.extend(report.refused);
        self.records.push(prepared);
        Ok(())
    }

    /// Adds records in their order.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub(crate) fn add_all<R: Into<Prepared>>(&mut self, records: impl IntoIterator<Item = R>) -> Result<()> {
        records.into_iter().try_for_each(|record| self.add(record))
    }

    /// Returns the records, and the rules that provider results among them broke.
    pub(crate) fn finish(self) -> (Vec<Prepared>, Vec<Violation>) {
        (self.records, self.refused)
    }
}

/// The name of a record in errors.
fn describe(record: &Record) -> String {
    match record {
        Record::Begin(begin) => format!("begin of {} of {}", begin.op, begin.target),
        Record::End(end) => format!("end of mutation {}", end.id),
        Record::Step(step) => format!("step {}", step.change.op()),
        Record::Unchanged(_) => format!("step {}", Op::Same),
        Record::Resolve(resolve) => format!("resolution of {}", resolve.id),
        Record::UpdateStart(update) => format!("start of {} {}", update.kind, update.id),
        _ => "the change".to_owned(),
    }
}
