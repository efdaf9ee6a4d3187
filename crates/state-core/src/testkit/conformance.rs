//! The conformance suite for backends: the contract of [`crate::backend`] as tests, one function per rule.
//!
//! ```no_run
//! use state_core::testkit::{clock::SeededEntropy, conformance};
//! # async fn example() {
//! let results = conformance::run_all(async || state_core::MemoryBackend::new(), &SeededEntropy::new(1)).await;
//! conformance::expect_all(&results);
//! # }
//! ```
//!
//! [`capabilities::run_all`] tests the claimed capabilities of a store. It is separate, because it needs several
//! handles to one store.

pub mod capabilities;
pub mod collection;
pub mod copies;
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

/// The result of one rule.
pub type Verdict = std::result::Result<(), RuleViolation>;

/// The description of a violated rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleViolation {
    message: String,
    error: Option<ErrorKind>,
}

impl RuleViolation {
    /// Creates a violation with a message. Crates with additional rules use it too.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            error: None,
        }
    }

    /// Creates a violation for a call that failed unexpectedly, or with another error than expected.
    fn failed(message: &str, error: &Error) -> Self {
        Self {
            message: format!("{message}: {error}"),
            error: Some(error.kind()),
        }
    }

    /// Returns the kind of the unexpected error that a call returned; `None` if the violation is not about an error.
    /// Tests with injected faults use it to ignore the violations of calls that failed because of a fault and reported
    /// this.
    pub const fn error(&self) -> Option<ErrorKind> {
        self.error
    }
}

impl fmt::Display for RuleViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for RuleViolation {}

/// Reports a call that returned an error, although it should have succeeded.
impl From<Error> for RuleViolation {
    fn from(error: Error) -> Self {
        Self::failed("a call failed that should have succeeded", &error)
    }
}

impl From<ParseIdError> for RuleViolation {
    fn from(error: ParseIdError) -> Self {
        Error::from(error).into()
    }
}

macro_rules! rules {
    ($($module:ident :: $rule:ident,)*) => {
        /// Runs every rule, each on a new empty store that `make` opens.
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
    names::name_swap_requires_the_expected_nonce,
    names::names_are_case_insensitive,
    names::names_are_listed_sorted_with_tombstones,
    heads::stack_is_created_once,
    heads::missing_stack_or_object_is_not_found,
    heads::head_swap_keeps_fields_of_the_backend,
    heads::head_swap_receives_the_latest_head,
    heads::failing_change_leaves_the_head_unchanged,
    heads::removed_stack_cannot_be_acquired,
    locks::second_acquire_is_refused_with_the_lock_holder,
    locks::released_lock_is_free_and_epoch_rises,
    locks::dropped_writer_frees_the_lock,
    locks::break_requires_the_current_epoch,
    locks::stale_writer_is_fenced_and_invisible,
    locks::stale_writer_cannot_release_the_new_lock,
    locks::fence_contains_the_lock_holder,
    locks::stacks_are_locked_independently,
    journals::frames_are_read_in_order_and_linked,
    journals::frames_between_two_positions_are_those_of_the_journal,
    journals::frame_for_another_slot_or_chain_is_refused,
    journals::acquire_returns_all_frames_with_its_fence_last,
    journals::reading_from_a_slot_returns_the_later_frames,
    journals::rotation_starts_a_segment_for_a_new_base,
    journals::journal_that_ends_before_its_watermark_is_corrupt,
    journals::closed_journal_hides_no_acknowledged_frame,
    objects::objects_are_created_once,
    objects::objects_are_listed_by_kind_in_order,
    objects::objects_belong_to_one_stack,
    copies::updated_copy_has_the_new_frames_and_head,
    copies::copy_changed_since_it_was_read_is_not_updated,
    copies::copy_is_not_updated_while_its_lock_is_held,
    copies::updated_copy_can_be_taken_over,
    collection::store_deletes_iff_it_claims_collection,
    collection::collection_deletes_only_before_the_history_floor,
    collection::read_before_the_history_floor_is_not_found,
    collection::items_in_use_are_not_deleted,
    collection::stale_writer_cannot_delete,
    collection::stale_writer_stays_fenced_after_collection,
}

/// Asserts in a test that no rule was violated.
///
/// # Panics
/// If a rule was violated. The message contains the names and descriptions of all violated rules.
pub fn expect_all(results: &[(&'static str, Verdict)]) {
    let violations: Vec<String> = results
        .iter()
        .filter_map(|(rule, verdict)| Some(format!("{rule}: {}", verdict.as_ref().err()?)))
        .collect();
    assert!(
        violations.is_empty(),
        "violated rules:\n{}",
        violations.join("\n")
    );
}

/// A backend under test, and the source of randomness for the rules.
#[derive(Clone, Copy, Debug)]
pub struct Bench<'a> {
    /// The backend under test. A rule expects an empty one.
    pub backend: &'a dyn Backend,
    /// The source of ids and nonces.
    pub entropy: &'a dyn Entropy,
}

impl<'a> Bench<'a> {
    /// Creates a bench for a backend.
    pub const fn new(backend: &'a dyn Backend, entropy: &'a dyn Entropy) -> Self {
        Self { backend, entropy }
    }

    /// Returns an unused nonce.
    pub fn nonce(&self) -> Nonce {
        Nonce::random(self.entropy)
    }

    /// Creates a stack with an empty journal.
    pub async fn stack(&self) -> Result<Lineage> {
        let lineage = Lineage::random(self.entropy);
        let name = StackName::new("rules", "stack")?;
        self.backend
            .create_stack(&Head::new(lineage, name, self.nonce()))
            .await?;
        Ok(lineage)
    }

    /// Returns a request to acquire the lock, or to break it at an epoch.
    pub fn request(&self, who: &str, break_epoch: Option<Epoch>) -> Acquire {
        Acquire {
            holder: Holder::new(who, "host", 7, "rule", None),
            break_epoch,
            head_nonce: self.nonce(),
            fence_nonce: self.nonce(),
        }
    }

    /// Acquires the free lock of a stack.
    pub async fn acquire(&self, lineage: Lineage, who: &str) -> Result<Acquired> {
        self.backend.acquire(lineage, &self.request(who, None)).await
    }

    /// Returns the frame that follows `tail`.
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

    /// Creates a stack by adopting a journal with the given number of small frames.
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

    /// Appends a frame with this payload; returns the frame and the new end of the journal.
    pub async fn append(&self, to: &Acquired, tail: Tail, payload: &[u8]) -> Result<(Frame, Tail)> {
        let frame = self.frame(to.writer.epoch(), tail, payload)?;
        to.writer.append(&frame).await?;
        let tail = after(&frame);
        Ok((frame, tail))
    }
}

/// Returns the end of a journal whose last frame is this one.
fn after(frame: &Frame) -> Tail {
    Tail {
        next: frame.slot().next(),
        chain: *frame.chain(),
    }
}

/// Checks a condition of a rule.
fn ensure(kept: bool, otherwise: &str) -> Verdict {
    if kept {
        Ok(())
    } else {
        Err(RuleViolation::new(otherwise))
    }
}

/// Checks that a call failed with an error of this kind.
fn ensure_fails<T>(result: Result<T>, kind: ErrorKind, call: &str) -> Verdict {
    match result {
        Err(error) if error.kind() == kind => Ok(()),
        Err(error) => {
            let message = format!(
                "{call} should have failed as {kind:?}, but failed as {:?}",
                error.kind()
            );
            Err(RuleViolation::failed(&message, &error))
        }
        Ok(_) => Err(RuleViolation::new(format!(
            "{call} should have failed as {kind:?}, but succeeded"
        ))),
    }
}
