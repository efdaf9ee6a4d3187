//! Cache of provider answers: filled by the plan, and read by the run that executes the plan. The run then decides on
//! the same answers as the plan that the user confirmed.

use super::{CallTarget, RecordedObject};
use crate::provider::{CheckedInputs, Diff, ReadResult};
use state_core::{EntryKey, LogLine, Properties};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

/// The question of a read-only call: all data that the answer depends on, except for the real resources.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Question {
    pub(super) kind: String,
    /// The recorded properties of the object. `None` for the `check` of a resource without a recorded object.
    pub(super) recorded: Option<RecordedObject>,
    pub(super) inputs: Properties,
    pub(super) unknown: BTreeSet<String>,
}

impl Question {
    pub(super) fn new(
        target: &CallTarget,
        recorded: Option<RecordedObject>,
        inputs: Properties,
        unknown: BTreeSet<String>,
    ) -> Self {
        Self {
            kind: target.kind.clone(),
            recorded,
            inputs,
            unknown,
        }
    }
}

/// The cached answers, by provider method.
#[derive(Default)]
pub(crate) struct Answers {
    pub(super) checks: AnswerCache<CheckedInputs>,
    pub(super) diffs: AnswerCache<Diff>,
    pub(super) reads: AnswerCache<ReadResult>,
}

/// The cached answers of one provider method.
pub(super) struct AnswerCache<A>(Mutex<BTreeMap<EntryKey, Vec<Answer<A>>>>);

struct Answer<A> {
    question: Question,
    answer: A,
    log_lines: Vec<LogLine>,
}

impl<A> Default for AnswerCache<A> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<A: Clone> AnswerCache<A> {
    /// Stores an answer and the lines that the provider logged during the call.
    pub(super) fn keep(&self, key: &EntryKey, question: Question, answer: A, log_lines: Vec<LogLine>) {
        let mut answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        answers.entry(key.clone()).or_default().push(Answer {
            question,
            answer,
            log_lines,
        });
    }

    /// Returns the answer to an equal question about the same entry, and the lines that the provider logged with it.
    /// `None` if the plan didn't ask this question.
    pub(super) fn find(&self, key: &EntryKey, question: &Question) -> Option<(A, Vec<LogLine>)> {
        let answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of_key = answers.get(key)?.iter();
        let mut same = of_key.filter(|known| known.question == *question);
        same.next()
            .map(|known| (known.answer.clone(), known.log_lines.clone()))
    }
}
