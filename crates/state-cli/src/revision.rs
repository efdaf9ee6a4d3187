//! Revisions as people name them: an id, the beginning of one, a serial, `@` for the current one, `@-` for the one
//! before it.

use crate::error::{COLLECTED, CliError};
use state_core::{RevisionId, Serial};
use state_manager::{Revision, RevisionKind, Stack};

/// The history, to find revisions in.
pub(crate) struct History {
    /// Newest first.
    revisions: Vec<Revision>,
    /// The serial with which it begins since a collection.
    begins: Option<Serial>,
}

impl History {
    /// Reads it.
    pub(crate) async fn of(stack: &Stack) -> Result<Self, CliError> {
        Ok(Self {
            revisions: stack.history().await?,
            begins: stack.collected_before().await?,
        })
    }

    /// The revision that is meant.
    ///
    /// # Errors
    /// [`NotFound`](crate::ExitCode::NotFound) when there is none, or it was collected; [`Usage`](crate::ExitCode::Usage) when there are several.
    pub(crate) fn resolve(&self, wanted: &str) -> Result<RevisionId, CliError> {
        let found = match wanted.strip_prefix('@') {
            Some(back) if back.chars().all(|c| c == '-') => {
                relative(&self.revisions, back.len()).into_iter().collect()
            }
            Some(_) => Vec::new(),
            None => self
                .revisions
                .iter()
                .filter(|revision| fits(&revision.id, wanted))
                .collect::<Vec<_>>(),
        };
        let object = format!("revision {wanted}");
        match &*found {
            [one] => Ok(one.id.clone()),
            [] => Err(self.missing(wanted)),
            several => {
                let ids: Vec<_> = several.iter().map(|revision| revision.id.to_string()).collect();
                let message = format!("it could be {}", ids.join(" or "));
                Err(CliError::usage(object, &message).with_hint("give more of the id"))
            }
        }
    }

    /// The update before the current one; none when the current one is the first.
    ///
    /// # Errors
    /// [`NotFound`](crate::ExitCode::NotFound) when it was collected.
    pub(crate) fn previous(&self) -> Result<Option<RevisionId>, CliError> {
        match relative(&self.revisions, 1) {
            Some(revision) => Ok(Some(revision.id.clone())),
            None if self.begins.is_some() => Err(self.missing("@-")),
            None => Ok(None),
        }
    }

    fn missing(&self, wanted: &str) -> CliError {
        let object = format!("revision {wanted}");
        match self.begins {
            Some(begins) if is_before(wanted, begins) => {
                let message = format!("it was collected: history begins at serial {begins}");
                CliError::not_found(object, &message).with_hint(COLLECTED)
            }
            _ => CliError::not_found(object, "there is no such revision")
                .with_hint("`statectl history` lists them"),
        }
    }
}

/// Whether what was asked for would be older than the history.
fn is_before(wanted: &str, begins: Serial) -> bool {
    if let Some(back) = wanted.strip_prefix('@') {
        return !back.is_empty() && back.chars().all(|c| c == '-');
    }
    let serial = wanted.split_once('-').map_or(wanted, |(serial, _)| serial);
    serial.parse().is_ok_and(|serial| Serial(serial) < begins)
}

fn fits(id: &RevisionId, wanted: &str) -> bool {
    match wanted.split_once('-') {
        Some((serial, short)) => id.serial().to_string() == serial && id.short().starts_with(short),
        None => id.serial().to_string() == wanted,
    }
}

/// The current revision, or the one so many updates before it.
fn relative(history: &[Revision], back: usize) -> Option<&Revision> {
    history
        .iter()
        .skip_while(|revision| !revision.current)
        .filter(|revision| matches!(revision.kind, RevisionKind::Update(_)))
        .nth(back)
}

#[cfg(test)]
mod tests {
    use super::{History, Serial};
    use crate::exit::ExitCode;
    use state_core::{RevisionId, Slot, Timestamp, UpdateId, UpdateInfo, UpdateKind};
    use state_manager::{Revision, RevisionKind};

    fn revision(id: &str, stored: bool, current: bool) -> Revision {
        let update = UpdateInfo::new(UpdateId::from_bits([1; 16]), UpdateKind::Edit, Timestamp::new(""));
        Revision {
            id: id.parse().unwrap(),
            kind: if stored {
                RevisionKind::Stored
            } else {
                RevisionKind::Update(Box::new(update))
            },
            entries: 0,
            current,
            slot: Slot::ZERO,
        }
    }

    fn history() -> History {
        let revisions = vec![
            revision("12-aa00000000000000", true, false),
            revision("11-ab00000000000000", false, true),
            revision("2-cd00000000000000", true, false),
            revision("1-ef00000000000000", false, false),
        ];
        History {
            revisions,
            begins: None,
        }
    }

    fn resolved(wanted: &str) -> Result<String, ExitCode> {
        history()
            .resolve(wanted)
            .map(|id: RevisionId| id.to_string())
            .map_err(|error| error.code)
    }

    #[test]
    fn ids_prefixes_and_serials_name_one_revision() {
        for wanted in ["1-ef00000000000000", "1-e", "1-", "1"] {
            assert_eq!(resolved(wanted).as_deref(), Ok("1-ef00000000000000"), "{wanted}");
        }
        assert_eq!(resolved("3"), Err(ExitCode::NotFound));
        assert_eq!(resolved("1-f"), Err(ExitCode::NotFound));
        assert_eq!(resolved(""), Err(ExitCode::NotFound));
    }

    #[test]
    fn at_counts_updates_back_from_the_current_revision() {
        assert_eq!(resolved("@").as_deref(), Ok("11-ab00000000000000"));
        assert_eq!(resolved("@-").as_deref(), Ok("1-ef00000000000000"));
        assert_eq!(resolved("@--"), Err(ExitCode::NotFound));
        assert_eq!(resolved("@x"), Err(ExitCode::NotFound));
    }

    #[test]
    fn what_could_be_two_is_refused() {
        let mut history = history();
        history
            .revisions
            .push(revision("1-ee00000000000000", true, false));
        assert_eq!(history.resolve("1-e").unwrap_err().code, ExitCode::Usage);
    }

    #[test]
    fn what_is_older_than_the_history_was_collected() {
        let mut history = history();
        history.revisions.truncate(2);
        history.begins = Some(Serial(11));
        for (wanted, collected) in [
            ("1", true),
            ("1-ef00000000000000", true),
            ("10-", true),
            ("@-", true),
            ("13", false),
            ("x", false),
            ("@x", false),
        ] {
            let error = history.resolve(wanted).unwrap_err();
            assert_eq!(error.code, ExitCode::NotFound);
            assert_eq!(error.message.contains("was collected"), collected, "{wanted}");
        }
        assert!(history.previous().is_err());
        history.begins = None;
        assert_eq!(history.previous().unwrap(), None);
    }
}
