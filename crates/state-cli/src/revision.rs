//! Revisions as people name them: an id, the beginning of one, a serial, `@` for the current one, `@-` for the one
//! before it.

use crate::error::CliError;
use crate::exit::ExitCode;
use state_core::RevisionId;
use state_manager::{Revision, RevisionKind};

/// The revision that is meant. `history` is newest first.
///
/// # Errors
/// [`ExitCode::NotFound`] when there is none, [`ExitCode::Usage`] when there are several.
pub(crate) fn resolve(history: &[Revision], wanted: &str) -> Result<RevisionId, CliError> {
    let found = match wanted.strip_prefix('@') {
        Some(back) if back.chars().all(|c| c == '-') => relative(history, back.len()).into_iter().collect(),
        Some(_) => Vec::new(),
        None => history
            .iter()
            .filter(|revision| fits(&revision.id, wanted))
            .collect::<Vec<_>>(),
    };
    let object = format!("revision {wanted}");
    match &*found {
        [one] => Ok(one.id.clone()),
        [] => Err(
            CliError::new(ExitCode::NotFound, object, "there is no such revision")
                .with_hint("`statectl history` lists them"),
        ),
        several => {
            let ids: Vec<_> = several.iter().map(|revision| revision.id.to_string()).collect();
            let message = format!("it could be {}", ids.join(" or "));
            Err(CliError::new(ExitCode::Usage, object, &message).with_hint("give more of the id"))
        }
    }
}

/// The update before the current one.
pub(crate) fn previous(history: &[Revision]) -> Option<RevisionId> {
    relative(history, 1).map(|revision| revision.id.clone())
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
    use super::resolve;
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

    fn history() -> Vec<Revision> {
        vec![
            revision("12-aa00000000000000", true, false),
            revision("11-ab00000000000000", false, true),
            revision("2-cd00000000000000", true, false),
            revision("1-ef00000000000000", false, false),
        ]
    }

    fn resolved(wanted: &str) -> Result<String, ExitCode> {
        resolve(&history(), wanted)
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
        history.push(revision("1-ee00000000000000", true, false));
        assert_eq!(resolve(&history, "1-e").unwrap_err().code, ExitCode::Usage);
    }
}
