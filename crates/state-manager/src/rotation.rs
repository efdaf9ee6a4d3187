//! Another data key, policy or set of recipients for a stack.
//!
//! A new key takes over in one head swap: before it, its files and a snapshot that is sealed with it are durable;
//! after it, every frame is under it. So a crash at any moment leaves a stack that opens with one key or the other.

use crate::collect::Retention;
use crate::intent::UpdateRequest;
use crate::queue::Prepared;
use crate::session::Session;
use crate::stack::Stack;
use crate::{keys, snapshots};
use state_core::head::{Keys, Policy, Succession, Watermark};
use state_core::journal::{CheckpointNote, Record};
use state_core::mutation::StackOutputs;
use state_core::sealing::{KeyProvider, StackKey};
use state_core::{
    Base, Error, Head, Nonce, Result, RevisionId, Serial, Slot, Snapshot, State, UpdateKind, UpdateResult,
    Writer,
};
use std::sync::Arc;
use std::time::Duration;

/// What shall change when a stack gets a new data key.
#[derive(Clone, Debug, Default)]
pub struct Rekey {
    /// To whom the new key is wrapped; none: as the old one, or for the first key to those that the provider knows.
    pub recipients: Option<Vec<String>>,
    /// To whom the outputs are wrapped apart; none: as before.
    pub outputs: Option<Vec<String>>,
    /// How values are stored from now on; none: as before.
    pub policy: Option<Policy>,
    /// Drops and deletes all revisions that open with an earlier key, or are plain. Who reads one of them at that moment
    /// fails.
    pub forget_history: bool,
    /// Why, for the history.
    pub message: String,
}

/// What a new data key leaves behind.
#[derive(Clone, Debug)]
pub struct Rekeyed {
    /// The revision that holds the current state, sealed with the new key.
    pub revision: RevisionId,
    /// To whom the new key is wrapped.
    pub recipients: Vec<String>,
    /// Revisions that still open with an earlier key, or hold plain values: oldest first.
    pub older: Vec<RevisionId>,
}

impl Stack {
    /// To whom the stack's data key is wrapped; empty for a stack without one.
    ///
    /// # Errors
    /// `Corrupt` when the head is damaged; `Sealed` when it is forged.
    pub async fn recipients(&self) -> Result<Vec<String>> {
        let head = self.backend().read_head(self.lineage()).await?;
        keys::for_reading(self, &head).await?;
        Ok(head.keys.map(|keys| keys.recipients).unwrap_or_default())
    }

    /// How the stack's values are stored.
    ///
    /// # Errors
    /// `Corrupt` when the head is damaged.
    pub async fn policy(&self) -> Result<Policy> {
        Ok(self.backend().read_head(self.lineage()).await?.policy)
    }

    /// Wraps the stack's data key to more recipients. What is sealed stays as it is.
    ///
    /// # Errors
    /// `Sealed` when the key can't be had, or the stack has none; `Invalid` for what isn't a recipient; `Locked`.
    pub async fn add_recipients(&self, operation: &str, more: &[String]) -> Result<Vec<String>> {
        let session = self.lock(operation).await?;
        let added = self.wrap_to_more(&session, more).await;
        let closed = session.close().await;
        let recipients = added?;
        closed.map(|()| recipients)
    }

    async fn wrap_to_more(&self, session: &Session, more: &[String]) -> Result<Vec<String>> {
        let provider = self.require_provider()?;
        let head = self.backend().read_head(self.lineage()).await?;
        let (Some(key), Some(keys)) = (session.seal().key(), head.keys) else {
            return Err(self.unsealed());
        };
        let mut recipients = keys.recipients;
        add(&mut recipients, more);
        let wrapped = provider.wrap(key.id(), Some(&recipients))?;
        let files = keys::store(self, session.writer(), key.id(), &wrapped).await?;
        let change = |head: &mut Head| {
            if let Some(keys) = &mut head.keys {
                keys.files.clone_from(&files);
                keys.recipients.clone_from(&wrapped.recipients);
            }
        };
        session.writer().swap_head(self.nonce(), &change).await?;
        Ok(wrapped.recipients)
    }

    /// To whom the stack's outputs are wrapped apart.
    ///
    /// # Errors
    /// As [`Stack::recipients`].
    pub async fn output_recipients(&self) -> Result<Vec<String>> {
        let head = self.backend().read_head(self.lineage()).await?;
        keys::for_reading(self, &head).await?;
        Ok(head.keys.map(|keys| keys.outputs).unwrap_or_default())
    }

    /// Lets more people read the stack's outputs, and nothing else of it: see [`Stacks::published_outputs`]. A revision
    /// is made, whose outputs they get.
    ///
    /// [`Stacks::published_outputs`]: crate::Stacks::published_outputs
    ///
    /// # Errors
    /// As [`Stack::add_recipients`].
    pub async fn add_output_recipients(&self, operation: &str, more: &[String]) -> Result<Vec<String>> {
        let session = self.lock(operation).await?;
        let added = self.publish_to_more(&session, more).await;
        let closed = session.close().await;
        let recipients = added?;
        closed?;
        let message = format!("outputs for {}", more.join(", "));
        self.mark_rekeyed(operation, message, Vec::new()).await?;
        Ok(recipients)
    }

    async fn publish_to_more(&self, session: &Session, more: &[String]) -> Result<Vec<String>> {
        let head = self.backend().read_head(self.lineage()).await?;
        let (Some(key), Some(keys)) = (session.seal().key(), head.keys) else {
            return Err(self.unsealed());
        };
        let mut outputs = keys.outputs;
        add(&mut outputs, more);
        // What can't be wrapped to them is refused before anything changes.
        key.outputs_document(head.policy, Serial::ZERO, &StackOutputs::default(), &outputs)?;
        let change = |head: &mut Head| {
            if let Some(keys) = &mut head.keys {
                keys.outputs.clone_from(&outputs);
            }
        };
        session.writer().swap_head(self.nonce(), &change).await?;
        Ok(outputs)
    }

    fn unsealed(&self) -> Error {
        Error::sealed(self.object(), "it has no data key: seal the stack first")
    }

    /// Gives the stack a new data key, and seals its current state with it. The first key of a stack that was plain, too.
    ///
    /// Earlier revisions stay as they are: who could open them still can. [`Rekeyed::older`] names them.
    ///
    /// # Errors
    /// `Sealed` when the old key can't be had or there is nobody to wrap the new one to; `Locked`. Nothing changed then.
    ///
    /// # Cancellation
    /// A future that is dropped leaves the stack with the old key or the new one.
    pub async fn rekey(&self, operation: &str, request: Rekey) -> Result<Rekeyed> {
        let provider = self.require_provider()?;
        let session = self.lock(operation).await?;
        let policy = request.policy.unwrap_or_else(|| session.seal().policy());
        if request.forget_history && self.backend().extensions().collectable.is_none() {
            session.close().await?;
            return Err(Error::Unsupported {
                object: self.backend().url(),
                missing: "deletion, and with it the forgetting of history,".to_owned(),
            });
        }
        if policy == Policy::Plaintext {
            session.close().await?;
            let reason = "a plaintext stack has no data key: choose the policy `sensitive` or `all`";
            return Err(Error::conflict(self.object(), reason));
        }
        let (message, forget_history) = (request.message.clone(), request.forget_history);
        let (base, recipients) = self.rotate(session, provider, policy, request).await?;
        // The current revision becomes one under the new key.
        let note = Record::Checkpoint(CheckpointNote { base });
        let revision = self.mark_rekeyed(operation, message, vec![note.into()]).await?;
        if forget_history {
            self.forget_all_but_the_current(operation).await?;
        }
        let mut older = self.list().await?;
        older.retain(|other| *other != revision);
        Ok(Rekeyed {
            revision,
            recipients,
            older,
        })
    }

    async fn forget_all_but_the_current(&self, operation: &str) -> Result<()> {
        let session = self.lock(operation).await?;
        let retention = Retention {
            keep_for: Duration::ZERO,
            keep_last: 1,
            grace: Duration::ZERO,
        };
        let collected = session.collect(&retention).await;
        let closed = session.close().await;
        collected.and(closed)
    }

    /// A revision of what is there, under the keys and for the recipients that the stack has now.
    async fn mark_rekeyed(
        &self,
        operation: &str,
        message: String,
        notes: Vec<Prepared>,
    ) -> Result<RevisionId> {
        let session = self.lock(operation).await?;
        let mut info = UpdateRequest::new(UpdateKind::Rekey);
        info.message = message;
        let update = session.start_update(info).await?;
        if !notes.is_empty() {
            session.submit(notes, false).await?;
        }
        let revision = update.finish(UpdateResult::Succeeded).await?;
        session.close().await?;
        Ok(revision)
    }

    /// The swap itself. The session is gone afterwards: its key isn't the stack's any more.
    async fn rotate(
        &self,
        session: Session,
        provider: &dyn KeyProvider,
        policy: Policy,
        request: Rekey,
    ) -> Result<(Base, Vec<String>)> {
        let (state, tail, writer, old) = session.drained().await?;
        let head = self.backend().read_head(self.lineage()).await?;
        let known = head.keys.as_ref().map(|keys| keys.recipients.clone());
        let key = provider.generate(self.lineage())?;
        let wrapped = provider.wrap(key.id(), request.recipients.or(known).as_deref())?;
        let files = keys::store(self, &*writer, key.id(), &wrapped).await?;
        let after = writer.rotate(tail, self.nonce()).await?;
        let snapshot = self.resealed(&state, old.clone(), &key, policy).await?;
        let base = Base {
            snapshot: Some(snapshots::store(&*writer, Arc::new(snapshot), tail.next).await?),
            start: tail.next,
            chain: tail.chain,
        };
        let mut keys = successor(
            &head,
            old.as_deref(),
            &*key,
            after.next,
            files,
            &wrapped.recipients,
        );
        if let Some(outputs) = request.outputs {
            keys.outputs = outputs;
        }
        let change = |head: &mut Head| {
            head.base = base.clone();
            head.rev_base = None;
            head.policy = policy;
            head.key_id = Some(key.id());
            head.keys = Some(keys.clone());
            head.watermark = Some(Watermark {
                slot: Slot(after.next.get().saturating_sub(1)),
                chain: after.chain,
            });
            head.sign(&*key);
        };
        writer.swap_head(self.nonce(), &change).await?;
        self.keyring().keep(&key);
        writer.release().await?;
        Ok((base, wrapped.recipients))
    }

    async fn resealed(
        &self,
        state: &State,
        old: Option<Arc<dyn StackKey>>,
        new: &Arc<dyn StackKey>,
        policy: Policy,
    ) -> Result<Snapshot> {
        let mut snapshot = state.snapshot(self.name().to_string(), self.environment().clock.now());
        snapshot.continuation = Some(state.continuation());
        let new = Arc::clone(new);
        snapshots::blocking(move || {
            let open = match old {
                Some(old) => old.open_snapshot(&snapshot)?,
                None => snapshot,
            };
            new.seal_snapshot(policy, &open)
        })
        .await?
    }

    fn require_provider(&self) -> Result<&dyn KeyProvider> {
        let missing = || Error::sealed(self.object(), "there is no identity or recipient at hand");
        self.keyring().provider().ok_or_else(missing)
    }

    fn nonce(&self) -> Nonce {
        Nonce::random(&*self.environment().entropy)
    }

    fn object(&self) -> String {
        format!("stack {}", self.name().short())
    }
}

fn add(recipients: &mut Vec<String>, more: &[String]) {
    for one in more {
        if !recipients.contains(one) {
            recipients.push(one.clone());
        }
    }
}

/// What the head says of the keys once the new one is in use.
fn successor(
    head: &Head,
    old: Option<&dyn StackKey>,
    new: &dyn StackKey,
    next: Slot,
    files: Vec<u64>,
    recipients: &[String],
) -> Keys {
    let before = head.keys.as_ref();
    let generation = before.map_or(1, |keys| keys.generation + 1);
    let mut succession = before.map(|keys| keys.succession.clone()).unwrap_or_default();
    succession.extend(old.map(|old| Succession {
        old: old.id(),
        new: new.id(),
        generation,
        endorsement: old.endorse(new.id(), generation),
    }));
    Keys {
        generation,
        since: before.map_or(next, |keys| keys.since),
        files,
        recipients: recipients.to_vec(),
        outputs: before.map(|keys| keys.outputs.clone()).unwrap_or_default(),
        succession,
    }
}

impl Session {
    /// Writes what is queued and ends the queue; the lock stays. State, journal's end, a writer that doesn't tag, and
    /// the key come back.
    async fn drained(
        self,
    ) -> Result<(
        Arc<State>,
        state_core::backend::Tail,
        Arc<dyn Writer>,
        Option<Arc<dyn StackKey>>,
    )> {
        let tail = self.end_queue().await?;
        Ok((
            self.state(),
            tail,
            self.untagged_writer(),
            self.seal().shared_key(),
        ))
    }
}
