//! One batch: the records that the queue writes as one frame, and the jobs that wait until this frame is durable.

use crate::objects::snapshots::{check_size, has_long_string};
use crate::write::checkpoint::StoredCheckpoint;
use crate::write::queue::draft::Draft;
use crate::write::resets::Reset;
use state_core::backend::Tail;
use state_core::journal::{MAX_PAYLOAD, Record, append_record};
use state_core::json::Limits;
use state_core::state::LoadedSnapshots;
use state_core::verify::{Rule, Violation};
use state_core::{Base, Digest, Entry, Error, MutationId, Result, RevisionId, State};
use std::sync::Arc;
use tokio::sync::oneshot;

/// Maximum number of jobs in one frame.
const MAX_JOBS: usize = 256;

/// A batch of at least this many bytes takes no further jobs.
const FULL_BYTES: usize = 1 << 20;

/// A message to the queue.
pub(crate) enum Request {
    Job(Job),
    /// Several small jobs, which are written in one frame unless one of them breaks a rule. Only the last one may make a
    /// revision.
    Jobs(Vec<Job>),
    /// Writes all waiting jobs, then stops the queue.
    Close(oneshot::Sender<Result<QueueEnd>>),
}

/// The end of a queue that was closed.
#[derive(Debug)]
pub(crate) struct QueueEnd {
    /// The end of the journal.
    pub(crate) tail: Tail,
    /// A stored checkpoint at that end, if one is due: the head that closes the journal names it.
    pub(crate) checkpoint: Option<StoredCheckpoint>,
    /// The error of the last publication of outputs.
    pub(crate) publication: Result<()>,
}

/// Records that are applied together or not at all.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) work: Work,
    /// The stored snapshots to which the records refer by digest, so that the records can be applied without a read.
    pub(crate) loaded: LoadedSnapshots,
    /// Whether the job needs a sync of its own. Otherwise it is acknowledged at once and written with the next batch.
    pub(crate) durable: bool,
    pub(crate) reply: oneshot::Sender<Result<JobReply>>,
}

/// A record with its encoded line. The caller encodes it, in its own task.
pub(crate) struct Prepared {
    record: Record,
    line: Vec<u8>,
}

impl Prepared {
    /// Encodes a record; refuses it if its entry is larger than readers accept.
    pub(crate) fn checked(record: Record, entry: Option<&Entry>) -> Result<Self> {
        let prepared = Self::from(record);
        match entry {
            Some(entry) if prepared.is_long() => check_size(entry).map(|()| prepared),
            _ => Ok(prepared),
        }
    }

    pub(crate) const fn record(&self) -> &Record {
        &self.record
    }

    /// Whether the record may contain a string that is longer than readers accept. Only the entry of such a record is
    /// encoded a second time to measure its strings. No string is longer than the whole line, so a short line needs no
    /// such check.
    pub(crate) fn is_long(&self) -> bool {
        self.line.len() > Limits::default().max_string_bytes
    }
}

// The line holds the values of a plaintext stack, so only its length is printed.
impl std::fmt::Debug for Prepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prepared")
            .field("length", &self.line.len())
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Work {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Prepared(records) => f.debug_tuple("Prepared").field(records).finish(),
            Self::Built(_) => f.write_str("Built(..)"),
        }
    }
}

impl Work {
    /// Whether the records are known and have at most this many bytes.
    pub(crate) fn is_within(&self, bytes: usize) -> bool {
        match self {
            Self::Prepared(records) => {
                records.iter().map(|prepared| prepared.line.len()).sum::<usize>() <= bytes
            }
            Self::Built(_) => false,
        }
    }
}

impl From<Record> for Prepared {
    fn from(record: Record) -> Self {
        let line = state_core::journal::encode_records([&record]);
        Self { record, line }
    }
}

/// Builds records on the state at the time when the queue reaches the job.
pub(crate) type Builder = Box<dyn FnOnce(&mut Draft<'_>) -> Result<()> + Send>;

/// The records of a job, or the function that builds them.
pub(crate) enum Work {
    /// Records that the caller built before queueing them.
    Prepared(Vec<Prepared>),
    /// Records that depend on the state at the time when the queue reaches the job.
    Built(Builder),
}

/// The reply to a caller.
#[derive(Debug, Default)]
pub(crate) struct JobReply {
    /// Rules that a provider result broke. The result is then kept on its pending operation.
    pub(crate) refused: Vec<Violation>,
    /// The revision that the batch made. None if the batch made no revision, and always none in the reply to a job that
    /// isn't durable.
    pub(crate) revision: Option<RevisionId>,
}

impl Job {
    /// Answers the job's caller with an error.
    pub(crate) fn refuse(self, error: Error) {
        let _ = self.reply.send(Err(error)).ok();
    }
}

/// A job that waits for its batch to become durable.
struct WaitingJob {
    reply: oneshot::Sender<Result<JobReply>>,
    job_reply: JobReply,
    /// Ids of the mutations in the job's records, which an error of the append lists.
    mutations: Vec<MutationId>,
}

/// The next frame while it is being filled.
pub(crate) struct Batch {
    /// The state after all records of the batch.
    state: State,
    payload: Vec<u8>,
    jobs: usize,
    waiting: Vec<WaitingJob>,
    /// The record that makes a revision, which is the last one of the frame; none if the batch makes no revision.
    ending: Option<Record>,
    /// The snapshots to which the batch resets the state, in the order of its records.
    resets: Vec<Reset>,
}

impl Batch {
    /// An empty batch on top of this state.
    pub(crate) fn on(state: State) -> Self {
        Self {
            state,
            payload: Vec::new(),
            jobs: 0,
            waiting: Vec::new(),
            ending: None,
            resets: Vec::new(),
        }
    }

    /// Applies a job to the state and adds its records to the frame. A job that breaks a rule, or whose records are too
    /// large, is refused and changes nothing. `base` is the stack's present base.
    pub(crate) fn add(&mut self, job: Job, base: &Base) {
        // The job is applied to a copy: if one of its records fails, the earlier ones must leave no trace.
        let mut state = self.state.clone();
        match prepare(&mut state, job.work, &job.loaded, base).and_then(require_fitting) {
            Err(error) => {
                let _ = job.reply.send(Err(error)).ok();
            }
            Ok((records, job_reply)) => {
                self.state = state;
                self.jobs += 1;
                let mutations = records.iter().filter_map(|p| p.record.mutation()).collect();
                for Prepared { record, line } in records {
                    append_record(&mut self.payload, &line);
                    self.resets.extend(reset_by(&record, &job.loaded));
                    if record.ends_frame() {
                        self.ending = Some(record);
                    }
                }
                if job.durable {
                    self.waiting.push(WaitingJob {
                        reply: job.reply,
                        job_reply,
                        mutations,
                    });
                } else {
                    // The job is acknowledged before it is durable: its caller accepts that a crash loses its records.
                    let _ = job.reply.send(Ok(job_reply)).ok();
                }
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.payload.is_empty()
    }

    /// Whether the batch must be sent without waiting for further jobs: a caller waits until its job is durable, or the
    /// batch is full.
    pub(crate) fn must_be_sent(&self) -> bool {
        // A full batch is sent even if no caller waits. If it took ever more jobs, it would outgrow a frame, and the
        // append of that frame would fail.
        !self.waiting.is_empty() || self.is_full()
    }

    /// Whether no further job may be added.
    pub(crate) fn is_full(&self) -> bool {
        // A record that makes a revision must be the last one of the frame: the id of the revision contains the chain
        // digest after the frame.
        self.ending.is_some() || self.jobs >= MAX_JOBS || self.payload.len() >= FULL_BYTES
    }

    pub(crate) fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// The state after all records of the batch.
    pub(crate) const fn state(&self) -> &State {
        &self.state
    }

    /// Sets the id of the revision that the batch makes in the batch's state, and returns it; none if the batch makes
    /// no revision. `chain` is the chain digest after the batch's frame.
    pub(crate) fn settle(&mut self, chain: &Digest) -> Option<RevisionId> {
        self.state.settle(chain)
    }

    /// The record that makes a revision; none if the batch makes no revision.
    pub(crate) const fn ending(&self) -> Option<&Record> {
        self.ending.as_ref()
    }

    /// The snapshots to which the batch resets the state, in the order of its records.
    pub(crate) fn resets(&self) -> &[Reset] {
        &self.resets
    }

    /// Takes the record that makes a revision out of the batch. None if the batch makes no revision.
    pub(crate) fn take_ending(&mut self) -> Option<Record> {
        self.ending.take()
    }

    /// Takes the snapshots to which the batch resets the state.
    pub(crate) fn take_resets(&mut self) -> Vec<Reset> {
        std::mem::take(&mut self.resets)
    }

    /// Acknowledges all waiting jobs. Call it when the batch is durable.
    pub(crate) fn acknowledge(self, revision: Option<&RevisionId>) {
        for WaitingJob { reply, job_reply, .. } in self.waiting {
            // The caller may have dropped its future. The records are durable nevertheless, so a reply that can't be
            // sent is no error.
            let _ = reply
                .send(Ok(JobReply {
                    revision: revision.cloned(),
                    ..job_reply
                }))
                .ok();
        }
    }

    /// Fails all waiting jobs. Call it when the batch wasn't written, or when its outcome is unknown.
    pub(crate) fn fail(self, error: &Error) {
        for WaitingJob { reply, mutations, .. } in self.waiting {
            // Each job gets an error with its own mutation ids, so that its caller can look up their outcome later.
            let _ = reply.send(Err(error_for_job(error, mutations))).ok();
        }
    }
}

/// Refuses a job whose records don't fit into a frame, or contain a string that no reader would accept. A frame that is
/// too large would make the append fail, which stops the queue for all jobs. Once a string that is too long is stored,
/// no reader can read the stack any more.
fn require_fitting((records, job_reply): (Vec<Prepared>, JobReply)) -> Result<(Vec<Prepared>, JobReply)> {
    // A job may join a batch that is just below `FULL_BYTES`, so it must leave that much room in the frame.
    const MOST: usize = MAX_PAYLOAD - FULL_BYTES;
    let bytes: usize = records.iter().map(|prepared| prepared.line.len()).sum();
    let detail = if bytes > MOST {
        format!("its encoding has {bytes} bytes; the maximum is {MOST}")
    } else if records.iter().any(|prepared| has_long_string(&prepared.line)) {
        "it contains a string of more than 16 MiB".to_owned()
    } else {
        return Ok((records, job_reply));
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

/// Applies the records of a job to `state`, in order. Returns the records and the reply to the caller. After an error
/// the state may contain some of the records.
fn prepare(
    state: &mut State,
    work: Work,
    loaded: &LoadedSnapshots,
    base: &Base,
) -> Result<(Vec<Prepared>, JobReply)> {
    let mut draft = Draft::new(state, base, loaded);
    match work {
        Work::Prepared(records) => draft.add_all(records)?,
        Work::Built(build) => build(&mut draft)?,
    }
    let (records, refused) = draft.finish();
    let revision = None;
    Ok((records, JobReply { refused, revision }))
}

/// The snapshot to which a record resets the state; none for other records.
fn reset_by(record: &Record, loaded: &LoadedSnapshots) -> Option<Reset> {
    let Record::ResetBase(reset) = record else {
        return None;
    };
    let snapshot = loaded.get(&reset.snapshot.digest)?;
    Some(Reset {
        reference: reset.snapshot.clone(),
        snapshot: Arc::clone(snapshot),
    })
}

/// The error for one job of a failed batch, with the job's own mutation ids.
fn error_for_job(error: &Error, mutations: Vec<MutationId>) -> Error {
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
        // Appends report every possible effect as `Fenced` or `Indeterminate`: after any other error nothing was
        // stored.
        other => Error::NotApplied {
            object,
            source: other.to_string().into(),
        },
    }
}
