//! Records the results that earlier runs of this user kept in files, before providers or people are asked for the outcome of
//! the same operations.

use super::outcome::Settlement;
use crate::commands::pending::spool::{self, SpoolFile};
use crate::error::CliError;
use state_core::{Error, ErrorKind, MutationId, PendingOperation, Result, State, UpdateKind};
use state_engine::settle::Decision;
use state_manager::{Session, SpoolOutcome, SpooledResult, Stack, UpdateRequest};
use std::collections::BTreeMap;

/// The results that were recorded from files, and the files that need the user.
#[derive(Default)]
pub(super) struct SpoolIntake {
    pub(super) settled: Vec<Settlement>,
    pub(super) warnings: Vec<String>,
    creates: bool,
}

impl SpoolIntake {
    /// Records the results of pending operations. Deletes a file after the state proves that its result is recorded.
    ///
    /// `creates` says whether the run may create resources.
    ///
    /// # Errors
    /// If the store fails or the lock is lost. If the run could create a resource a second time that a file proves to exist, or that
    /// an unreadable file may prove to exist. Any other file whose result is refused becomes a warning: its operation may still be settled by its provider.
    pub(super) async fn run(session: &Session, store: &str, creates: bool) -> Result<Self, CliError> {
        let mut intake = Self {
            creates,
            ..Self::default()
        };
        for file in spool::files(session.stack()) {
            match &file.content {
                // It may prove that a resource exists which the run would create.
                Err(error) if creates => return Err(spool::unreadable(&file.path, error)),
                Err(error) => intake.warn(&file, &error.to_string()),
                Ok(spooled) => intake.take(session, store, &file, spooled).await?,
            }
        }
        Ok(intake)
    }

    async fn take(
        &mut self,
        session: &Session,
        store: &str,
        file: &SpoolFile,
        spooled: &SpooledResult,
    ) -> Result<(), CliError> {
        let state = session.state();
        let operation = state.pending().find(|operation| operation.id == spooled.end.id);
        let request = UpdateRequest::new(UpdateKind::Edit).with_message(format!(
            "pending operation {}: result from a file",
            spooled.end.id
        ));
        let is_recorded = match session.record_spooled(request, spooled).await {
            Ok(SpoolOutcome::Recorded(_)) => {
                self.settled.extend(operation.map(settlement));
                true
            }
            Ok(SpoolOutcome::Known) => true,
            Ok(SpoolOutcome::Conflict(found)) => {
                let error = spool::conflict(&found, &file.path);
                // The run could create it a second time.
                if self.creates && found.missing.as_ref().is_some_and(|key| key.deposed.is_none()) {
                    return Err(error);
                }
                self.warn(
                    file,
                    &format!("{}: {}", error.message, error.hint.unwrap_or_default()),
                );
                false
            }
            Ok(_) => false,
            Err(error) if is_refusal(&error) => {
                self.warn(file, &error.to_string());
                false
            }
            Err(error) => return Err(error.into()),
        };
        // A copy of the store may have the same operation: the file of another store is left for that store.
        if is_recorded && spooled.store == store && std::fs::remove_file(&file.path).is_err() {
            self.warnings.push(format!(
                "can't delete {}, whose result is recorded",
                file.path.display()
            ));
        }
        Ok(())
    }

    fn warn(&mut self, file: &SpoolFile, reason: &str) {
        let path = file.path.display();
        self.warnings
            .push(format!("the result in {path} was not recorded: {reason}"));
    }
}

/// The pending operations whose results a run would record from files.
#[derive(Default)]
pub(super) struct KeptResults {
    /// A preview records nothing, and must not ask providers for outcomes that are known: it leaves these operations.
    pub(super) left: BTreeMap<MutationId, Decision>,
    pub(super) warnings: Vec<String>,
}

/// Finds the pending operations of a state whose results a run would record from files.
pub(super) fn foresee(stack: &Stack, state: &State) -> KeptResults {
    let files = spool::files(stack);
    let mut kept = KeptResults {
        warnings: spool::unmatched(&files, state),
        ..KeptResults::default()
    };
    for file in files {
        let Ok(spooled) = &file.content else { continue };
        let mut pending = state.pending();
        let Some(operation) = pending.find(|operation| operation.id == spooled.end.id) else {
            continue;
        };
        let what = format!("{} of {}", operation.op, operation.target);
        kept.warnings.push(format!(
            "`statectl up` first records the result of the pending {what} from {}, so its plan will differ",
            file.path.display()
        ));
        kept.left.insert(operation.id, Decision::Leave);
    }
    kept
}

fn settlement(operation: &PendingOperation) -> Settlement {
    Settlement::of(operation, "its result was kept in a file")
}

/// Whether the result itself caused the error, so that the run can go on.
fn is_refusal(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::NotFound
            | ErrorKind::Invalid
            | ErrorKind::Integrity
            | ErrorKind::Distrusted
            | ErrorKind::Sealed
            | ErrorKind::Conflict
    )
}
