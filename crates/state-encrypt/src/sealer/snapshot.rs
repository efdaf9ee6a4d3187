//! The values of a whole snapshot: entries, pending operations, outputs, what came from a foreign system.

use super::value::Origin;
use super::{Opaque, Sealer};
use crate::error::{Error, Result};
use crate::place::{Owner, Place, Side};
use state_core::mutation::StackOutputs;
use state_core::pending::PendingOperation;
use state_core::sensitive::SecretStrings;
use state_core::{Entry, Snapshot};

impl Sealer {
    /// The snapshot with what is secret sealed. Entries that don't change stay shared.
    ///
    /// # Errors
    /// Those of [`Sealer::seal_entry`] and [`Sealer::seal_outputs`]; [`Error::Lineage`] for another stack's.
    pub fn seal_snapshot(&self, snapshot: &Snapshot) -> Result<Snapshot> {
        let outputs = self.seal_outputs(&outputs_of(snapshot))?;
        let mut sealed = self.each_entry(snapshot, |entry| self.seal_entry(entry))?;
        sealed.outputs = outputs.values;
        if self.values.is_plaintext() {
            return Ok(sealed);
        }
        let open = self.open_outputs(&StackOutputs {
            values: sealed.outputs.clone(),
            sensitive: snapshot.sensitive_outputs.clone(),
        })?;
        let secrets = SecretStrings::of_output_map(&open.values, &open.sensitive);
        let place = Place::new(Owner::Stack, Side::Extensions);
        let (extensions, pinned) = self.open_map(&snapshot.extensions, &place, Origin::Caller)?;
        let opaque = |of: &Opaque| of.in_snapshot.clone();
        sealed.extensions = self.seal_extensions(&extensions, &pinned, opaque, &secrets, &place)?;
        let place = Place::new(Owner::Stack, Side::Unknown);
        let (unknown, _) = self.open_map(&snapshot.unknown, &place, Origin::Caller)?;
        sealed.unknown = self.seal_unknown(&unknown, &place)?;
        Ok(sealed)
    }

    /// The snapshot with everything open.
    ///
    /// # Errors
    /// Those of [`Sealer::open_entry`] and [`Sealer::open_outputs`]; [`Error::Lineage`] for another stack's.
    pub fn open_snapshot(&self, snapshot: &Snapshot) -> Result<Snapshot> {
        let outputs = self.open_outputs(&outputs_of(snapshot))?;
        let mut open = self.each_entry(snapshot, |entry| self.open_entry(entry))?;
        open.outputs = outputs.values;
        let place = Place::new(Owner::Stack, Side::Extensions);
        (open.extensions, _) = self.open_map(&snapshot.extensions, &place, Origin::Store)?;
        let place = Place::new(Owner::Stack, Side::Unknown);
        (open.unknown, _) = self.open_map(&snapshot.unknown, &place, Origin::Store)?;
        Ok(open)
    }

    fn each_entry(&self, snapshot: &Snapshot, change: impl Fn(&Entry) -> Result<Entry>) -> Result<Snapshot> {
        match snapshot.lineage {
            Some(found) if found != self.lineage() => {
                return Err(Error::Lineage {
                    object: "the snapshot".to_owned(),
                    expected: self.lineage(),
                    found,
                });
            }
            _ => {}
        }
        let mut changed = snapshot.clone();
        for entry in &mut changed.entries {
            *entry = Self::shared(entry, &change)?;
        }
        for operation in &mut changed.pending_operations {
            Self::change_pending(operation, &change)?;
        }
        Ok(changed)
    }

    /// Seals what a pending operation holds: the entry as it is meant to be, and as it came back.
    ///
    /// # Errors
    /// Those of [`Sealer::seal_entry`].
    pub fn seal_pending(&self, operation: &PendingOperation) -> Result<PendingOperation> {
        let mut sealed = operation.clone();
        Self::change_pending(&mut sealed, &|entry: &Entry| self.seal_entry(entry))?;
        Ok(sealed)
    }

    /// Opens what a pending operation holds.
    ///
    /// # Errors
    /// Those of [`Sealer::open_entry`].
    pub fn open_pending(&self, operation: &PendingOperation) -> Result<PendingOperation> {
        let mut open = operation.clone();
        Self::change_pending(&mut open, &|entry: &Entry| self.open_entry(entry))?;
        Ok(open)
    }

    fn change_pending(
        operation: &mut PendingOperation,
        change: &impl Fn(&Entry) -> Result<Entry>,
    ) -> Result<()> {
        let result = operation.result.as_mut();
        let came_back = result.and_then(|result| result.entry.as_mut());
        for entry in operation.entry.iter_mut().chain(came_back) {
            *entry = Self::shared(entry, change)?;
        }
        Ok(())
    }
}

fn outputs_of(snapshot: &Snapshot) -> StackOutputs {
    StackOutputs {
        values: snapshot.outputs.clone(),
        sensitive: snapshot.sensitive_outputs.clone(),
    }
}
