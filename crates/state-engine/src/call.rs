//! Calls of the engine to providers: made while the session holds the stack's lock, within their time limit, and
//! isolated from panics.
//!
//! A call that changes real resources takes a [`DurableIntent`], the proof that the intent of its step is recorded. So
//! a crash during the call always leaves a pending operation, which the next run investigates.

mod answers;
mod approving;
mod ending;
mod subject;
#[cfg(test)]
mod tests;

pub(crate) use answers::Answers;
pub(crate) use subject::{CallTarget, RecordedObject};

use crate::approval::{CommandApprovals, CommandCall};
use crate::interrupt::Interrupt;
use crate::kind::KindDescription;
use crate::log::{LogBuffer, Logger};
use crate::provider::{
    CallContext, CheckRequest, CheckedInputs, ConfigureRequest, CreateRequest, DeleteRequest, Diff,
    DiffRequest, Failure, Object, Provider, ReadRequest, ReadResult, UpdateRequest,
};
use crate::record::DurableIntent;
use crate::registry::{RegisteredProvider, Registry};
use answers::{AnswerCache, Question};
use ending::{catch_panic, complete_failure, mask_failure, require_id};
use state_core::target::TargetProvider;
use state_core::{Clock, Crypter, Error, MutationId, Properties, StackName};
use state_manager::Session;
use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, OnceCell};

/// The reason why a call didn't succeed.
#[derive(Debug)]
pub(crate) enum CallError {
    /// The call failed: the provider reported a failure, panicked or exceeded the time limit.
    Failed(Failure),
    /// The run was interrupted twice, so the call was dropped.
    Abandoned,
    /// The lock is lost or the store failed, so the provider wasn't called.
    LockLost(Error),
}

type CallResult<T> = Result<T, CallError>;

const READ: &str = "read";

/// A provider, its configuration, and the result of [`Provider::configure`]. `result` is empty until `configure` has
/// ended.
#[derive(Debug)]
struct Preparation {
    registered: RegisteredProvider,
    result: OnceCell<Result<(), Failure>>,
}

/// The providers that were configured while settling pending operations, planning and applying. Clones share the list.
#[derive(Clone, Debug, Default)]
pub(crate) struct Preparations {
    /// Locked only to find a provider, never during a call of `configure`: a slow provider must not block the other
    /// providers.
    known: Arc<Mutex<Vec<Arc<Preparation>>>>,
}

/// Calls providers while settling pending operations, planning or applying.
pub(crate) struct Caller {
    pub(crate) registry: Registry,
    /// The commands that calls may start.
    pub(crate) approvals: CommandApprovals,
    pub(crate) interrupt: Interrupt,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) logger: Logger,
    pub(crate) timeout: Option<Duration>,
    /// Whether the calls are made for a plan. A plan calls only `configure`, `check`, `diff` and `read`, and caches the
    /// answers of `check`, `diff` and `read`.
    pub(crate) planning: bool,
    pub(crate) stack: StackName,
    /// Supplies the crypter that decrypts provider configurations.
    pub(crate) targets: Arc<dyn TargetProvider>,
    /// The session that holds the stack's lock. `None` for a plan that is made without the lock.
    pub(crate) lock: Option<Session>,
    pub(crate) preparations: Preparations,
    /// The answers that the plan received. Planning fills this cache, and applying the plan reads it.
    pub(crate) answers: Arc<Answers>,
}

impl Caller {
    /// The description of a kind. `None` if no provider is registered for the kind, or if its provider doesn't describe
    /// it.
    pub(crate) fn describe(&self, kind: &str) -> Option<KindDescription> {
        self.registry.describe(kind)
    }

    /// Lets a provider note a mutation whose intent is about to be written ([`Provider::note_work`]).
    pub(crate) fn note_work(&self, kind: &str, mutation: MutationId) {
        if let Some(registered) = self.registry.get(kind) {
            registered.provider.note_work(mutation);
        }
    }

    pub(crate) async fn check(
        &self,
        target: &CallTarget,
        inputs: Properties,
        unknown: BTreeSet<String>,
        old_inputs: Option<Properties>,
    ) -> CallResult<CheckedInputs> {
        let recorded = old_inputs.map(|inputs| RecordedObject {
            inputs,
            ..RecordedObject::default()
        });
        let question = Question::new(target, recorded, inputs, unknown);
        let call = |provider: Arc<dyn Provider>, question: Question, context| async move {
            let request = CheckRequest {
                address: target.key.address.clone(),
                kind: question.kind,
                inputs: question.inputs,
                unknown: question.unknown,
                old_inputs: question.recorded.map(|recorded| recorded.inputs),
                context,
            };
            provider.check(request).await
        };
        self.query("check", target, &self.answers.checks, question, call)
            .await
    }

    pub(crate) async fn diff(
        &self,
        target: &CallTarget,
        old: RecordedObject,
        inputs: Properties,
        unknown: BTreeSet<String>,
    ) -> CallResult<Diff> {
        let question = Question::new(target, Some(old), inputs, unknown);
        let call = |provider: Arc<dyn Provider>, question: Question, context| async move {
            let old = question.recorded.unwrap_or_default();
            let request = DiffRequest {
                address: target.key.address.clone(),
                kind: question.kind,
                id: old.id,
                old_inputs: old.inputs,
                old_outputs: old.outputs,
                inputs: question.inputs,
                unknown: question.unknown,
                context,
            };
            provider.diff(request).await
        };
        self.query("diff", target, &self.answers.diffs, question, call)
            .await
    }

    pub(crate) async fn read(&self, target: &CallTarget, known: RecordedObject) -> CallResult<ReadResult> {
        let question = Question::new(target, Some(known), Properties::empty(), BTreeSet::new());
        let call = |provider: Arc<dyn Provider>, question: Question, context| async move {
            let known = question.recorded.unwrap_or_default();
            let request = ReadRequest {
                key: target.key.clone(),
                kind: question.kind,
                id: known.id,
                inputs: known.inputs,
                outputs: known.outputs,
                others: known.others,
                mutation: known.mutation,
                context,
            };
            provider.read(request).await
        };
        self.query(READ, target, &self.answers.reads, question, call)
            .await
    }

    /// Makes a read-only call, or returns the cached answer if the plan asked the same question.
    async fn query<A: Clone, F: Future<Output = Result<A, Failure>>>(
        &self,
        what: &str,
        target: &CallTarget,
        memory: &AnswerCache<A>,
        question: Question,
        call: impl FnOnce(Arc<dyn Provider>, Question, CallContext) -> F,
    ) -> CallResult<A> {
        // A provider may read the objects of dependencies to answer, so a changed dependency invalidates the answer.
        let may_reuse = !self.planning && !target.dependency_changed;
        if let Some((answer, log_lines)) = memory.find(&target.key, &question).filter(|_| may_reuse) {
            log_lines.into_iter().for_each(|line| self.logger.forward(line));
            return Ok(answer);
        }
        let provider = self.provider(target).await?;
        if what == READ {
            let recorded = question.recorded.as_ref();
            let id = recorded.and_then(|recorded| recorded.id.as_deref());
            let inputs = recorded.map_or(&question.inputs, |recorded| &recorded.inputs);
            self.require_approval(target, id, inputs, CommandCall::Read)?;
        }
        // A read must not run after the lease ended: another session may be changing the object, and the read would
        // return a half-changed one. After a forced unlock it may, but its result can't be recorded. `check` and `diff`
        // only compare values, so they need no lock.
        if what == READ {
            self.check_lock().await?;
        }
        let log_lines = Arc::new(LogBuffer::silent());
        let logger = match self.planning {
            // The run logs these lines when it uses the cached answer.
            true => Logger::new(Arc::clone(&self.clock), log_lines.clone(), None),
            false => self.logger.clone(),
        };
        let query = call(provider, question.clone(), self.context(target, &logger));
        let answer = self.run_readonly(what, target, query).await?;
        if self.planning {
            memory.keep(&target.key, question, answer.clone(), log_lines.take());
        }
        Ok(answer)
    }

    pub(crate) async fn create(
        &self,
        begun: &DurableIntent,
        target: &CallTarget,
        inputs: Properties,
    ) -> CallResult<Object> {
        let provider = self.provider(target).await?;
        self.require_approval(target, None, &inputs, CommandCall::Create)?;
        // The request carries the id of the durable intent, so that a later read can find the object if the reply is
        // lost.
        let request = CreateRequest {
            address: target.key.address.clone(),
            kind: target.kind.clone(),
            inputs,
            mutation: begun.id(),
            context: self.context(target, &self.logger),
        };
        self.check_lock().await?;
        let made = self.run_call("create", target, provider.create(request)).await?;
        require_id(target, made)
    }

    pub(crate) async fn update(
        &self,
        begun: &DurableIntent,
        target: &CallTarget,
        old: RecordedObject,
        inputs: Properties,
    ) -> CallResult<Object> {
        let provider = self.provider(target).await?;
        self.require_approval(target, old.id.as_deref(), &inputs, CommandCall::Update)?;
        let request = UpdateRequest {
            address: target.key.address.clone(),
            kind: target.kind.clone(),
            id: old.id,
            old_inputs: old.inputs,
            old_outputs: old.outputs,
            inputs,
            mutation: begun.id(),
            context: self.context(target, &self.logger),
        };
        self.check_lock().await?;
        let changed = self.run_call("update", target, provider.update(request)).await?;
        require_id(target, changed)
    }

    pub(crate) async fn delete(
        &self,
        begun: &DurableIntent,
        target: &CallTarget,
        known: RecordedObject,
    ) -> CallResult<()> {
        let provider = self.provider(target).await?;
        self.require_approval(target, known.id.as_deref(), &known.inputs, CommandCall::Delete)?;
        let request = DeleteRequest {
            key: target.key.clone(),
            kind: target.kind.clone(),
            id: known.id,
            inputs: known.inputs,
            outputs: known.outputs,
            mutation: begun.id(),
            context: self.context(target, &self.logger),
        };
        self.check_lock().await?;
        self.run_call("delete", target, provider.delete(request)).await
    }

    fn context(&self, target: &CallTarget, logger: &Logger) -> CallContext {
        CallContext {
            interrupt: self.interrupt.clone(),
            log: logger.of_provider(&target.kind, &target.key.address, &target.secrets),
            preview: self.planning,
        }
    }

    /// Checks the lock before a call that reads or changes real resources. Without this check, a session whose lease ran
    /// out would change resources concurrently with the new lock holder. A broken lock is noticed when the intent of the
    /// call is recorded, so the store isn't asked while the lease surely holds.
    async fn check_lock(&self) -> CallResult<()> {
        match &self.lock {
            Some(session) => session.check_held().await.map_err(CallError::LockLost),
            None => Ok(()),
        }
    }

    /// Returns the provider of a kind, and configures it first if no earlier call did.
    async fn provider(&self, target: &CallTarget) -> CallResult<Arc<dyn Provider>> {
        let Some(registered) = self.registry.get(&target.kind) else {
            let kinds: Vec<&str> = self.registry.kinds().collect();
            let reason = format!(
                "no provider for kind `{}`; available kinds: {}",
                target.kind,
                kinds.join(", ")
            );
            return Err(CallError::Failed(Failure::not_done(reason)));
        };
        let preparation = self.preparation(registered).await;
        // Concurrent callers wait for the first caller. If its call is dropped, the next caller configures the
        // provider.
        let result = preparation
            .result
            .get_or_try_init(|| self.configure(target, registered));
        match result.await? {
            Ok(()) => Ok(Arc::clone(&registered.provider)),
            // A failed `configure` changed nothing of this resource, even if it reports an unknown outcome.
            Err(failure) => Err(CallError::Failed(Failure::NotDone(failure.reasons().to_vec()))),
        }
    }

    /// Returns the preparation that all callers of this provider with this configuration share. The first call creates
    /// it, without a result.
    async fn preparation(&self, registered: &RegisteredProvider) -> Arc<Preparation> {
        let mut configured = self.preparations.known.lock().await;
        let is_this = |other: &&Arc<Preparation>| {
            let other = &other.registered;
            Arc::ptr_eq(&other.provider, &registered.provider)
                && other.configuration == registered.configuration
        };
        if let Some(known) = configured.iter().find(is_this) {
            return Arc::clone(known);
        }
        let new = Arc::new(Preparation {
            registered: registered.clone(),
            result: OnceCell::new(),
        });
        configured.push(Arc::clone(&new));
        new
    }

    /// Configures a provider. Other callers share the inner result, even if it is a failure of the provider. They don't
    /// share the outer error (an interrupt or a lost lock): after such an error the next caller configures the provider
    /// again.
    async fn configure(
        &self,
        target: &CallTarget,
        registered: &RegisteredProvider,
    ) -> CallResult<Result<(), Failure>> {
        self.check_lock().await?;
        let request = ConfigureRequest {
            stack: self.stack.clone(),
            configuration: registered.configuration.clone(),
            crypter: self.crypter(&registered.configuration).await?,
            context: CallContext {
                preview: self.lock.is_none(),
                ..self.context(target, &self.logger)
            },
        };
        let call = registered.provider.configure(request);
        // The call serves all resources of the provider, so the time limit of one resource doesn't apply.
        let target = CallTarget {
            timeout: None,
            ..target.clone()
        };
        match self.run_call("configure", &target, call).await {
            Ok(()) => Ok(Ok(())),
            Err(CallError::Failed(failure)) => Ok(Err(failure)),
            Err(other) => Err(other),
        }
    }

    /// Returns the crypter that decrypts the secret values of a configuration. `None` for an empty configuration, which
    /// needs no decryption, and for a stack without a key.
    async fn crypter(&self, configuration: &Properties) -> CallResult<Option<Arc<dyn Crypter>>> {
        if *configuration == Properties::empty() {
            return Ok(None);
        }
        let target = self.targets.target(&self.stack).await;
        target.map(|target| target.crypter).map_err(CallError::LockLost)
    }

    /// Makes a read-only call. Every failure becomes `NotDone`, because the call changed nothing.
    async fn run_readonly<T>(
        &self,
        what: &str,
        target: &CallTarget,
        call: impl Future<Output = Result<T, Failure>>,
    ) -> CallResult<T> {
        self.run_call(what, target, call)
            .await
            .map_err(|error| match error {
                CallError::Failed(failure) => CallError::Failed(Failure::NotDone(failure.reasons().to_vec())),
                other => other,
            })
    }

    /// Runs a call until it ends, panics, exceeds its time limit or is dropped because of a second interrupt.
    async fn run_call<T>(
        &self,
        what: &str,
        target: &CallTarget,
        call: impl Future<Output = Result<T, Failure>>,
    ) -> CallResult<T> {
        let limit = target.timeout.or(self.timeout);
        let too_long = async {
            match limit {
                Some(limit) => self.clock.sleep(limit).await,
                None => std::future::pending().await,
            }
        };
        let ended = tokio::select! {
            // Biased: a second interrupt takes precedence over a result that arrives at the same time.
            biased;
            () = self.interrupt.leaving() => return Err(CallError::Abandoned),
            ended = catch_panic(call) => ended,
            () = too_long => {
                let limit = limit.unwrap_or_default();
                let reason = format!("its provider didn't finish `{what}` within {limit:?}");
                return Err(CallError::Failed(Failure::unknown(reason)));
            }
        };
        match ended {
            Some(ended) => ended.map_err(|failure| {
                CallError::Failed(mask_failure(complete_failure(failure), &target.secrets))
            }),
            None => {
                let reason = format!("its provider panicked in `{what}`");
                Err(CallError::Failed(Failure::unknown(reason)))
            }
        }
    }
}
