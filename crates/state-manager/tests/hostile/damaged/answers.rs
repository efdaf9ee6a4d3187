//! The questions that a client asks a store, and its answers as text.

use crate::commands::found;
use crate::queries::published;
use crate::scenario::name;
use crate::updates::update;
use state_core::{Error, Result, RevisionId, Snapshot, StackName, encode_snapshot};
use state_manager::{LogQuery, OpeningObserver, Stacks, Standing, View};
use std::collections::BTreeMap;
use std::error::Error as _;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// The answer of a query, or its error with all causes.
pub(super) type Answer = Result<String, String>;

/// The answers of a client, by question.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Answers(pub(super) BTreeMap<String, Answer>);

impl Answers {
    fn add<T>(
        &mut self,
        question: impl Into<String>,
        answer: Result<T, String>,
        text: impl FnOnce(T) -> String,
    ) {
        self.0.insert(question.into(), answer.map(text));
    }

    fn add_debug<T: fmt::Debug>(&mut self, question: &str, answer: Result<T>) {
        self.add(question, answer.map_err(|error| described(&error)), |answer| {
            format!("{answer:?}")
        });
    }

    /// Replaces the id of a revision that isn't among these ones by a word: the id depends on the random bits that the
    /// update used.
    pub(super) fn without_new(mut self, known: &[RevisionId]) -> Self {
        let is_new = |word: &&str| {
            let id = word.parse::<RevisionId>();
            id.is_ok_and(|id| !known.contains(&id))
        };
        for answer in self.0.values_mut().flat_map(Result::as_mut) {
            let words = answer.split(|letter: char| !letter.is_ascii_hexdigit() && letter != '-');
            let new: Vec<String> = words.filter(is_new).map(str::to_owned).collect();
            for id in new {
                *answer = answer.replace(&id, "NEW");
            }
        }
        self
    }
}

/// Collects the report that the store was rolled back.
#[derive(Debug, Default)]
struct Regression(Mutex<Option<String>>);

impl OpeningObserver for Regression {
    fn opened(&self, _: &StackName, standing: &Standing) {
        if standing.regression.is_some() {
            self.0
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone_from(&standing.regression);
        }
    }
}

/// An error with all its causes.
fn described(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    text
}

/// Asks all questions. `revisions` are those of the intact store.
/// `opens` says whether the client must be able to open sealed values.
pub(super) async fn ask(stacks: Result<Stacks>, revisions: &[RevisionId], opens: bool) -> Answers {
    let stacks = match stacks {
        Ok(stacks) => stacks,
        Err(error) => return all(revisions, &Err(described(&error))),
    };
    let regression = Arc::new(Regression::default());
    let stacks = stacks.with_observer(Arc::<Regression>::clone(&regression) as _);
    let mut answers = match stacks.get(&name()).await {
        Ok(None) => all(revisions, &Ok("there is no such stack".to_owned())),
        Err(error) => all(revisions, &Err(described(&error))),
        Ok(Some(stack)) => {
            let mut answers = match stack.tip().await {
                Ok(view) => of_view(&view, revisions, opens).await,
                Err(error) => all(revisions, &Err(described(&error))),
            };
            answers.add_debug("verify", stack.verify(true).await);
            answers
        }
    };
    answers.add_debug("names", stacks.names().await);
    answers.add_debug("list", stacks.list().await);
    // Programs show the report of a rollback beside each answer about the stack.
    if let Some(report) = regression.0.lock().unwrap_or_else(PoisonError::into_inner).take() {
        for answer in answers.0.values_mut() {
            let (Ok(answer) | Err(answer)) = answer;
            *answer = format!("the store was rolled back: {report}\n{answer}");
        }
    }
    let mut facts = Vec::new();
    let published = published(&stacks, &mut facts).await;
    answers.add_debug("published outputs", published.map(|()| facts));
    answers
}

/// The same answer to all questions.
fn all(revisions: &[RevisionId], answer: &Answer) -> Answers {
    let questions = [
        "names",
        "list",
        "published outputs",
        "tip",
        "history",
        "logs",
        "verify",
    ];
    let mut answers = Answers::default();
    for question in questions {
        answers.add(question, answer.clone(), |answer| answer);
    }
    for revision in revisions {
        answers.add(format!("revision {revision}"), answer.clone(), |answer| answer);
    }
    answers
}

/// The answers about one stack.
async fn of_view(view: &View, revisions: &[RevisionId], opens: bool) -> Answers {
    let mut answers = Answers::default();
    let standing = format!(
        "{:?}, rolled back: {:?}, update open: {}, reliable: {}, current: {:?}",
        view.authenticity,
        view.regression,
        view.update_open(),
        view.is_reliable(),
        view.current_rev().ok()
    );
    let tip = text_of(view, view.snapshot(), opens).await;
    answers.add("tip", tip, |text| format!("{standing}\n{text}"));
    answers.add_debug("history", view.history().await);
    let query = LogQuery {
        reveal: true,
        ..LogQuery::default()
    };
    let logs = view.logs(&query).await;
    answers.add_debug(
        "logs",
        logs.map(|lines| lines.iter().map(|line| format!("{line:?}")).collect::<Vec<_>>()),
    );
    for revision in revisions {
        let text = match view.get(revision).await {
            Ok(snapshot) => text_of(view, snapshot, opens).await,
            Err(error) => Err(described(&error)),
        };
        answers.add(format!("revision {revision}"), text, |text| text);
    }
    answers
}

/// A snapshot as text, with its sealed values opened. With `opens`, values that can't be opened are an error.
async fn text_of(view: &View, snapshot: Snapshot, opens: bool) -> Answer {
    let revealed = view.reveal_if_possible(snapshot).await;
    match revealed.map_err(|error| described(&error))? {
        (_, Some(error)) if opens => Err(described(&error)),
        (snapshot, _) => Ok(encode_snapshot(&snapshot)),
    }
}

/// Locks the stack, creates a resource in an update, and closes the session.
pub(super) async fn write(stacks: Result<Stacks>) -> Result<(), String> {
    let written = async {
        let stack = found(&stacks?).await?;
        let status = stack.lock_status().await?;
        let session = match status.holder {
            Some(_) => stack.break_lock("write", status.epoch).await?,
            None => stack.lock("write").await?,
        };
        update(&session, "written").await?;
        session.close().await
    };
    written.await.map_err(|error| described(&error))
}
