//! Answers that providers gave to a plan, for the run that executes it.

use super::Known;
use crate::provider::{Checked, Diff, Found};
use state_core::{EntryKey, LogLine, Properties};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

/// What a provider was asked about a resource: everything that its answer may depend on, but for the world.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Question {
    pub(super) kind: String,
    /// The recorded object.
    pub(super) recorded: Option<Known>,
    pub(super) inputs: Properties,
    pub(super) unknown: BTreeSet<String>,
}

/// The answers by method.
#[derive(Default)]
pub(crate) struct Answers {
    pub(super) checks: Memory<Checked>,
    pub(super) diffs: Memory<Diff>,
    pub(super) reads: Memory<Found>,
}

/// Answers to one kind of question.
pub(super) struct Memory<A>(Mutex<BTreeMap<EntryKey, Vec<Answer<A>>>>);

struct Answer<A> {
    question: Question,
    answer: A,
    said: Vec<LogLine>,
}

impl<A> Default for Memory<A> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<A: Clone> Memory<A> {
    /// Keeps an answer, and what the provider logged while it was asked.
    pub(super) fn keep(&self, key: &EntryKey, question: Question, answer: A, said: Vec<LogLine>) {
        let mut answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        answers.entry(key.clone()).or_default().push(Answer {
            question,
            answer,
            said,
        });
    }

    /// The answer to the same question.
    pub(super) fn find(&self, key: &EntryKey, question: &Question) -> Option<(A, Vec<LogLine>)> {
        let answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of_key = answers.get(key)?.iter();
        let mut same = of_key.filter(|known| known.question == *question);
        same.next()
            .map(|known| (known.answer.clone(), known.said.clone()))
    }
}
