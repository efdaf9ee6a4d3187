//! A stack's outputs for those who may read nothing else of it: documents of their own, with recipients of their own.
//!
//! One is written for each revision, once the revision is durable, as long as the stack has such recipients. A writer
//! that dies before leaves the current one to the next writer; earlier ones nobody misses.

use crate::load::Replayed;
use crate::stack::Stack;
use crate::stacks::Stacks;
use crate::witness::{SeenOutputs, Witness};
use state_core::backend::{ObjectKind, ObjectName};
use state_core::head::Policy;
use state_core::mutation::StackOutputs;
use state_core::sealing::{OpenedOutputs, StackKey};
use state_core::{Error, Head, Lineage, Result, Serial, StackName, Writer};

/// The outputs of one revision, as they were published.
#[derive(Clone, Debug, PartialEq)]
pub struct PublishedOutputs {
    /// The stack.
    pub lineage: Lineage,
    /// The revision's serial.
    pub serial: Serial,
    /// The outputs, open.
    pub outputs: StackOutputs,
}

/// For whom a session publishes, and how.
#[derive(Clone, Debug)]
pub(crate) struct Publication {
    pub(crate) policy: Policy,
    pub(crate) recipients: Vec<String>,
}

impl Publication {
    /// What the head asks for; none when nobody but those who read the stack shall have the outputs.
    pub(crate) fn of(head: &Head) -> Option<Self> {
        let recipients = head.keys.as_ref().map(|keys| keys.outputs.clone())?;
        (!recipients.is_empty()).then_some(Self {
            policy: head.policy,
            recipients,
        })
    }

    /// Writes the document of a revision.
    pub(crate) async fn publish(
        &self,
        writer: &dyn Writer,
        key: &dyn StackKey,
        serial: Serial,
        outputs: &StackOutputs,
    ) -> Result<()> {
        let document = key.outputs_document(self.policy, serial, outputs, &self.recipients)?;
        writer.create(&ObjectName::Outputs(serial), document.into()).await
    }
}

/// The current revision's outputs, if a writer before died before it published them.
pub(crate) async fn unpublished(
    stack: &Stack,
    publication: Option<&Publication>,
    replayed: &Replayed,
) -> Result<Option<(Serial, StackOutputs)>> {
    let (Some(_), Some(current)) = (publication, replayed.state.current()) else {
        return Ok(None);
    };
    let name = ObjectName::Outputs(current.serial());
    let there = stack.backend().list(stack.lineage(), ObjectKind::Outputs).await?;
    if there.contains(&name) {
        return Ok(None);
    }
    Ok(Some((current.serial(), stack.root_outputs().await?)))
}

impl Stacks {
    /// The latest outputs that a stack published for those who may read nothing else; none when it published none. Reads
    /// the name and the document, and nothing of the stack itself.
    ///
    /// # Errors
    /// `NotFound` when there is no such stack; `Sealed` when no identity at hand opens the document; `Distrusted` when it
    /// is under another key than the one before, or older.
    pub async fn published_outputs(&self, name: &StackName) -> Result<Option<PublishedOutputs>> {
        let object = || format!("stack {}", name.short());
        let pointer = self.backend().read_name(name).await?;
        let Some(lineage) = pointer.and_then(|pointer| pointer.lineage()) else {
            return Err(Error::not_found(object()));
        };
        let there = self.backend().list(lineage, ObjectKind::Outputs).await?;
        let Some(latest) = there.last() else {
            return Ok(None);
        };
        let Some(provider) = self.keys() else {
            let reason = "its outputs are sealed, and there is no identity at hand to open them with";
            return Err(Error::sealed(object(), reason));
        };
        let document = self.backend().read(lineage, latest).await?;
        let opened = provider.open_outputs(lineage, &document)?;
        if ObjectName::Outputs(opened.serial) != *latest {
            let reason = format!(
                "{latest} is the document of serial {}: somebody changed the store",
                opened.serial
            );
            return Err(Error::sealed(object(), reason));
        }
        if let Some(witness) = self.witness() {
            require_onward(witness, lineage, &opened)
                .await?
                .map_err(|reason| Error::distrusted(object(), reason))?;
        }
        Ok(Some(PublishedOutputs {
            lineage,
            serial: opened.serial,
            outputs: opened.outputs,
        }))
    }
}

/// The same key as before, and not an older revision; remembered then. Nobody vouches for a new key of outputs to those
/// who hold nothing else.
async fn require_onward(
    witness: &dyn Witness,
    lineage: Lineage,
    opened: &OpenedOutputs,
) -> Result<Result<(), String>> {
    let mut seen = witness.seen(lineage).await?.unwrap_or_default();
    if let Some(before) = &seen.outputs {
        if before.key != opened.key {
            let (was, is) = (before.key, opened.key);
            return Ok(Err(format!(
                "its outputs were sealed with key {was} when they were read last, and are sealed with {is} now"
            )));
        }
        if before.serial > opened.serial {
            let (was, is) = (before.serial, opened.serial);
            return Ok(Err(format!(
                "the store went back in time: outputs of serial {was} were read before, and now the latest are of {is}"
            )));
        }
    }
    seen.outputs = Some(SeenOutputs {
        key: opened.key,
        serial: opened.serial,
    });
    witness.remember(lineage, Some(&seen)).await;
    Ok(Ok(()))
}
