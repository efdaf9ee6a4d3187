//! One update and its steps.

use crate::came_back::CameBack;
use crate::intent::Intent;
use crate::logs::{Buffer, Voice};
use crate::queue::{Prepared, has_long_string};
use crate::sealing::Seal;
use crate::session::Session;
use state_core::LogLine;
use state_core::journal::Record;
use state_core::mutation::{Begin, Edit, EditChange, End, StackOutputs, Step, StepChange};
use state_core::snapshot::Plugin;
use state_core::verify::{Rule, Violation};
use state_core::{
    DeposedKey, Entropy, Entry, EntryKey, Error, MutationId, Op, Outcome, Properties, Result, RevisionId,
    SharedEntry, State, Uid, UpdateId, UpdateResult, codec,
};
use std::sync::Arc;

/// The largest entry in bytes, encoded.
pub(crate) const MAX_ENTRY: usize = 32 << 20;

/// An open update. Clones are handles to the same one: steps run from many tasks at once.
#[derive(Clone, Debug)]
pub struct Update {
    session: Session,
    id: UpdateId,
    log: Arc<Buffer>,
}

impl Update {
    pub(crate) fn new(session: Session, id: UpdateId) -> Self {
        let entropy = &session.stack().environment().entropy;
        let log = Arc::new(Buffer::new(Voice::of(session.seal().key(), entropy)));
        Self { session, id, log }
    }

    /// Names it.
    pub const fn id(&self) -> UpdateId {
        self.id
    }

    pub(crate) const fn session(&self) -> &Session {
        &self.session
    }

    /// Records the intent to touch the world. Durable when it returns: now touch it.
    ///
    /// What the entry depends on must stand earlier, so this update must have recorded it already: by a step of its
    /// own, or by [`Update::same`].
    ///
    /// # Errors
    /// `Integrity` with every rule that the step would break; then nothing was recorded.
    pub async fn begin(&self, intent: Intent) -> Result<Mutation> {
        let entropy = &*self.session.stack().environment().entropy;
        let Intent {
            op,
            target,
            entry,
            replaces,
            tombstone,
        } = intent;
        let uid = match op {
            Op::Update | Op::Read => self.session.state().entry(&target).and_then(|old| old.uid),
            _ => None,
        };
        let uid = uid
            .or_else(|| entry.as_ref()?.uid)
            .unwrap_or_else(|| Uid::random(entropy));
        let seal = self.session.seal();
        let entry = entry.map(|entry| {
            seal.entry(Entry {
                uid: Some(uid),
                ..entry
            })
        });
        let entry = entry.transpose()?.map(Arc::new);
        if let Some(entry) = &entry {
            check_size(entry)?;
        }
        let id = MutationId::random(entropy);
        let deposes = replaces.then(|| deposed_key(entropy)).transpose()?;
        let begin = Begin {
            id,
            op,
            target: target.clone(),
            entry,
            deposes,
            tombstone,
            at: Some(self.session.now()),
        };
        self.session
            .submit(vec![Record::Begin(begin).into()], true)
            .await?;
        Ok(Mutation {
            session: self.session.clone(),
            id,
            target,
            uid,
        })
    }

    /// The entry was looked at. One that says what is recorded already isn't worth a sync: it rides with the
    /// next batch, or with the close.
    ///
    /// # Errors
    /// `Integrity` when it isn't there, or was recorded by this update already.
    pub async fn same(&self, entry: Entry) -> Result<()> {
        let state = self.session.state();
        let old = state.entry(&entry.key());
        let entry = self.sealed_as(entry, old)?;
        let silent = old.is_some_and(|old| entry.says_the_same_as(old));
        check_size(&entry)?;
        self.step(StepChange::Same(Arc::new(entry)), !silent).await
    }

    /// Marks that a create and a delete of this entry belong together.
    ///
    /// # Errors
    /// `Integrity` when it isn't there.
    pub async fn replace(&self, target: EntryKey) -> Result<()> {
        self.step(StepChange::Replace(target), true).await
    }

    /// The entry as the world has it; none when it is gone: then whatever referred to it does so no more.
    ///
    /// # Errors
    /// `Integrity` when it isn't there, or what came back breaks a rule.
    pub async fn refresh(&self, target: EntryKey, entry: Option<Entry>) -> Result<()> {
        let state = self.session.state();
        let sealed = |entry| self.sealed_as(entry, state.entry(&target));
        let entry = entry.map(sealed).transpose()?;
        if let Some(entry) = &entry {
            check_size(entry)?;
        }
        self.step(
            StepChange::Refresh {
                target,
                entry: entry.map(Arc::new),
            },
            true,
        )
        .await
    }

    /// Drops a tombstone whose replacement isn't wanted any more.
    ///
    /// # Errors
    /// `Integrity` when it isn't one.
    pub async fn remove_pending_replace(&self, target: EntryKey) -> Result<()> {
        self.step(StepChange::RemovePendingReplace(target), true).await
    }

    /// Outputs of an entry, registered after its step (seed 004).
    ///
    /// # Errors
    /// `Integrity` when it isn't there.
    pub async fn outputs(&self, target: EntryKey, outputs: Properties, sensitive: Vec<String>) -> Result<()> {
        let state = self.session.state();
        let registered = Entry {
            outputs: Some(outputs),
            sensitive_outputs: sensitive,
            ..match state.entry(&target) {
                Some(old) => Entry::clone(old),
                None => Entry::leaf(target.address.clone(), ""),
            }
        };
        let old = state.entry(&target);
        let sealed = self.sealed_as(registered, old)?;
        check_size(&sealed)?;
        let change = if old.is_some_and(|old| old.inputs != sealed.inputs) {
            // What is secret now stands among the inputs too, so they change with it.
            StepChange::Refresh {
                target,
                entry: Some(Arc::new(sealed)),
            }
        } else {
            StepChange::Outputs {
                target,
                outputs: sealed.outputs.unwrap_or_default(),
                sensitive: sealed.sensitive_outputs,
            }
        };
        self.step(change, true).await
    }

    /// Changes by hand: all of them, or none. An entry that comes without a uid keeps that of the one whose place
    /// it takes, or gets a new one.
    ///
    /// # Errors
    /// `Integrity` with every rule that they would break.
    pub async fn edit(&self, changes: Vec<EditChange>) -> Result<()> {
        let id = self.random_mutation();
        let state = self.session.state();
        let entropy = &*self.session.stack().environment().entropy;
        let changes = changes
            .into_iter()
            .map(|change| sealed_change(self.session.seal(), identified(change, &state, entropy)))
            .collect::<Result<_>>()?;
        self.session
            .submit(vec![Record::Edit(Edit { id, changes }).into()], true)
            .await
            .map(drop)
    }

    /// A plugin takes part.
    ///
    /// # Errors
    /// `Integrity` when no update is open.
    pub async fn record_plugin(&self, plugin: Plugin) -> Result<()> {
        self.session
            .submit(vec![Record::RecordPlugin(plugin).into()], true)
            .await
            .map(drop)
    }

    /// The outputs of the stack itself.
    ///
    /// # Errors
    /// `Integrity` when no update is open.
    pub async fn set_outputs(&self, outputs: StackOutputs) -> Result<()> {
        let outputs = self.session.seal().outputs(outputs)?;
        self.session
            .submit(vec![Record::SetOutputs(outputs).into()], true)
            .await
            .map(drop)
    }

    /// Remembers what engine or provider said. Costs no I/O: the lines are stored when the update ends, so what is
    /// said in an update that never ends is lost. Of more than 32 MiB the rest is only counted.
    pub fn log(&self, line: &LogLine) {
        self.log.push(line);
    }

    /// Ends the update and makes a revision of what is there now. Mutations that didn't end stay pending.
    ///
    /// # Errors
    /// `Conflict` when it has ended already.
    pub async fn finish(self, result: UpdateResult) -> Result<RevisionId> {
        let revision = self.session.end_update(result).await?;
        self.session.keep_log(&revision, &self.log).await;
        Ok(revision)
    }

    async fn step(&self, change: StepChange, durable: bool) -> Result<()> {
        let step = Step {
            id: self.random_mutation(),
            change,
        };
        self.session
            .submit(vec![Prepared::from(Record::Step(step))], durable)
            .await
            .map(drop)
    }

    /// The entry as it is stored, under the uid of the one whose place it takes.
    fn sealed_as(&self, entry: Entry, old: Option<&SharedEntry>) -> Result<Entry> {
        self.session.seal().entry(Entry {
            uid: old.and_then(|old| old.uid).or(entry.uid),
            ..entry
        })
    }

    fn random_mutation(&self) -> MutationId {
        MutationId::random(&*self.session.stack().environment().entropy)
    }
}

/// A step that was begun. Say how it ended; when it is dropped instead, its pending operation stays on record.
#[derive(Debug)]
#[must_use = "a mutation that isn't ended stays on record as pending"]
pub struct Mutation {
    session: Session,
    id: MutationId,
    target: EntryKey,
    uid: Uid,
}

impl Mutation {
    /// Names it, in every look-up later.
    pub const fn id(&self) -> MutationId {
        self.id
    }

    /// Records what came back from the world. Durable when it returns.
    ///
    /// The rules that the result breaks come back: then it is kept, with id and outputs, on the pending
    /// operation, and no entry changed.
    ///
    /// # Errors
    /// `Fenced`, `NotApplied`, `Indeterminate` or `Closed` when it could not be recorded. With
    /// [`Stacks::with_spool`](crate::Stacks::with_spool) it is kept in a file then, which an `Indeterminate` names.
    pub async fn end(
        self,
        outcome: Outcome,
        entry: Option<Entry>,
        reasons: Vec<String>,
    ) -> Result<Vec<Violation>> {
        let Self {
            session,
            id,
            target,
            uid,
        } = self;
        let entry = entry.map(|entry| Entry {
            uid: Some(uid),
            ..entry
        });
        let came_back = CameBack {
            outcome,
            entry,
            reasons,
            violation: None,
        };
        let CameBack {
            outcome,
            entry,
            reasons,
            violation,
        } = came_back.sealed(&session, id, &target).fit(&target);
        let end = End {
            id,
            outcome,
            entry: entry.map(Arc::new),
            reasons,
        };
        let recorded = session.submit(vec![Record::End(end.clone()).into()], true).await;
        let answer = match recorded {
            Ok(answer) => answer,
            Err(error) => return Err(session.spooled(end, error).await),
        };
        Ok(violation.into_iter().chain(answer.refused).collect())
    }

    /// It ended as it was meant to.
    ///
    /// # Errors
    /// As [`Mutation::end`].
    pub async fn succeed(self, entry: Option<Entry>) -> Result<Vec<Violation>> {
        self.end(Outcome::Succeeded, entry, Vec::new()).await
    }

    /// The world didn't change.
    ///
    /// # Errors
    /// As [`Mutation::end`].
    pub async fn fail(self) -> Result<()> {
        self.end(Outcome::Failed, None, Vec::new()).await.map(drop)
    }
}

/// The change as it is stored.
pub(crate) fn sealed_change(seal: &Seal, change: EditChange) -> Result<EditChange> {
    let sealed = |entry: &SharedEntry| seal.entry(Entry::clone(entry)).map(Arc::new);
    Ok(match change {
        EditChange::Put { target, entry } => EditChange::Put {
            entry: sealed(&entry)?,
            target,
        },
        EditChange::Append(entry) => EditChange::Append(sealed(&entry)?),
        other => other,
    })
}

/// The change, with a uid on the entry that it brings.
fn identified(change: EditChange, state: &State, entropy: &dyn Entropy) -> EditChange {
    let with = |entry: SharedEntry, known: Option<Uid>| match entry.uid {
        Some(_) => entry,
        None => Arc::new(Entry {
            uid: known.or_else(|| Some(Uid::random(entropy))),
            ..Entry::clone(&entry)
        }),
    };
    match change {
        EditChange::Put { target, entry } => {
            let known = state.entry(&target).and_then(|old| old.uid);
            EditChange::Put {
                entry: with(entry, known),
                target,
            }
        }
        EditChange::Append(entry) => EditChange::Append(with(entry, None)),
        other => other,
    }
}

pub(crate) fn check_size(entry: &Entry) -> Result<()> {
    let Some(detail) = too_large(entry) else {
        return Ok(());
    };
    Err(Error::Integrity {
        object: format!("entry {}", entry.key()),
        violations: vec![Violation::of(Rule::Size, entry.key(), detail)],
    })
}

/// Why an entry can't be recorded; none when it can.
pub(crate) fn too_large(entry: &Entry) -> Option<String> {
    let text = codec::entry_text(entry);
    if text.len() > MAX_ENTRY {
        return Some(size(text.len()));
    }
    has_long_string(text.as_bytes()).then(|| "it has a string of more than 16 MiB".to_owned())
}

/// An entry that is too large to be recorded.
pub(crate) fn oversized(key: &EntryKey, length: usize) -> Violation {
    Violation::of(Rule::Size, key.clone(), size(length))
}

fn size(length: usize) -> String {
    format!("encoded it has {length} bytes; {MAX_ENTRY} are the most")
}

fn deposed_key(entropy: &dyn Entropy) -> Result<DeposedKey> {
    let mut bytes = [0; 4];
    entropy.fill(&mut bytes);
    Ok(DeposedKey::new(format!("{:08x}", u32::from_be_bytes(bytes)))?)
}
