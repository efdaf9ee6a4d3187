//! What every backend must do, rule by rule: the contract of [`crate::backend`] as tests.
//!
//! ```no_run
//! use state_core::testkit::{clock::SeededEntropy, conformance};
//! # async fn example() {
//! let results = conformance::run_all(async || state_core::MemoryBackend::new(), &SeededEntropy::new(1)).await;
//! conformance::expect_all(&results);
//! # }
//! ```
//!
//! What a store claims of itself is checked by [`capabilities::run_all`], which opens one place more than once.

pub mod capabilities;
pub mod collection;
pub mod heads;
pub mod journals;
pub mod locks;
pub mod names;
pub mod objects;

use crate::backend::{Acquire, Acquired, Backend, Holder, Tail};
use crate::counter::{Epoch, Slot};
use crate::environment::Entropy;
use crate::error::{Error, ErrorKind, Result};
use crate::head::Head;
use crate::id::{Lineage, Nonce};
use crate::ids::ParseIdError;
use crate::journal::{Frame, FrameKind, genesis};
use crate::name::StackName;
use std::fmt;

/// What came of one rule.
pub type Verdict = std::result::Result<(), Broken>;

/// How a rule was broken, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    how: String,
    error: Option<ErrorKind>,
}

impl Broken {
    /// For rules of your own.
    pub fn new(how: impl Into<String>) -> Self {
        Self {
            how: how.into(),
            error: None,
        }
    }

    /// A call that had to do otherwise.
    fn failed(how: &str, error: &Error) -> Self {
        Self {
            how: format!("{how}: {error}"),
            error: Some(error.kind()),
        }
    }

    /// What a call failed with that had to succeed, or to fail otherwise; none if no call failed. On a store that is
    /// made to fail, a rule that ends with an honest error isn't broken, but undecided.
    pub const fn error(&self) -> Option<ErrorKind> {
        self.error
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.how)
    }
}

impl std::error::Error for Broken {}

/// A call that had to succeed.
impl From<Error> for Broken {
    fn from(error: Error) -> Self {
        Self::failed("a call failed that had to succeed", &error)
    }
}

impl From<ParseIdError> for Broken {
    fn from(error: ParseIdError) -> Self {
        Error::from(error).into()
    }
}

macro_rules! rules {
    ($($module:ident :: $rule:ident,)*) => {
        /// Runs every rule, each on a store of its own that `make` opens empty.
        pub async fn run_all<B: Backend>(
            make: impl AsyncFn() -> B,
            entropy: &dyn Entropy,
        ) -> Vec<(&'static str, Verdict)> {
            let mut results = Vec::new();
            $(
                let backend = make().await;
                let verdict = $module::$rule(&Bench::new(&backend, entropy)).await;
                results.push((stringify!($rule), verdict));
            )*
            results
        }
    };
}

rules! {
    names::names_swap_only_from_the_expected_nonce,
    names::names_collide_when_they_differ_only_in_case,
    names::names_are_listed_in_order_with_tombstones,
    heads::a_stack_is_created_once,
    heads::what_was_never_made_is_not_found,
    heads::head_swaps_keep_what_is_the_backends,
    heads::head_swaps_see_the_head_as_it_is_now,
    heads::a_removed_stack_cannot_be_acquired,
    locks::acquire_twice_is_locked_and_names_the_holder,
    locks::a_released_lock_is_free_and_the_epoch_rises,
    locks::a_dropped_writer_frees_the_lock,
    locks::break_needs_the_epoch_that_was_seen,
    locks::a_stale_writer_is_fenced_and_invisible,
    locks::a_stale_writer_cannot_free_the_lock_of_another,
    locks::the_fence_names_the_holder,
    locks::stacks_have_locks_of_their_own,
    journals::frames_come_back_in_order_and_linked,
    journals::a_frame_goes_only_where_it_belongs,
    journals::an_acquire_gives_all_frames_and_its_fence_last,
    journals::reading_from_a_slot_gives_the_rest,
    journals::a_rotation_begins_a_segment_that_a_base_can_name,
    journals::a_journal_that_ends_before_its_watermark_is_corrupt,
    objects::objects_are_created_once,
    objects::objects_are_listed_by_kind_in_order,
    objects::objects_of_stacks_are_apart,
    collection::a_store_deletes_exactly_when_it_says_so,
    collection::what_lies_before_the_floor_goes_and_the_rest_stays,
    collection::who_reads_before_the_floor_hears_that_it_was_collected,
    collection::what_still_counts_is_not_deleted,
    collection::a_stale_writer_deletes_nothing,
    collection::a_stale_writer_stays_fenced_after_a_collection,
}

/// For a test: panics with the names of all rules that were broken, and how.
///
/// # Panics
/// When there is one.
pub fn expect_all(results: &[(&'static str, Verdict)]) {
    let broken: Vec<String> = results
        .iter()
        .filter_map(|(rule, verdict)| Some(format!("{rule}: {}", verdict.as_ref().err()?)))
        .collect();
    assert!(broken.is_empty(), "broken rules:\n{}", broken.join("\n"));
}

/// A store under test, and the randomness of the rules.
#[derive(Clone, Copy, Debug)]
pub struct Bench<'a> {
    /// The store. A rule expects it to be empty.
    pub backend: &'a dyn Backend,
    /// Where ids and nonces come from.
    pub entropy: &'a dyn Entropy,
}

impl<'a> Bench<'a> {
    /// A store and its randomness.
    pub const fn new(backend: &'a dyn Backend, entropy: &'a dyn Entropy) -> Self {
        Self { backend, entropy }
    }

    /// A nonce that was never used.
    pub fn nonce(&self) -> Nonce {
        Nonce::random(self.entropy)
    }

    /// Makes a stack.
    pub async fn stack(&self) -> Result<Lineage> {
        let lineage = Lineage::random(self.entropy);
        let name = StackName::new("rules", "stack")?;
        self.backend
            .create_stack(&Head::new(lineage, name, self.nonce()))
            .await?;
        Ok(lineage)
    }

    /// What somebody asks who takes the lock, or breaks it at an epoch.
    pub fn request(&self, who: &str, break_epoch: Option<Epoch>) -> Acquire {
        Acquire {
            holder: Holder::new(who, "host", 7, "rule", None),
            break_epoch,
            head_nonce: self.nonce(),
            fence_nonce: self.nonce(),
        }
    }

    /// Takes the free lock of a stack.
    pub async fn acquire(&self, lineage: Lineage, who: &str) -> Result<Acquired> {
        self.backend.acquire(lineage, &self.request(who, None)).await
    }

    /// The frame that follows `tail`.
    pub fn frame(&self, epoch: Epoch, tail: Tail, payload: &[u8]) -> Result<Frame> {
        Frame::new(
            FrameKind::Data,
            epoch,
            tail.next,
            self.nonce(),
            payload,
            &tail.chain,
        )
    }

    /// Makes a stack whose journal came from elsewhere, with so many small frames.
    pub async fn stack_of(&self, frames: u64) -> Result<Lineage> {
        let lineage = Lineage::random(self.entropy);
        let head = Head::new(lineage, StackName::new("rules", "long")?, self.nonce());
        let before = Tail {
            next: Slot::ZERO,
            chain: genesis(lineage),
        };
        let (mut tail, mut journal) = (before, Vec::new());
        for number in 0..frames {
            let frame = self.frame(Epoch::ZERO, tail, format!("{number}\n").as_bytes())?;
            tail = after(&frame);
            journal.push(frame);
        }
        self.backend
            .copy_target()?
            .adopt_stack(&head, before, &journal)
            .await?;
        Ok(lineage)
    }

    /// Appends a frame with this payload, and gives it back with the new end.
    pub async fn append(&self, to: &Acquired, tail: Tail, payload: &[u8]) -> Result<(Frame, Tail)> {
        let frame = self.frame(to.writer.epoch(), tail, payload)?;
        to.writer.append(&frame).await?;
        let tail = after(&frame);
        Ok((frame, tail))
    }
}

/// The end of a journal whose last frame this is.
fn after(frame: &Frame) -> Tail {
    Tail {
        next: frame.slot().next(),
        chain: *frame.chain(),
    }
}

/// The rule is kept if `kept` is true.
fn ensure(kept: bool, otherwise: &str) -> Verdict {
    if kept { Ok(()) } else { Err(Broken::new(otherwise)) }
}

/// The rule is kept if the call failed so.
fn ensure_fails<T>(result: Result<T>, kind: ErrorKind, call: &str) -> Verdict {
    match result {
        Err(error) if error.kind() == kind => Ok(()),
        Err(error) => {
            let how = format!("{call} had to fail as {kind:?} and failed as {:?}", error.kind());
            Err(Broken::failed(&how, &error))
        }
        Ok(_) => Err(Broken::new(format!(
            "{call} had to fail as {kind:?} and succeeded"
        ))),
    }
}
