//! Models an attacker who can read and write every object of a store between any two requests of a client.
//!
//! An attack is plain data that works for all backends: the number of a request, an object, and an action. An adapter
//! between a backend and its store (`state-backend-fs` and `state-backend-object-store` have one each) reports every
//! request to an [`Attacker`] before it executes the request, and performs the planned edits. It also reports the
//! content of the object after every write, so that the attacker can restore any earlier version.
//!
//! [`forgeries`] is a catalogue of forged contents for each kind of stored object, in which every digest and chain that
//! needs no key is recomputed. [`schedule`] selects the interventions to try: it reads the requests of a run without an
//! attacker, and returns forgeries to make before these requests. Both work for any backend that has an adapter.
//!
//! ```
//! use state_core::testkit::hostile::{Action, Attacker, Intervention, Verb};
//!
//! let attacker = Attacker::default();
//! attacker.record("head", Some(b"old".to_vec().into()));
//! attacker.record("head", Some(b"new".to_vec().into()));
//! attacker.plan([Intervention::new(1, "head", Action::BringBack(1))]);
//!
//! assert!(attacker.begin(Verb::Read, "head").is_empty()); // request 0
//! let due = attacker.begin(Verb::Read, "head"); // request 1
//! let edits = attacker.edits(&due[0], |_| Some(b"new".to_vec().into()));
//! assert_eq!(edits[0].content.as_deref(), Some(&b"old"[..]));
//! ```

mod documents;
pub mod forgeries;
mod frames;
mod heads;
mod image;
mod journals;
mod logs;
mod loot;
mod plain;
mod replays;
pub mod schedule;
mod stored_kind;

pub use forgeries::CatalogueEntry;
pub use image::StoreImage;
pub use loot::Loot;
pub use stored_kind::StoredKind;

use bytes::Bytes;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A change of the store by the attacker.
#[derive(Clone, Debug)]
pub struct Intervention {
    /// The number of a request; the change happens right before it. The first request is number 0.
    pub at: usize,
    /// The path of the object, from the root of the store. `None` means the object of the request.
    pub object: Option<String>,
    /// The action on the object.
    pub action: Action,
}

impl Intervention {
    /// Creates an intervention right before a request.
    pub fn new(at: usize, object: impl Into<String>, action: Action) -> Self {
        Self {
            at,
            object: Some(object.into()),
            action,
        }
    }

    /// Creates an intervention right before a request, on the object of that request. A plan can't contain the paths of
    /// objects that the run creates, because they contain random bits; the number of the request identifies the object.
    pub const fn on_request(at: usize, action: Action) -> Self {
        Self {
            at,
            object: None,
            action,
        }
    }
}

/// The actions of an attacker on an object.
#[derive(Clone, Debug)]
pub enum Action {
    /// Replaces the content of the object with other bytes; an object that doesn't exist is created.
    Replace(Bytes),
    /// Swaps the contents of the object and of another object, given by its path.
    Exchange(String),
    /// Deletes the object from the store.
    Delete,
    /// Restores an older version of the object. The number counts versions back from the latest one, which is 0.
    BringBack(usize),
    /// Computes new content from the current one. An attacker can recompute digests and chains, which need no key.
    Forge(Forgery),
    /// Computes edits of several objects from the content of the whole store.
    Rewrite(Rewrite),
}

type Forge = dyn Fn(&[u8]) -> Vec<u8> + Send + Sync;

type RewriteStore = dyn Fn(&StoreImage, &str) -> Vec<Edit> + Send + Sync;

/// A function with a name, from the content of the store and the path of an object to edits of any objects. It is used
/// for forgeries of several objects that must agree: a forged frame changes the chain of all later frames, to which the
/// head refers.
#[derive(Clone)]
pub struct Rewrite {
    name: Arc<str>,
    rewrite: Arc<RewriteStore>,
}

impl Rewrite {
    /// Creates a rewrite; the name appears in messages.
    pub fn new(
        name: impl Into<Arc<str>>,
        rewrite: impl Fn(&StoreImage, &str) -> Vec<Edit> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            rewrite: Arc::new(rewrite),
        }
    }

    /// Returns the edits for a store. `object` is the path of the object of the intervention.
    pub fn apply(&self, store: &StoreImage, object: &str) -> Vec<Edit> {
        (self.rewrite)(store, object)
    }
}

impl fmt::Debug for Rewrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rewrite({})", self.name)
    }
}

/// A function with a name, from the bytes of an object to forged bytes.
#[derive(Clone)]
pub struct Forgery {
    name: &'static str,
    forge: Arc<Forge>,
}

impl Forgery {
    /// Creates a forgery; the name appears in messages.
    pub fn new(name: &'static str, forge: impl Fn(&[u8]) -> Vec<u8> + Send + Sync + 'static) -> Self {
        Self {
            name,
            forge: Arc::new(forge),
        }
    }

    /// Applies the forgery to the bytes of an object.
    pub fn apply(&self, bytes: &[u8]) -> Vec<u8> {
        (self.forge)(bytes)
    }
}

impl fmt::Debug for Forgery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Forgery({})", self.name)
    }
}

/// The kinds of requests to a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    /// Reads the content or the metadata of an object.
    Read,
    /// Creates, replaces, extends or renames an object.
    Write,
    /// Deletes an object from the store.
    Delete,
    /// Lists the objects under a path.
    List,
    /// Makes earlier writes durable.
    Sync,
}

/// A request that a client sends to the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The kind of the request.
    pub verb: Verb,
    /// The path of the object, or of the folder that was listed, from the root of the store.
    pub object: String,
}

/// An edit that the adapter performs on the store: the new content of an object, or its deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// The path of the object, from the root of the store.
    pub object: String,
    /// The new content of the object; `None` deletes it.
    pub content: Option<Bytes>,
}

impl Edit {
    /// Creates or replaces an object.
    pub fn put(object: impl Into<String>, content: impl Into<Bytes>) -> Self {
        Self {
            object: object.into(),
            content: Some(content.into()),
        }
    }

    /// Deletes an object from the store.
    pub fn delete(object: impl Into<String>) -> Self {
        Self {
            object: object.into(),
            content: None,
        }
    }
}

/// The attacker: holds the planned interventions, counts requests, and records every version of every object. Clones
/// share their state.
#[derive(Clone, Debug, Default)]
pub struct Attacker {
    knowledge: Arc<Mutex<AttackerState>>,
}

#[derive(Debug, Default)]
struct AttackerState {
    planned: Vec<Intervention>,
    requests: Vec<Request>,
    /// All versions of every object, oldest first; `None` where the object was deleted.
    versions: BTreeMap<String, Vec<Option<Bytes>>>,
    edits: usize,
}

impl Attacker {
    /// Plans interventions and restarts the count of requests at 0. Recorded versions are kept.
    pub fn plan(&self, interventions: impl IntoIterator<Item = Intervention>) {
        let mut knowledge = self.lock();
        knowledge.planned = interventions.into_iter().collect();
        knowledge.requests.clear();
        knowledge.edits = 0;
    }

    /// Returns the requests since the last plan.
    pub fn requests(&self) -> Vec<Request> {
        self.lock().requests.clone()
    }

    /// Returns the number of edits since the last plan. An intervention makes no edit if its request was never sent.
    pub fn edits_made(&self) -> usize {
        self.lock().edits
    }

    /// Returns the objects with recorded versions.
    pub fn objects(&self) -> Vec<String> {
        self.lock().versions.keys().cloned().collect()
    }

    /// Returns all versions of an object, oldest first; `None` where the object was deleted.
    pub fn versions(&self, object: &str) -> Vec<Option<Bytes>> {
        self.lock().versions.get(object).cloned().unwrap_or_default()
    }

    /// For adapters: records a request before the adapter executes it. Returns the interventions that the adapter must
    /// perform first; each of them names its object.
    pub fn begin(&self, verb: Verb, object: &str) -> Vec<Intervention> {
        let mut knowledge = self.lock();
        let number = knowledge.requests.len();
        let object = object.to_owned();
        let planned = std::mem::take(&mut knowledge.planned);
        let (mut due, later): (Vec<_>, _) = planned.into_iter().partition(|planned| planned.at == number);
        knowledge.planned = later;
        for intervention in &mut due {
            intervention.object.get_or_insert_with(|| object.clone());
        }
        knowledge.requests.push(Request { verb, object });
        due
    }

    /// For adapters: returns the objects whose content [`Attacker::edits`] reads.
    pub fn objects_of(&self, intervention: &Intervention) -> Vec<String> {
        let own = intervention.object.clone();
        match &intervention.action {
            Action::Exchange(other) => own.into_iter().chain([other.clone()]).collect(),
            Action::Rewrite(_) => own.into_iter().chain(self.objects()).collect(),
            _ => own.into_iter().collect(),
        }
    }

    /// For adapters: returns the edits of an intervention. `content` returns the current content of an object, or
    /// `None` if it doesn't exist. Edits that change nothing are omitted, and a missing object can't be forged, so the
    /// list may be empty.
    pub fn edits(
        &self,
        intervention: &Intervention,
        mut content: impl FnMut(&str) -> Option<Bytes>,
    ) -> Vec<Edit> {
        let Some(object) = &intervention.object else {
            return Vec::new();
        };
        let edit = |object: &String, content| Edit {
            object: object.clone(),
            content,
        };
        let image = match &intervention.action {
            Action::Rewrite(_) => {
                let objects = self.objects_of(intervention).into_iter();
                StoreImage::new(objects.filter_map(|object| Some((object.clone(), content(&object)?))))
            }
            _ => StoreImage::default(),
        };
        let now = content(object);
        let mut knowledge = self.lock();
        let edits = match &intervention.action {
            Action::Rewrite(rewrite) => {
                let edits = rewrite.apply(&image, object).into_iter();
                edits
                    .filter(|edit| edit.content.as_ref() != image.get(&edit.object))
                    .collect()
            }
            Action::Replace(bytes) => vec![edit(object, Some(bytes.clone()))],
            Action::Delete => vec![edit(object, None)],
            Action::Exchange(other) => vec![edit(object, content(other)), edit(other, now.clone())],
            Action::BringBack(back) => {
                let versions = knowledge.versions.get(object).map_or(&[][..], Vec::as_slice);
                let version = versions.iter().rev().nth(*back);
                version
                    .into_iter()
                    .map(|version| edit(object, version.clone()))
                    .collect()
            }
            Action::Forge(forgery) => {
                let forged = now.iter().map(|bytes| forgery.apply(bytes));
                forged.map(|bytes| edit(object, Some(bytes.into()))).collect()
            }
        };
        let changes = |edit: &Edit| edit.object != *object || edit.content != now;
        let edits: Vec<Edit> = edits.into_iter().filter(changes).collect();
        knowledge.edits += edits.len();
        edits
    }

    /// For adapters: records the content of an object after a write by the client; `None` after a deletion.
    pub fn record(&self, object: &str, content: Option<Bytes>) {
        let mut knowledge = self.lock();
        let versions = knowledge.versions.entry(object.to_owned()).or_default();
        if versions.last() != Some(&content) {
            versions.push(content);
        }
    }

    fn lock(&self) -> MutexGuard<'_, AttackerState> {
        self.knowledge.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attacker() -> Attacker {
        let attacker = Attacker::default();
        for version in ["one", "two", "three"] {
            attacker.record("a", Some(version.into()));
        }
        attacker.record("a", Some("three".into()));
        attacker.record("b", Some("other".into()));
        attacker
    }

    fn edits(action: Action) -> Vec<(String, Option<String>)> {
        let content = |object: &str| match object {
            "a" => Some(Bytes::from("three")),
            "b" => Some(Bytes::from("other")),
            _ => None,
        };
        let edits = attacker().edits(&Intervention::new(0, "a", action), content);
        let text = |bytes: Bytes| String::from_utf8(bytes.to_vec()).unwrap();
        edits
            .into_iter()
            .map(|edit| (edit.object, edit.content.map(text)))
            .collect()
    }

    #[test]
    fn every_action_returns_its_edits() {
        let one = |content: Option<&str>| vec![("a".to_owned(), content.map(str::to_owned))];
        assert_eq!(edits(Action::Replace("new".into())), one(Some("new")));
        assert_eq!(edits(Action::Delete), one(None));
        assert_eq!(edits(Action::BringBack(1)), one(Some("two")));
        assert_eq!(edits(Action::BringBack(2)), one(Some("one")));
        assert_eq!(edits(Action::BringBack(3)), []);
        let reversed = Forgery::new("reversed", |bytes| bytes.iter().rev().copied().collect());
        assert_eq!(edits(Action::Forge(reversed)), one(Some("eerht")));
        let exchanged = [("a", Some("other")), ("b", Some("three"))];
        let exchanged = exchanged.map(|(object, content)| (object.to_owned(), content.map(str::to_owned)));
        assert_eq!(edits(Action::Exchange("b".to_owned())), exchanged);
    }

    #[test]
    fn edit_without_a_change_is_omitted() {
        assert_eq!(edits(Action::Replace("three".into())), []);
        assert_eq!(edits(Action::Forge(Forgery::new("same", <[u8]>::to_vec))), []);
    }

    #[test]
    fn intervention_is_due_once_per_plan() {
        let attacker = attacker();
        for _ in 0..2 {
            attacker.plan([Intervention::new(1, "a", Action::Delete)]);
            let due: Vec<usize> = (0..3).map(|_| attacker.begin(Verb::Read, "a").len()).collect();
            assert_eq!(due, [0, 1, 0]);
            assert_eq!(attacker.requests().len(), 3);
        }
        assert_eq!(attacker.versions("a").len(), 3);
        assert_eq!(attacker.objects(), ["a", "b"]);
    }
}
