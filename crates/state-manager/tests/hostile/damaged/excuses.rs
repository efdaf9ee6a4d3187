//! Damage that a client can't notice, or needn't name by its path, each with the reason.

use super::answers::Answer;
use super::harm::Harm;
use super::specimen::{Client, Specimen};
use state_core::testkit::hostile::StoredKind;

/// One answer of a client on a store with one damaged object.
pub(super) struct Case<'a> {
    pub(super) specimen: &'a Specimen,
    pub(super) client: Client,
    pub(super) object: &'a str,
    pub(super) harm: Harm,
    pub(super) question: &'a str,
    pub(super) answer: &'a Answer,
    /// The answer on the intact store.
    pub(super) intact: Option<&'a Answer>,
}

/// A kind of damage that is excused.
pub(super) struct Excuse {
    pub(super) reason: &'static str,
    applies: fn(&Case<'_>) -> bool,
}

/// All excuses, in the order in which they are tried.
pub(super) const ALL: &[Excuse] = &[
    Excuse {
        reason: "a place without `format` has no store",
        applies: |case| {
            let is_said = case
                .answer
                .as_ref()
                .is_err_and(|error| error.ends_with("does not exist"));
            is_of(case, StoredKind::Format) && case.harm == Harm::Missing && is_said
        },
    },
    Excuse {
        reason: "a stack under a name that was deleted doesn't exist for a client that never saw the stack",
        applies: |case| {
            let is_deleted = is_of(case, StoredKind::Name) && case.harm == Harm::Missing;
            is_deleted && case.client != Client::Remembering
        },
    },
    Excuse {
        reason: "a line in place of a missing log says so, because a writer may crash before it stores a log",
        applies: |case| {
            let is_said = case
                .answer
                .as_ref()
                .is_ok_and(|lines| lines.contains("the log of this update is missing"));
            is_of(case, StoredKind::Log) && case.harm == Harm::Missing && case.question == "logs" && is_said
        },
    },
    Excuse {
        reason: "without the latest outputs document, the one before it is the latest for a client that never saw it",
        applies: |case| {
            let is_deleted = is_of(case, StoredKind::Outputs) && case.harm == Harm::Missing;
            is_deleted && case.client != Client::Remembering && case.question == "published outputs"
        },
    },
    Excuse {
        reason: "the tail of a journal that no session closed can be cut unnoticed by a client that never saw it: an append \
                 that was interrupted leaves the same",
        applies: |case| {
            let is_cut = matches!(case.harm, Harm::Cut(_) | Harm::Missing);
            let is_tail = is_of(case, StoredKind::Journal) && case.specimen.is_crashed;
            // No other content is shown of a revision that was cut off.
            let is_lost = !case.question.starts_with("revision ") || case.answer.is_err();
            is_tail && is_cut && is_lost && case.client != Client::Remembering
        },
    },
    Excuse {
        reason: "a client that saw more than the store shows now reports a store that was rolled back, and can't know which \
                 object is missing",
        applies: |case| {
            let is_cut = matches!(case.harm, Harm::Cut(_) | Harm::Missing);
            let is_latest = is_of(case, StoredKind::Outputs) || is_of(case, StoredKind::Journal);
            is_cut
                && is_latest
                && case.client == Client::Remembering
                && text(case.answer).contains("rolled back")
        },
    },
    Excuse {
        reason: "an error about the end of the journal names the last file that is left and the missing slots",
        applies: |case| {
            let is_missing = is_of(case, StoredKind::Journal) && case.harm == Harm::Missing;
            is_missing
                && case
                    .answer
                    .as_ref()
                    .is_err_and(|error| error.contains("the journal was truncated"))
        },
    },
    Excuse {
        reason: "messages of logs stay sealed without the file of their key",
        applies: |case| {
            let lines = |answer: &Answer| {
                answer
                    .as_ref()
                    .map_or(0, |lines| lines.matches("StoredLine {").count())
            };
            let is_whole = case
                .intact
                .is_some_and(|intact| lines(intact) == lines(case.answer));
            is_of(case, StoredKind::Key)
                && case.question == "logs"
                && is_whole
                && text(case.answer).contains("(sealed)")
        },
    },
    Excuse {
        reason: "a lock without its lease counts as free; fences and epochs keep writers apart",
        applies: |case| {
            let is_lease = is_of(case, StoredKind::Lock) && case.object.ends_with("/lease.json");
            is_lease && case.harm == Harm::Missing && case.question == "list"
        },
    },
    Excuse {
        reason: "an error about the tag of a frame names the slot of the frame: only the backend knows the file of a slot",
        applies: |case| {
            let named = format!(" of stack {}: its tag doesn't match", case.specimen.lineage);
            let is_flipped = is_of(case, StoredKind::Journal) && matches!(case.harm, Harm::Flipped(_));
            is_flipped
                && case
                    .answer
                    .as_ref()
                    .is_err_and(|error| error.contains("journal frame ") && error.contains(&named))
        },
    },
];

/// The number of the excuse for an answer.
pub(super) fn find(case: &Case<'_>) -> Option<usize> {
    ALL.iter().position(|excuse| (excuse.applies)(case))
}

fn is_of(case: &Case<'_>, kind: StoredKind) -> bool {
    StoredKind::of(case.object) == Some(kind)
}

/// Why damage of an object may never be noticed; none if some damage of it must be.
pub(super) fn harmless(object: &str) -> Option<&'static str> {
    let (_, name) = object.rsplit_once('/').unwrap_or(("", object));
    match name {
        "reserve" => Some("its bytes have no meaning: they are freed for deletions on a full disk"),
        "clock.json" => Some("it is overwritten before the time of the store is read"),
        _ if name.ends_with(".lock") || name.starts_with("lock.") => {
            Some("the operating system holds the lock, and the text of the file is for messages only")
        }
        "meta.json" => Some(
            "clients find the folder of a stack by its name, and object stores never read its lineage again",
        ),
        _ if object.starts_with("outputs/") => Some("only the latest document is read"),
        _ if object.contains("/journal/") && !name.contains('.') => {
            Some("slots and compactions of an object store hold the same frames, and one of the two is read")
        }
        _ if name.ends_with(".frames") => Some("the segments hold the same frames"),
        _ => None,
    }
}

fn text(answer: &Answer) -> &str {
    match answer {
        Ok(text) | Err(text) => text,
    }
}
