//! Calls of providers: under our lock, within their time, and alive whatever they do.
//!
//! Whatever changes the world takes a [`Begun`]: without an intent on record such a call can't be written down.

mod answers;
mod ending;
#[cfg(test)]
mod tests;

pub(crate) use answers::Answers;

use crate::interrupt::Interrupt;
use crate::log::{LogBuffer, Logger};
use crate::provider::{
    CallContext, CheckRequest, Checked, ConfigureRequest, CreateRequest, DeleteRequest, Diff, DiffRequest,
    Failure, Found, Object, Provider, ReadRequest, UpdateRequest,
};
use crate::record::Begun;
use crate::registry::{Registered, Registry};
use answers::{Memory, Question};
use ending::{caught, discreet, honest, named};
use state_core::sensitive::SecretStrings;
use state_core::target::TargetProvider;
use state_core::{Clock, Crypter, Entry, EntryKey, Error, MutationId, Properties, StackName};
use state_manager::Session;
use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, OnceCell};

/// Why there is no result.
#[derive(Debug)]
pub(crate) enum CallError {
    /// The provider says so, or it is said for it.
    Failed(Failure),
    /// Somebody asked for the second time to stop.
    Left,
    /// The lock isn't ours any more, so the provider wasn't called.
    Lost(Error),
}

type Called<T> = Result<T, CallError>;

const READ: &str = "read";

/// A provider with its configuration, and how preparing it went, once it was prepared.
#[derive(Debug)]
struct Preparation {
    registered: Registered,
    went: OnceCell<Result<(), Failure>>,
}

/// The providers that were prepared for settling, planning and running. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Preparations {
    /// Locked only to look a provider up, never while it is prepared.
    known: Arc<Mutex<Vec<Arc<Preparation>>>>,
}

/// Calls providers: to settle, to plan, or in a run.
pub(crate) struct Caller {
    pub(crate) registry: Registry,
    pub(crate) interrupt: Interrupt,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) logger: Logger,
    pub(crate) timeout: Option<Duration>,
    /// Only `configure`, `check`, `diff` and `read` are called, and their answers are kept.
    pub(crate) planning: bool,
    pub(crate) stack: StackName,
    /// Knows what opens the configuration of providers.
    pub(crate) targets: Arc<dyn TargetProvider>,
    /// The lock; none in a plan without one: no change of the world can follow.
    pub(crate) lock: Option<Session>,
    pub(crate) preparations: Preparations,
    /// The answers that the plan got; a plan fills them.
    pub(crate) answers: Arc<Answers>,
}

/// Whom a call is about.
#[derive(Clone)]
pub(crate) struct CallTarget {
    pub(crate) key: EntryKey,
    pub(crate) kind: String,
    pub(crate) timeout: Option<Duration>,
    /// What the provider is given and mustn't tell.
    pub(crate) secrets: SecretStrings,
    /// The run changed a dependency, so answers that the plan got don't count.
    pub(crate) anew: bool,
}

/// What is recorded of an object, as providers get it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) id: Option<String>,
    pub(crate) inputs: Properties,
    pub(crate) outputs: Properties,
    /// Where there is no id: the ids that it hasn't.
    pub(crate) others: BTreeSet<String>,
    /// Where there is no id: the create that would have made it.
    pub(crate) mutation: Option<MutationId>,
}

impl Known {
    pub(crate) fn of(entry: &Entry) -> Self {
        Self {
            id: entry.id.clone(),
            inputs: entry.inputs.clone().unwrap_or_default(),
            outputs: entry.outputs.clone().unwrap_or_default(),
            others: BTreeSet::new(),
            mutation: None,
        }
    }
}

impl Caller {
    pub(crate) async fn check(
        &self,
        about: &CallTarget,
        inputs: Properties,
        unknown: BTreeSet<String>,
        old_inputs: Option<Properties>,
    ) -> Called<Checked> {
        let recorded = old_inputs.map(|inputs| Known {
            inputs,
            ..Known::default()
        });
        let question = Question::new(about, recorded, inputs, unknown);
        let call = |provider: Arc<dyn Provider>, question: Question, context| async move {
            let request = CheckRequest {
                address: about.key.address.clone(),
                kind: question.kind,
                inputs: question.inputs,
                unknown: question.unknown,
                old_inputs: question.recorded.map(|recorded| recorded.inputs),
                context,
            };
            provider.check(request).await
        };
        self.asked("check", about, &self.answers.checks, question, call)
            .await
    }

    pub(crate) async fn diff(
        &self,
        about: &CallTarget,
        old: Known,
        inputs: Properties,
        unknown: BTreeSet<String>,
    ) -> Called<Diff> {
        let question = Question::new(about, Some(old), inputs, unknown);
        let call = |provider: Arc<dyn Provider>, question: Question, context| async move {
            let old = question.recorded.unwrap_or_default();
            let request = DiffRequest {
                address: about.key.address.clone(),
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
        self.asked("diff", about, &self.answers.diffs, question, call)
            .await
    }

    pub(crate) async fn read(&self, about: &CallTarget, known: Known) -> Called<Found> {
        let question = Question::new(about, Some(known), Properties::empty(), BTreeSet::new());
        let call = |provider: Arc<dyn Provider>, question: Question, context| async move {
            let known = question.recorded.unwrap_or_default();
            let request = ReadRequest {
                key: about.key.clone(),
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
        self.asked(READ, about, &self.answers.reads, question, call).await
    }

    /// Asks what changes nothing, unless the plan got an answer to the same question.
    async fn asked<A: Clone, F: Future<Output = Result<A, Failure>>>(
        &self,
        what: &str,
        about: &CallTarget,
        memory: &Memory<A>,
        question: Question,
        call: impl FnOnce(Arc<dyn Provider>, Question, CallContext) -> F,
    ) -> Called<A> {
        let is_kept = !self.planning && !about.anew;
        if let Some((answer, said)) = memory.find(&about.key, &question).filter(|_| is_kept) {
            said.into_iter().for_each(|line| self.logger.pass_on(line));
            return Ok(answer);
        }
        let provider = self.provider(about).await?;
        if what == READ {
            self.still_ours().await?;
        }
        let said = Arc::new(LogBuffer::silent());
        let logger = match self.planning {
            // The run stores these lines with its update.
            true => Logger::new(Arc::clone(&self.clock), said.clone(), None),
            false => self.logger.clone(),
        };
        let asked = call(provider, question.clone(), self.context(about, &logger));
        let answer = self.harmless(what, about, asked).await?;
        if self.planning {
            memory.keep(&about.key, question, answer.clone(), said.take());
        }
        Ok(answer)
    }

    pub(crate) async fn create(
        &self,
        begun: &Begun,
        about: &CallTarget,
        inputs: Properties,
    ) -> Called<Object> {
        let provider = self.provider(about).await?;
        let request = CreateRequest {
            address: about.key.address.clone(),
            kind: about.kind.clone(),
            inputs,
            mutation: begun.id(),
            context: self.context(about, &self.logger),
        };
        self.still_ours().await?;
        let made = self.guarded("create", about, provider.create(request)).await?;
        named(about, made)
    }

    pub(crate) async fn update(
        &self,
        _begun: &Begun,
        about: &CallTarget,
        old: Known,
        inputs: Properties,
    ) -> Called<Object> {
        let provider = self.provider(about).await?;
        let request = UpdateRequest {
            address: about.key.address.clone(),
            kind: about.kind.clone(),
            id: old.id,
            old_inputs: old.inputs,
            old_outputs: old.outputs,
            inputs,
            context: self.context(about, &self.logger),
        };
        self.still_ours().await?;
        let changed = self.guarded("update", about, provider.update(request)).await?;
        named(about, changed)
    }

    pub(crate) async fn delete(&self, _begun: &Begun, about: &CallTarget, known: Known) -> Called<()> {
        let provider = self.provider(about).await?;
        let request = DeleteRequest {
            key: about.key.clone(),
            kind: about.kind.clone(),
            id: known.id,
            inputs: known.inputs,
            outputs: known.outputs,
            context: self.context(about, &self.logger),
        };
        self.still_ours().await?;
        self.guarded("delete", about, provider.delete(request)).await
    }

    fn context(&self, about: &CallTarget, logger: &Logger) -> CallContext {
        CallContext {
            interrupt: self.interrupt.clone(),
            log: logger.of_provider(&about.kind, &about.key.address, &about.secrets),
            preview: self.planning,
        }
    }

    /// The lock is asked before every call that touches the world.
    async fn still_ours(&self) -> Called<()> {
        match &self.lock {
            Some(session) => session.check().await.map_err(CallError::Lost),
            None => Ok(()),
        }
    }

    /// The provider in charge, configured.
    async fn provider(&self, about: &CallTarget) -> Called<Arc<dyn Provider>> {
        let Some(registered) = self.registry.get(&about.kind) else {
            let kinds: Vec<&str> = self.registry.kinds().collect();
            let reason = format!(
                "no provider is in charge of kind `{}`; there are: {}",
                about.kind,
                kinds.join(", ")
            );
            return Err(CallError::Failed(Failure::not_done(reason)));
        };
        let preparation = self.preparation(registered).await;
        // Whoever comes second waits; if the first was left, the second tries.
        let went = preparation
            .went
            .get_or_try_init(|| self.configure(about, registered));
        match went.await? {
            Ok(()) => Ok(Arc::clone(&registered.provider)),
            // Whatever it did to itself, it did nothing to this resource.
            Err(failure) => Err(CallError::Failed(Failure::NotDone(failure.reasons().to_vec()))),
        }
    }

    /// The one preparation of a provider with this configuration.
    async fn preparation(&self, registered: &Registered) -> Arc<Preparation> {
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
            went: OnceCell::new(),
        });
        configured.push(Arc::clone(&new));
        new
    }

    /// Prepares a provider. That it failed is a result like any other; that it was left, or the lock is lost, isn't.
    async fn configure(&self, about: &CallTarget, registered: &Registered) -> Called<Result<(), Failure>> {
        self.still_ours().await?;
        let request = ConfigureRequest {
            stack: self.stack.clone(),
            configuration: registered.configuration.clone(),
            crypter: self.crypter(&registered.configuration).await?,
            context: CallContext {
                preview: self.lock.is_none(),
                ..self.context(about, &self.logger)
            },
        };
        let call = registered.provider.configure(request);
        // It is for all resources of the provider: what one of them allows itself says nothing of it.
        let about = CallTarget {
            timeout: None,
            ..about.clone()
        };
        match self.guarded("configure", &about, call).await {
            Ok(()) => Ok(Ok(())),
            Err(CallError::Failed(failure)) => Ok(Err(failure)),
            Err(other) => Err(other),
        }
    }

    /// What opens a configuration. To find it reads the state, so this is left out where nothing can be secret.
    async fn crypter(&self, configuration: &Properties) -> Called<Option<Arc<dyn Crypter>>> {
        if *configuration == Properties::empty() {
            return Ok(None);
        }
        let target = self.targets.target(&self.stack).await;
        target.map(|target| target.crypter).map_err(CallError::Lost)
    }

    /// A call that doesn't change the world: however it fails, nothing was done.
    async fn harmless<T>(
        &self,
        what: &str,
        about: &CallTarget,
        call: impl Future<Output = Result<T, Failure>>,
    ) -> Called<T> {
        self.guarded(what, about, call)
            .await
            .map_err(|error| match error {
                CallError::Failed(failure) => CallError::Failed(Failure::NotDone(failure.reasons().to_vec())),
                other => other,
            })
    }

    /// Runs a call until it ends, panics, takes too long or is left.
    async fn guarded<T>(
        &self,
        what: &str,
        about: &CallTarget,
        call: impl Future<Output = Result<T, Failure>>,
    ) -> Called<T> {
        let limit = about.timeout.or(self.timeout);
        let too_long = async {
            match limit {
                Some(limit) => self.clock.sleep(limit).await,
                None => std::future::pending().await,
            }
        };
        let ended = tokio::select! {
            biased;
            () = self.interrupt.leaving() => return Err(CallError::Left),
            ended = caught(call) => ended,
            () = too_long => {
                let limit = limit.unwrap_or_default();
                let reason = format!("its provider didn't end `{what}` within {limit:?}");
                return Err(CallError::Failed(Failure::unknown(reason)));
            }
        };
        match ended {
            Some(ended) => {
                ended.map_err(|failure| CallError::Failed(discreet(honest(failure), &about.secrets)))
            }
            None => {
                let reason = format!("its provider panicked in `{what}`");
                Err(CallError::Failed(Failure::unknown(reason)))
            }
        }
    }
}

impl CallTarget {
    pub(crate) fn entry(entry: &Entry) -> Self {
        Self {
            key: entry.key(),
            kind: entry.kind.clone().unwrap_or_default(),
            timeout: None,
            secrets: SecretStrings::of_entry(entry),
            anew: false,
        }
    }
}

impl Question {
    fn new(
        about: &CallTarget,
        recorded: Option<Known>,
        inputs: Properties,
        unknown: BTreeSet<String>,
    ) -> Self {
        Self {
            kind: about.kind.clone(),
            recorded,
            inputs,
            unknown,
        }
    }
}
