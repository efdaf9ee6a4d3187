//! Which entry has which object: no two have one.

use super::{Deployment, StepError};
use crate::call::About;
use crate::provider::Object;
use state_core::{Entry, EntryKey};

impl Deployment {
    /// Whether another entry has the object's id; if not, it is this one's from now on.
    pub(super) fn taken(&self, about: About<'_>, object: &Object) -> Option<String> {
        let name = (about.kind.to_owned(), object.id.clone());
        let mut shared = self.shared();
        match shared.ids.get(&name) {
            Some(other) if other != about.key || self.is_replaced_by(about, object) => Some(format!(
                "its provider gave it the id of {other}, {}: who made what has to be looked at",
                object.id
            )),
            _ => {
                shared.ids.insert(name, about.key.clone());
                None
            }
        }
    }

    /// Whether the id is that of the object whose place this one is to take, which will be deleted.
    fn is_replaced_by(&self, about: About<'_>, object: &Object) -> bool {
        let state = self.recorder.state();
        let mut pending = state.pending();
        let replaces = pending.any(|operation| operation.target == *about.key && operation.deposes.is_some());
        let old = state.entry(about.key);
        replaces && old.is_some_and(|old| !old.external && old.id.as_deref() == Some(&*object.id))
    }

    /// The id that an object will have is its entry's from now on, if nobody has it.
    pub(super) fn reserve(&self, key: &EntryKey, kind: &str, id: &str) -> Result<(), StepError> {
        let name = (kind.to_owned(), id.to_owned());
        let mut shared = self.shared();
        let other = shared.ids.entry(name).or_insert_with(|| key.clone()).clone();
        drop(shared);
        if other == *key {
            return Ok(());
        }
        let reason = format!("its object would be {id}, which is that of {other}");
        let hint = match other.deposed {
            Some(_) => "it can be made once that is deleted".to_owned(),
            None => format!("two can't have one; if it was called {other} until now, say so with `aliases`"),
        };
        Err(StepError::early(key, vec![format!("{reason}: {hint}")]))
    }

    /// An object that wasn't made has no id.
    pub(super) fn release(&self, key: &EntryKey, kind: &str, id: &str) {
        let state = self.recorder.state();
        let is_recorded = state
            .entry(key)
            .is_some_and(|entry| entry.id.as_deref() == Some(id));
        let name = (kind.to_owned(), id.to_owned());
        let mut shared = self.shared();
        if !is_recorded && shared.ids.get(&name) == Some(key) {
            shared.ids.remove(&name);
        }
    }

    /// An object can't be made beside the one that has its id.
    pub(super) fn refuse_same_id(&self, old: &Entry, id: Option<&str>) -> Result<(), StepError> {
        if id.is_none() || old.external || old.id.as_deref() != id {
            return Ok(());
        }
        let reason = "its new object would have the id of the old one, so that has to be deleted first: say `delete_before_replace: true`";
        Err(StepError::early(&old.key(), vec![reason.to_owned()]))
    }
}
