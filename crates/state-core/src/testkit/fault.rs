//! A backend with injected faults: a call fails before its effect or after it, takes effect late, or takes effect
//! twice.
//!
//! A [`FaultyBackend`] wraps any backend. Without a plan, it behaves like the wrapped backend. Code above a backend
//! must survive each of these faults with a consistent state and a truthful error.
//!
//! ```
//! use state_core::testkit::fault::{Fault, FaultyBackend, Operation};
//! use state_core::{Backend, MemoryBackend};
//! use std::sync::Arc;
//!
//! let backend = FaultyBackend::new(Arc::new(MemoryBackend::new()));
//! let plan = backend.plan();
//! plan.fail(Operation::Append, 2, Fault::AfterEffect); // the third append from now takes effect and fails
//! # assert_eq!(plan.calls(Operation::Append), 0);
//! ```

mod writer;

use crate::backend::{
    Acquire, Acquired, Backend, Capabilities, CollectableStore, CopyTarget, CopyUpdate, Extensions,
    JournalView, LeftoverAction, Leftovers, LockStatus, NamePointer, ObjectKind, ObjectName, StoredItem,
    StoredItemName, Tail,
};
use crate::counter::Slot;
use crate::error::{Error, Result};
use crate::head::Head;
use crate::id::{Lineage, Nonce};
use crate::journal::Frame;
use crate::name::StackName;
use async_trait::async_trait;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use writer::FaultyWriter;

/// The kinds of injected faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The call has no effect. A write returns [`Error::NotApplied`].
    BeforeEffect,
    /// The call takes effect, and the answer is lost ([`Error::Indeterminate`]).
    AfterEffect,
    /// The answer is lost, and the call takes effect only when a test calls [`FaultPlan::deliver`], like a delayed
    /// packet. A head change can't be delayed: it takes effect at once.
    Late,
    /// The call takes effect twice; the caller gets the first answer.
    Twice,
}

impl Fault {
    /// All kinds of faults, for tests that try each.
    pub const ALL: [Self; 4] = [Self::BeforeEffect, Self::AfterEffect, Self::Late, Self::Twice];
}

/// The calls that can fail: each method of [`Backend`], [`Writer`](crate::Writer), [`CollectableStore`] and
/// [`CopyTarget`] that accesses the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "each is named after its method")]
#[non_exhaustive]
pub enum Operation {
    Names,
    ReadName,
    SwapName,
    CreateStack,
    ReadHead,
    Read,
    List,
    ReadJournal,
    Acquire,
    LockStatus,
    Append,
    Rotate,
    SwapHead,
    Remove,
    Create,
    Check,
    Release,
    StoredItems,
    /// A deletion. Each deleted item counts as one call, so that a deletion can be interrupted anywhere.
    Delete,
    AdoptObject,
    AdoptStack,
    UpdateStack,
}

impl Operation {
    /// All operations, for tests that try each.
    pub const ALL: [Self; 22] = [
        Self::Names,
        Self::ReadName,
        Self::SwapName,
        Self::CreateStack,
        Self::ReadHead,
        Self::Read,
        Self::List,
        Self::ReadJournal,
        Self::Acquire,
        Self::LockStatus,
        Self::Append,
        Self::Rotate,
        Self::SwapHead,
        Self::Remove,
        Self::Create,
        Self::Check,
        Self::Release,
        Self::StoredItems,
        Self::Delete,
        Self::AdoptObject,
        Self::AdoptStack,
        Self::UpdateStack,
    ];

    /// Returns whether the operation may change the store.
    pub const fn writes(self) -> bool {
        matches!(
            self,
            Self::SwapName
                | Self::CreateStack
                | Self::Acquire
                | Self::Append
                | Self::Rotate
                | Self::SwapHead
                | Self::Remove
                | Self::Create
                | Self::Release
                | Self::Delete
                | Self::AdoptObject
                | Self::AdoptStack
                | Self::UpdateStack
        )
    }
}

/// A call to the wrapped backend, which can be repeated and delayed.
type Call<T> = Box<dyn Fn() -> Pin<Box<dyn Future<Output = Result<T>> + Send>> + Send + Sync>;

/// The function of [`FaultPlan::watch`].
type Watcher = Arc<dyn Fn(Operation, bool) + Send + Sync>;

/// A delayed call, which runs when it is awaited.
type Delivery = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The planned faults of a backend. Clones share the plan.
#[derive(Clone, Default)]
pub struct FaultPlan {
    inner: Arc<Mutex<FaultSchedule>>,
}

#[derive(Default)]
struct FaultSchedule {
    calls: BTreeMap<Operation, usize>,
    /// The planned faults, by operation and number of the call, counted from the first.
    faults: BTreeMap<(Operation, usize), Fault>,
    late: Vec<Delivery>,
    watcher: Option<Watcher>,
}

impl FaultPlan {
    /// Plans a fault for one call of the operation: the next call if `after` is 0, the second next if it is 1, and so
    /// on.
    pub fn fail(&self, operation: Operation, after: usize, fault: Fault) {
        let mut planned = self.planned();
        let next = planned.calls.get(&operation).copied().unwrap_or_default();
        planned.faults.insert((operation, next + after), fault);
    }

    /// Calls `watcher` before (`true`) and after (`false`) each operation without a fault. For tests that stop a process
    /// at one of these points.
    pub fn watch(&self, watcher: impl Fn(Operation, bool) + Send + Sync + 'static) {
        self.planned().watcher = Some(Arc::new(watcher));
    }

    /// Removes all remaining faults from the plan.
    pub fn heal(&self) {
        self.planned().faults.clear();
    }

    /// Returns the number of calls of an operation so far.
    pub fn calls(&self, operation: Operation) -> usize {
        self.planned().calls.get(&operation).copied().unwrap_or_default()
    }

    /// Executes all delayed calls in the order in which they were made. Returns their number.
    pub async fn deliver(&self) -> usize {
        let late = std::mem::take(&mut self.planned().late);
        let count = late.len();
        for delivery in late {
            delivery.await;
        }
        count
    }

    /// Counts a call. Returns the fault that is planned for it, if any.
    fn next(&self, operation: Operation) -> Option<Fault> {
        let mut planned = self.planned();
        let calls = planned.calls.entry(operation).or_default();
        let this = *calls;
        *calls += 1;
        planned.faults.remove(&(operation, this))
    }

    /// Calls the watcher, if there is one. The plan isn't locked meanwhile, because a watcher may block for ever.
    fn notify(&self, operation: Operation, before: bool) {
        let watcher = self.planned().watcher.clone();
        if let Some(watcher) = watcher {
            watcher(operation, before);
        }
    }

    /// Runs a call with the fault that is planned for it.
    async fn run<T: Send + 'static>(&self, operation: Operation, call: Call<T>) -> Result<T> {
        match self.next(operation) {
            None => {
                self.notify(operation, true);
                let result = call().await;
                self.notify(operation, false);
                result
            }
            Some(Fault::BeforeEffect) => Err(before(operation)),
            Some(Fault::AfterEffect) => {
                drop(call().await);
                Err(after(operation))
            }
            Some(Fault::Late) => {
                let late = call();
                self.planned().late.push(Box::pin(async move {
                    drop(late.await);
                }));
                Err(after(operation))
            }
            Some(Fault::Twice) => {
                let first = call().await;
                drop(call().await);
                first
            }
        }
    }

    fn planned(&self) -> MutexGuard<'_, FaultSchedule> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for FaultPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let planned = self.planned();
        f.debug_struct("FaultPlan")
            .field("faults", &planned.faults)
            .field("late", &planned.late.len())
            .finish_non_exhaustive()
    }
}

/// Returns the error of a call that failed before its effect.
fn before(operation: Operation) -> Error {
    let object = format!("{operation:?}");
    let source = "an injected fault before the effect".into();
    if operation.writes() {
        Error::NotApplied { object, source }
    } else {
        Error::Unavailable { object, source }
    }
}

/// Returns the error of a call whose answer was lost.
fn after(operation: Operation) -> Error {
    let object = format!("{operation:?}");
    let source = "an injected fault after the effect".into();
    if operation.writes() {
        let mutations = Vec::new();
        Error::Indeterminate {
            object,
            mutations,
            source,
        }
    } else {
        Error::Unavailable { object, source }
    }
}

/// A backend that fails as planned in a [`FaultPlan`].
#[derive(Clone, Debug)]
pub struct FaultyBackend {
    inner: Arc<dyn Backend>,
    plan: FaultPlan,
}

impl FaultyBackend {
    /// Wraps a backend with an empty plan.
    pub fn new(inner: Arc<dyn Backend>) -> Self {
        Self {
            inner,
            plan: FaultPlan::default(),
        }
    }

    /// Returns the plan of the backend's faults.
    pub fn plan(&self) -> FaultPlan {
        self.plan.clone()
    }
}

/// Calls a method of the wrapped backend with the planned fault. The arguments are cloned, so that the call can be
/// repeated and delayed. `inner[ability]` calls a method of an optional extension of the backend.
macro_rules! call {
    ($self:ident.$operation:ident, $inner:ident $([$ability:ident])? . $method:ident ( $($argument:ident),* )) => {{
        let inner = Arc::clone(&$self.$inner);
        $(let $argument = $argument.clone();)*
        let call = move || {
            let inner = Arc::clone(&inner);
            $(let $argument = $argument.clone();)*
            let future: Pin<Box<dyn Future<Output = _> + Send>> =
                Box::pin(async move { inner$(.$ability()?)?.$method($($argument.borrow()),*).await });
            future
        };
        $self.plan.run(Operation::$operation, Box::new(call)).await
    }};
}
use call;

/// Lends an owned argument to a call, by value or by reference as the method requires.
trait Lend<'a, T> {
    fn borrow(&'a self) -> T;
}

macro_rules! lend {
    (copied: $($copied:ty),*; referred: $($referred:ty),*) => {
        $(impl<'a> Lend<'a, $copied> for $copied {
            fn borrow(&'a self) -> $copied { *self }
        })*
        $(impl<'a> Lend<'a, &'a $referred> for $referred {
            fn borrow(&'a self) -> &'a $referred { self }
        })*
    };
}

lend! {
    copied: Lineage, Nonce, Option<Nonce>, Slot, Option<Slot>, ObjectKind, Tail;
    referred: StackName, NamePointer, Head, ObjectName, Acquire, Frame, CopyUpdate
}

impl<'a> Lend<'a, &'a [StoredItemName]> for StoredItemName {
    fn borrow(&'a self) -> &'a [Self] {
        std::slice::from_ref(self)
    }
}

/// The frames of one call, shared by its repetitions.
#[derive(Clone)]
struct Frames(Arc<[Frame]>);

impl<'a> Lend<'a, &'a [Frame]> for Frames {
    fn borrow(&'a self) -> &'a [Frame] {
        &self.0
    }
}

impl<'a> Lend<'a, Bytes> for Bytes {
    fn borrow(&'a self) -> Self {
        self.clone()
    }
}

#[async_trait]
impl Backend for FaultyBackend {
    fn url(&self) -> String {
        self.inner.url()
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    async fn names(&self) -> Result<Vec<NamePointer>> {
        call!(self.Names, inner.names())
    }

    async fn read_name(&self, name: &StackName) -> Result<Option<NamePointer>> {
        call!(self.ReadName, inner.read_name(name))
    }

    async fn swap_name(
        &self,
        name: &StackName,
        expected: Option<Nonce>,
        pointer: &NamePointer,
    ) -> Result<()> {
        call!(self.SwapName, inner.swap_name(name, expected, pointer))
    }

    async fn create_stack(&self, head: &Head) -> Result<()> {
        call!(self.CreateStack, inner.create_stack(head))
    }

    async fn read_head(&self, lineage: Lineage) -> Result<Head> {
        call!(self.ReadHead, inner.read_head(lineage))
    }

    async fn read(&self, lineage: Lineage, name: &ObjectName) -> Result<Bytes> {
        call!(self.Read, inner.read(lineage, name))
    }

    async fn list(&self, lineage: Lineage, kind: ObjectKind) -> Result<Vec<ObjectName>> {
        call!(self.List, inner.list(lineage, kind))
    }

    async fn read_journal(&self, lineage: Lineage, from: Option<Slot>) -> Result<JournalView> {
        call!(self.ReadJournal, inner.read_journal(lineage, from))
    }

    async fn read_journal_of(&self, head: &Head, from: Option<Slot>) -> Result<JournalView> {
        call!(self.ReadJournal, inner.read_journal_of(head, from))
    }

    async fn read_frames(&self, head: &Head, from: Tail, until: Slot) -> Result<Vec<Frame>> {
        call!(self.ReadJournal, inner.read_frames(head, from, until))
    }

    async fn prepare_acquire(&self, lineage: Lineage) {
        self.inner.prepare_acquire(lineage).await;
    }

    async fn acquire(&self, lineage: Lineage, request: &Acquire) -> Result<Acquired> {
        let acquired = call!(self.Acquire, inner.acquire(lineage, request))?;
        Ok(Acquired {
            writer: Arc::new(FaultyWriter::new(acquired.writer, self.plan.clone())),
            ..acquired
        })
    }

    async fn lock_status(&self, lineage: Lineage) -> Result<LockStatus> {
        call!(self.LockStatus, inner.lock_status(lineage))
    }

    fn extensions(&self) -> Extensions<'_> {
        let mut extensions = self.inner.extensions();
        // Calls of optional extensions also go through this backend, so that they fail as planned.
        extensions.collectable = extensions.collectable.map(|_| self as _);
        extensions.copy_target = extensions.copy_target.map(|_| self as _);
        extensions
    }
}

#[async_trait]
impl CollectableStore for FaultyBackend {
    async fn stored_items(&self, lineage: Lineage, before: Slot) -> Result<Vec<StoredItem>> {
        call!(self.StoredItems, inner[collectable].stored_items(lineage, before))
    }

    async fn leftovers(
        &self,
        lineage: Lineage,
        min_age: Duration,
        action: LeftoverAction,
    ) -> Result<Leftovers> {
        self.inner
            .collectable()?
            .leftovers(lineage, min_age, action)
            .await
    }
}

#[async_trait]
impl CopyTarget for FaultyBackend {
    async fn adopt_object(&self, lineage: Lineage, name: &ObjectName, bytes: Bytes) -> Result<()> {
        call!(
            self.AdoptObject,
            inner[copy_target].adopt_object(lineage, name, bytes)
        )
    }

    async fn adopt_stack(&self, head: &Head, before: Tail, frames: &[Frame]) -> Result<()> {
        let frames = Frames(frames.into());
        call!(
            self.AdoptStack,
            inner[copy_target].adopt_stack(head, before, frames)
        )
    }

    async fn update_stack(&self, update: &CopyUpdate) -> Result<()> {
        call!(self.UpdateStack, inner[copy_target].update_stack(update))
    }
}
