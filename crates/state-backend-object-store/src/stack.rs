//! The place of one stack, and its head: what a swap of it must name.

use crate::failure::Trouble;
use crate::layout::{Branch, Lease, MAX_DOCUMENT, Meta, Tree};
use crate::objects::{Created, Found, Objects};
use bytes::Bytes;
use state_core::{Base, Enveloped, Epoch, Error, Head, Lineage, Result};

/// The place of a stack.
#[derive(Clone, Debug)]
pub(crate) struct Stack {
    pub(crate) objects: Objects,
    pub(crate) branch: Branch,
    pub(crate) lineage: Lineage,
}

/// A head as it was read or written.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) head: Head,
    pub(crate) found: Found,
}

impl Stack {
    pub(crate) fn new(objects: Objects, tree: &Tree, lineage: Lineage) -> Self {
        Self {
            objects,
            branch: tree.stack(lineage),
            lineage,
        }
    }

    /// The stack as messages name it.
    pub(crate) fn shown(&self) -> String {
        format!("stack {} of {}", self.lineage, self.objects.options.url)
    }

    /// Makes the head last: a stack without one was never finished.
    pub(crate) async fn create(&self, head: &Head) -> Result<()> {
        if head.base != Base::empty(head.lineage) {
            return Err(Error::invalid(self.shown(), "a new stack has an empty base"));
        }
        let meta = Meta {
            lineage: self.lineage,
        };
        let conflict = || Err(Error::conflict(self.shown(), "it exists already"));
        if let Created::Taken(_) = self
            .objects
            .create(&self.branch.meta(), &meta.encode().into())
            .await?
        {
            return conflict();
        }
        match self
            .objects
            .create(&self.branch.head(), &head.encode().into())
            .await?
        {
            Created::Ours(_) => Ok(()),
            Created::Taken(_) => conflict(),
        }
    }

    /// The head as it is now.
    pub(crate) async fn head(&self) -> Result<Seen> {
        match self.objects.read(&self.branch.head(), MAX_DOCUMENT).await? {
            Some(found) => self.seen(found),
            None => Err(self.without_head().await),
        }
    }

    pub(crate) fn seen(&self, found: Found) -> Result<Seen> {
        let object = self.objects.shown(&self.branch.head());
        let head = Head::decode(&object, &found.bytes)?;
        if head.lineage == self.lineage {
            return Ok(Seen { head, found });
        }
        let reason = format!("it is the head of another stack, {}", head.lineage);
        Err(Error::corrupt(object, 0, reason))
    }

    async fn without_head(&self) -> Error {
        match self.objects.read(&self.branch.meta(), MAX_DOCUMENT).await {
            Ok(None) => Error::not_found(self.shown()),
            Ok(Some(_)) => {
                let object = self.objects.shown(&self.branch.head());
                Error::corrupt(object, 0, "the stack's head is missing")
            }
            Err(error) => error,
        }
    }

    /// The lease as it is now; none before the first owner.
    pub(crate) async fn lease(&self) -> Result<Option<(Lease, Found)>> {
        match self.objects.read(&self.branch.lease(), MAX_DOCUMENT).await? {
            Some(found) => Ok(Some((self.parse_lease(&found)?, found))),
            None => Ok(None),
        }
    }

    pub(crate) fn parse_lease(&self, found: &Found) -> Result<Lease> {
        Lease::decode(&self.objects.shown(&self.branch.lease()), &found.bytes)
    }

    /// The store's time in milliseconds since 1970, as it stamps what it gets now.
    pub(crate) async fn time(&self, mark: Bytes) -> Result<i64> {
        let meta = self.objects.touch(&self.branch.clock(), mark).await?;
        Ok(meta.last_modified.timestamp_millis())
    }

    /// Another owner's epoch is there.
    pub(crate) fn fenced(&self, mine: Epoch, theirs: Epoch, indeterminate: bool) -> Error {
        Error::Fenced {
            object: self.shown(),
            mine,
            theirs,
            indeterminate,
        }
    }

    /// The error for a stack that was removed.
    pub(crate) fn removed(&self) -> Error {
        Error::conflict(
            self.shown(),
            "the stack was removed; nobody can write to it again",
        )
    }

    /// Runs a step to its end, whether or not its caller still waits.
    pub(crate) async fn to_its_end<T: Send + 'static>(
        &self,
        step: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        match tokio::spawn(step).await {
            Ok(result) => result,
            Err(_) => Err(self.lost()),
        }
    }

    /// The error of a step that panicked, or whose runtime ended.
    pub(crate) fn lost(&self) -> Error {
        Trouble::Lost.indeterminate(&self.shown())
    }
}
