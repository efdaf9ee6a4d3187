//! One batch: what goes into a frame, and who waits for it.

use crate::objects::snapshots::{check_size, has_long_string};
use state_core::backend::Tail;
use state_core::journal::{MAX_PAYLOAD, Record};
use state_core::json::Limits;
use state_core::state::LoadedSnapshots;
use state_core::verify::{Rule, Violation};
use state_core::{Base, Digest, Entry, Error, MutationId, Result, RevisionId, State};
use tokio::sync::oneshot;

/// The most mutations that go into one frame.
const MAX_JOBS: usize = 256;

/// A batch isn't filled further beyond this many bytes.
const FULL_BYTES: usize = 1 << 20;

/// What goes through the queue.
pub(crate) enum Request {
    Job(Job),
    /// Finish what is waiting, then stop.
    Close(oneshot::Sender<Result<Tail>>),
}

/// Some records that are applied together or not at all.
pub(crate) struct Job {
    pub(crate) work: Work,
    /// Stored snapshots that the records refer to.
    pub(crate) loaded: LoadedSnapshots,
    /// Worth a sync by itself. What isn't is acknowledged at once and rides with the next batch.
    pub(crate) durable: bool,
    pub(crate) reply: oneshot::Sender<Result<JobReply>>,
}

/// A record with its line, encoded by the caller.
pub(crate) struct Prepared {
    record: Record,
    line: Vec<u8>,
}

impl Prepared {
    /// Encodes a record; refuses it if its entry is too large for readers.
    pub(crate) fn checked(record: Record, entry: Option<&Entry>) -> Result<Self> {
        let prepared = Self::from(record);
        match entry {
            Some(entry) if prepared.is_long() => check_size(entry).map(|()| prepared),
            _ => Ok(prepared),
        }
    }

    /// Whether something in the record may be too large. No part of a line is longer than the line, so most entries
    /// are not encoded a second time to be measured.
    pub(crate) fn is_long(&self) -> bool {
        self.line.len() > Limits::default().max_string_bytes
    }
}

impl From<Record> for Prepared {
    fn from(record: Record) -> Self {
        let line = state_core::journal::encode_records([&record]);
        Self { record, line }
    }
}

/// Builds records from the state that they follow.
pub(crate) type Builder = Box<dyn FnOnce(&State, &Base) -> Result<Vec<Record>> + Send>;

/// What a job records.
pub(crate) enum Work {
    /// Known before its turn comes.
    Prepared(Vec<Prepared>),
    /// Depends on the state when its turn comes.
    Built(Builder),
}

/// What a caller hears.
#[derive(Debug, Default)]
pub(crate) struct JobReply {
    /// Rules that a result broke: it stays on its pending operation.
    pub(crate) refused: Vec<Violation>,
    /// The revision that was made.
    pub(crate) revision: Option<RevisionId>,
}

impl Job {
    pub(crate) fn refuse(self, error: Error) {
        let _ = self.reply.send(Err(error)).ok();
    }
}

struct Waiting {
    reply: oneshot::Sender<Result<JobReply>>,
    answer: JobReply,
    mutations: Vec<MutationId>,
}

/// The next frame, as far as it is filled.
pub(crate) struct Batch {
    state: State,
    payload: Vec<u8>,
    jobs: usize,
    waiting: Vec<Waiting>,
    /// The mark or stored revision that ends the frame.
    ending: Option<Record>,
}

impl Batch {
    /// An empty batch behind this state.
    pub(crate) fn on(state: State) -> Self {
        Self {
            state,
            payload: Vec::new(),
            jobs: 0,
            waiting: Vec::new(),
            ending: None,
        }
    }

    /// Applies a job; one that breaks a rule is refused and leaves no trace.
    pub(crate) fn add(&mut self, job: Job, base: &Base) {
        let mut state = self.state.clone();
        match prepare(&mut state, job.work, &job.loaded, base).and_then(fitting) {
            Err(error) => {
                let _ = job.reply.send(Err(error)).ok();
            }
            Ok((records, answer)) => {
                self.state = state;
                self.jobs += 1;
                let mutations = records.iter().filter_map(|p| p.record.mutation()).collect();
                for Prepared { record, line } in records {
                    self.payload.extend_from_slice(&line);
                    if record.ends_frame() {
                        self.ending = Some(record);
                    }
                }
                if job.durable {
                    self.waiting.push(Waiting {
                        reply: job.reply,
                        answer,
                        mutations,
                    });
                } else {
                    let _ = job.reply.send(Ok(answer)).ok();
                }
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.payload.is_empty()
    }

    /// Whether somebody waits for it.
    pub(crate) fn must_be_sent(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether nothing more should go into it.
    pub(crate) fn is_full(&self) -> bool {
        self.ending.is_some() || self.jobs >= MAX_JOBS || self.payload.len() >= FULL_BYTES
    }

    pub(crate) fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// The state with all of it applied.
    pub(crate) const fn state(&self) -> &State {
        &self.state
    }

    pub(crate) fn settle(&mut self, chain: &Digest) -> Option<RevisionId> {
        self.state.settle(chain)
    }

    pub(crate) fn take_ending(&mut self) -> Option<Record> {
        self.ending.take()
    }

    /// It is durable.
    pub(crate) fn acknowledge(self, revision: Option<&RevisionId>) {
        for Waiting { reply, answer, .. } in self.waiting {
            let _ = reply
                .send(Ok(JobReply {
                    revision: revision.cloned(),
                    ..answer
                }))
                .ok();
        }
    }

    /// It is not, or nobody knows.
    pub(crate) fn fail(self, error: &Error) {
        for Waiting { reply, mutations, .. } in self.waiting {
            let _ = reply.send(Err(told_to_each(error, mutations))).ok();
        }
    }
}

/// What fits into no frame, or could be written and not read again, is refused alone: it must not end the queue for all
/// others, nor the stack for all readers.
fn fitting((records, answer): (Vec<Prepared>, JobReply)) -> Result<(Vec<Prepared>, JobReply)> {
    const MOST: usize = MAX_PAYLOAD - FULL_BYTES;
    let bytes: usize = records.iter().map(|prepared| prepared.line.len()).sum();
    let detail = if bytes > MOST {
        format!("encoded it has {bytes} bytes; {MOST} are the most")
    } else if records.iter().any(|prepared| has_long_string(&prepared.line)) {
        "it has a string of more than 16 MiB".to_owned()
    } else {
        return Ok((records, answer));
    };
    Err(Error::Integrity {
        object: "the change".to_owned(),
        violations: vec![Violation {
            rule: Rule::Size,
            entry: None,
            detail,
        }],
    })
}

fn prepare(
    state: &mut State,
    work: Work,
    loaded: &LoadedSnapshots,
    base: &Base,
) -> Result<(Vec<Prepared>, JobReply)> {
    let records = match work {
        Work::Prepared(records) => records,
        Work::Built(build) => build(state, base)?.into_iter().map(Prepared::from).collect(),
    };
    let mut answer = JobReply::default();
    for Prepared { record, .. } in &records {
        let applied = state
            .apply(record, loaded)
            .map_err(|violations| Error::integrity(describe(record), violations))?;
        answer.refused.extend(applied.refused);
    }
    Ok((records, answer))
}

fn describe(record: &Record) -> String {
    match record {
        Record::Begin(begin) => format!("begin of {} of {}", begin.op, begin.target),
        Record::End(end) => format!("end of mutation {}", end.id),
        Record::Step(step) => format!("step {}", step.change.op()),
        Record::Resolve(resolve) => format!("resolution of {}", resolve.id),
        Record::UpdateStart(update) => format!("start of {} {}", update.kind, update.id),
        _ => "the change".to_owned(),
    }
}

/// One failure, as each of those who waited for it must hear it.
fn told_to_each(error: &Error, mutations: Vec<MutationId>) -> Error {
    let object = error.object().to_owned();
    match error {
        Error::Fenced {
            mine,
            theirs,
            indeterminate,
            ..
        } => Error::Fenced {
            object,
            mine: *mine,
            theirs: *theirs,
            indeterminate: *indeterminate,
        },
        Error::Indeterminate { source, .. } => Error::Indeterminate {
            object,
            mutations,
            source: source.to_string().into(),
        },
        Error::Closed { reason, .. } => Error::closed(object, reason.clone()),
        other => Error::NotApplied {
            object,
            source: other.to_string().into(),
        },
    }
}
