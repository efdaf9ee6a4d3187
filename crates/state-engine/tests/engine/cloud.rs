//! A simulated cloud and its provider: objects by id, programmable call modes, and dependency rules.
//!
//! | input | effect of a change |
//! |---|---|
//! | `size` | update in place |
//! | `uses`: ids | update in place |
//! | `fixed`, `needs`: ids, `in`: an id | replaces the object |
//!
//! A replacement of an object of kind `solo` deletes the old object first. An object must not be deleted while another
//! object `needs` it. An object `in` a container is deleted with the container, and can't be created without it.

mod folder;

use async_trait::async_trait;
use folder::Folder;
use state_core::{Address, Json, MutationId, Properties};
use state_engine::provider::{
    CreateRequest, DeleteRequest, Diff, DiffRequest, Object, ReadRequest, ReadResult, UpdateRequest,
};
use state_engine::{Failure, Provider, Registry};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub(crate) const KINDS: [&str; 2] = ["thing", "solo"];

const REPLACING: [&str; 3] = ["fixed", "needs", "in"];

/// The simulated behavior of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallMode {
    Normal,
    /// The call fails without an effect, and the failure says so.
    NotDone,
    /// The call fails with a partial result: a create has its effect, an update and a delete have none.
    Partial,
    /// The call has no effect, and fails with an unknown outcome.
    UnknownBefore,
    /// The call has its effect, and fails with an unknown outcome.
    UnknownAfter,
    /// The call panics before its effect.
    PanicBefore,
    /// The call panics after its effect.
    PanicAfter,
    /// The call has no effect and never returns.
    Hangs,
    /// The call has its effect and never returns.
    HangsAfter,
}

impl CallMode {
    /// Whether the caller learns nothing about the effect of the call.
    fn is_indeterminate(self) -> bool {
        !matches!(self, Self::Normal | Self::NotDone | Self::Partial)
    }

    fn hangs(self) -> bool {
        matches!(self, Self::Hangs | Self::HangsAfter)
    }
}

/// The mode of a call, and how often the call yields to other tasks before and after its effect.
pub(crate) type CallPlan = (CallMode, usize, usize);

type CallModes = Box<dyn FnMut(&str, &Address) -> CallPlan + Send>;

/// An object of the simulated cloud.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Thing {
    pub(crate) kind: String,
    pub(crate) address: Address,
    pub(crate) inputs: Properties,
    /// Whether the object existed before the stack.
    pub(crate) foreign: bool,
    /// The create call that made the object.
    pub(crate) made_by: Option<MutationId>,
}

#[derive(Default)]
struct Inner {
    things: BTreeMap<String, Thing>,
    next: u64,
    calls: Vec<String>,
    /// Broken rules, each with the id of the affected object.
    broken: Vec<(String, String)>,
    modes: Option<CallModes>,
    /// The calls that change objects and whose effect the caller can't know.
    indeterminate: Vec<MutationId>,
    /// The number of calls that change objects and never returned.
    hung: usize,
    running: usize,
    most_running: usize,
    /// The folder that contains the objects, so that they outlive the process.
    folder: Option<Folder>,
}

/// The simulated cloud; clones share its objects.
#[derive(Clone, Default)]
pub(crate) struct SimulatedCloud {
    inner: Arc<Mutex<Inner>>,
}

impl fmt::Debug for SimulatedCloud {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimulatedCloud").finish_non_exhaustive()
    }
}

impl SimulatedCloud {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A cloud whose objects are in a folder.
    pub(crate) fn in_folder(path: &Path) -> Self {
        let folder = Folder::open(path);
        let inner = Inner {
            things: folder.things(),
            next: folder.last_number(),
            broken: folder.broken(),
            folder: Some(folder),
            ..Inner::default()
        };
        Self {
            inner: Arc::new(Mutex::new(inner)),
        }
    }

    /// The calls of an earlier process that began and didn't end.
    pub(crate) fn calls_cut_short(&self) -> Vec<String> {
        self.inner()
            .folder
            .as_ref()
            .map(Folder::calls)
            .unwrap_or_default()
    }

    pub(crate) fn registry(&self) -> Registry {
        let mut registry = Registry::new();
        for kind in KINDS {
            registry.register(kind, Arc::new(self.clone()));
        }
        registry
    }

    /// Sets the function that chooses the mode of each call.
    pub(crate) fn set_modes(&self, modes: impl FnMut(&str, &Address) -> CallPlan + Send + 'static) {
        self.inner().modes = Some(Box::new(modes));
    }

    /// Makes all calls succeed immediately.
    pub(crate) fn calm(&self) {
        self.inner().modes = None;
    }

    pub(crate) fn things(&self) -> BTreeMap<String, Thing> {
        self.inner().things.clone()
    }

    /// Creates an object outside of the engine.
    pub(crate) fn put(&self, kind: &str, address: &Address, inputs: &Properties, foreign: bool) -> String {
        let mut inner = self.inner();
        inner.next += 1;
        let id = format!("i-{}", inner.next);
        let thing = Thing {
            kind: kind.to_owned(),
            address: address.clone(),
            inputs: inputs.clone(),
            foreign,
            made_by: None,
        };
        inner.things.insert(id.clone(), thing);
        id
    }

    /// Deletes an object and its contained objects outside of the engine.
    pub(crate) fn lose(&self, id: &str) {
        self.inner().remove(id);
    }

    /// Makes the cloud return ids that it has already used.
    pub(crate) fn rewind(&self) {
        self.inner().next = 0;
    }

    /// Changes the inputs of an object outside of the engine.
    pub(crate) fn change(&self, id: &str, inputs: Properties) {
        if let Some(thing) = self.inner().things.get_mut(id) {
            thing.inputs = inputs;
        }
    }

    /// The calls that reached their effect so far, in the form `create a`.
    pub(crate) fn calls(&self) -> Vec<String> {
        self.inner().calls.clone()
    }

    pub(crate) fn forget_calls(&self) {
        self.inner().calls.clear();
    }

    /// Returns and clears the broken rules, each with the id of the affected object.
    pub(crate) fn broken(&self) -> Vec<(String, String)> {
        std::mem::take(&mut self.inner().broken)
    }

    /// Returns and clears the calls that changed objects, or failed to, without telling the caller.
    pub(crate) fn take_indeterminate(&self) -> Vec<MutationId> {
        std::mem::take(&mut self.inner().indeterminate)
    }

    /// The number of calls that change objects and never returned.
    pub(crate) fn hung(&self) -> usize {
        self.inner().hung
    }

    /// The maximum number of calls that ran at once.
    pub(crate) fn most_running(&self) -> usize {
        self.inner().most_running
    }

    /// Lets other tasks run. A cloud in a folder takes a millisecond for each turn, so that its process can be killed
    /// during a call.
    async fn pause(&self, turns: usize) {
        let takes_time = self.inner().folder.is_some();
        for _ in 0..turns {
            match takes_time {
                true => tokio::time::sleep(Duration::from_millis(1)).await,
                false => tokio::task::yield_now().await,
            }
        }
    }

    /// Simulates a provider call: yields, applies `effect`, and yields again. The mode of the call may make it fail
    /// instead.
    async fn act<T>(
        &self,
        (what, address): (&str, &Address),
        mutation: MutationId,
        effect: impl FnOnce(&mut Inner, CallMode) -> Result<T, Failure> + Send,
    ) -> Result<T, Failure> {
        let (mode, before, after) = {
            let mut inner = self.inner();
            inner.running += 1;
            inner.most_running = inner.most_running.max(inner.running);
            let modes = inner.modes.as_mut();
            let plan = modes.map_or((CallMode::Normal, 0, 0), |modes| modes(what, address));
            if plan.0.is_indeterminate() {
                inner.indeterminate.push(mutation);
            }
            inner.hung += usize::from(plan.0.hangs());
            if let Some(folder) = &inner.folder {
                folder.begin_call(&mutation.to_string());
            }
            plan
        };
        let _running = Running(self.clone(), mutation);
        self.pause(before).await;
        match mode {
            CallMode::NotDone => {
                return Err(Failure::not_done(format!(
                    "the simulated cloud refuses to {what} {address}"
                )));
            }
            CallMode::UnknownBefore => return Err(Failure::unknown("the connection was lost")),
            CallMode::PanicBefore => panic!("simulated panic: before {what} {address}"),
            CallMode::Hangs => std::future::pending().await,
            _ => {}
        }
        let done = {
            let mut inner = self.inner();
            inner.calls.push(format!("{what} {address}"));
            let done = effect(&mut inner, mode);
            inner.store();
            done
        };
        self.pause(after).await;
        match mode {
            CallMode::UnknownAfter => Err(Failure::unknown("the connection was lost")),
            CallMode::PanicAfter => panic!("simulated panic: after {what} {address}"),
            CallMode::HangsAfter => std::future::pending().await,
            _ => done,
        }
    }
}

/// Counts a call as running until it is dropped, so a cancelled call is no longer counted.
struct Running(SimulatedCloud, MutationId);

impl Drop for Running {
    fn drop(&mut self) {
        let mut inner = self.0.inner();
        inner.running -= 1;
        if let Some(folder) = &inner.folder {
            folder.end_call(&self.1.to_string());
        }
    }
}

impl Inner {
    fn remove(&mut self, id: &str) {
        self.things.remove(id);
        let inside: Vec<String> = self
            .things
            .iter()
            .filter(|(_, thing)| ids(&thing.inputs, "in").contains(id))
            .map(|(id, _)| id.clone())
            .collect();
        for id in inside {
            self.remove(&id);
        }
    }

    fn object(&self, id: &str, thing: &Thing) -> Object {
        let size = thing.inputs.get("size").map_or("null", |size| size.text());
        let outputs = Json::parse(&format!(r#"{{"id":"{id}","size":{size}}}"#)).unwrap();
        let mut object = Object::new(id, Properties::new(outputs).unwrap());
        object.inputs = Some(thing.inputs.clone());
        object
    }
}

/// The ids that an input contains.
pub(crate) fn ids(inputs: &Properties, name: &str) -> BTreeSet<String> {
    let Some(value) = inputs.get(name) else {
        return BTreeSet::new();
    };
    let one = value.as_str().map(String::from);
    let many = value.elements().into_iter().flatten();
    one.into_iter()
        .chain(many.filter_map(|id| id.as_str().map(String::from)))
        .collect()
}

#[async_trait]
impl Provider for SimulatedCloud {
    async fn diff(&self, request: DiffRequest) -> Result<Diff, Failure> {
        let mut diff = Diff::changed(Diff::of_inputs(&request.old_inputs, &request.inputs));
        diff.changed.extend(request.unknown);
        let replaces = |name: &&String| REPLACING.contains(&name.as_str());
        diff.replace = diff.changed.iter().filter(replaces).cloned().collect();
        diff.delete_before_replace = request.kind == "solo";
        Ok(diff)
    }

    async fn create(&self, request: CreateRequest) -> Result<Object, Failure> {
        let CreateRequest {
            address,
            kind,
            inputs,
            mutation,
            ..
        } = request;
        let named = address.clone();
        self.act(("create", &named), mutation, move |inner, mode| {
            let mut around = ids(&inputs, "in").into_iter();
            if let Some(nowhere) = around.find(|id| !inner.things.contains_key(id)) {
                return Err(Failure::not_done(format!(
                    "the container {nowhere} doesn't exist"
                )));
            }
            inner.next += 1;
            let id = format!("i-{}", inner.next);
            let thing = Thing {
                kind,
                address,
                inputs,
                foreign: false,
                made_by: Some(mutation),
            };
            let object = inner.object(&id, &thing);
            inner.things.insert(id, thing);
            match mode {
                CallMode::Partial => Err(Failure::partial(object, "the object exists, but doesn't answer")),
                _ => Ok(object),
            }
        })
        .await
    }

    async fn read(&self, request: ReadRequest) -> Result<ReadResult, Failure> {
        let address = request.key.address.clone();
        let (mode, before, _) = {
            let mut inner = self.inner();
            let modes = inner.modes.as_mut();
            modes.map_or((CallMode::Normal, 0, 0), |modes| modes("read", &address))
        };
        self.pause(before).await;
        match mode {
            CallMode::Normal | CallMode::Partial | CallMode::UnknownAfter | CallMode::PanicAfter => {}
            CallMode::PanicBefore => panic!("simulated panic: before read {address}"),
            CallMode::Hangs | CallMode::HangsAfter => std::future::pending().await,
            CallMode::NotDone | CallMode::UnknownBefore => return Err(Failure::not_done("no answer")),
        }
        let inner = self.inner();
        let found = match &request.id {
            Some(id) => inner.things.get_key_value(id),
            None => {
                let mut all = inner.things.iter();
                all.find(|(_, thing)| thing.made_by == request.mutation)
            }
        };
        Ok(match found {
            Some((id, thing)) => ReadResult::Object(inner.object(id, thing)),
            None => ReadResult::Missing,
        })
    }

    async fn update(&self, request: UpdateRequest) -> Result<Object, Failure> {
        let id = request.id.unwrap_or_default();
        let inputs = request.inputs;
        self.act(
            ("update", &request.address),
            request.mutation,
            move |inner, mode| {
                let Some(thing) = inner.things.get_mut(&id) else {
                    return Err(Failure::not_done(format!("object {id} doesn't exist")));
                };
                if mode != CallMode::Partial {
                    thing.inputs = inputs;
                }
                let thing = thing.clone();
                let object = inner.object(&id, &thing);
                match mode {
                    CallMode::Partial => Err(Failure::partial(object, "the object is partly updated")),
                    _ => Ok(object),
                }
            },
        )
        .await
    }

    async fn delete(&self, request: DeleteRequest) -> Result<(), Failure> {
        let id = request.id.unwrap_or_default();
        self.act(
            ("delete", &request.key.address),
            request.mutation,
            move |inner, mode| {
                if let (CallMode::Partial, Some(thing)) = (mode, inner.things.get(&id)) {
                    let object = inner.object(&id, &thing.clone());
                    return Err(Failure::partial(object, "the object can't be deleted"));
                }
                inner.remove(&id);
                let needing = inner
                    .things
                    .iter()
                    .find(|(_, other)| ids(&other.inputs, "needs").contains(&id));
                if let Some((other, thing)) = needing {
                    let rule = format!("{id} was deleted, but {other} ({}) depends on it", thing.address);
                    let victim = other.clone();
                    inner.broken.push((rule, victim));
                }
                Ok(())
            },
        )
        .await
    }
}
