//! A stack's outputs for those who may read nothing else of it: documents of their own, with recipients of their own.
//!
//! One is written for each revision, once the revision is durable, as long as the stack has such recipients. A writer
//! that dies before leaves the current one to the next writer; earlier ones nobody misses.

use crate::context::StoreContext;
use crate::known_stacks::{KnownStacks, SeenOutputs};
use state_core::backend::{ObjectKind, ObjectName};
use state_core::mutation::StackOutputs;
use state_core::sealing::OpenedOutputs;
use state_core::{Error, Lineage, Result, Serial, StackName};

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

/// The latest outputs that a stack published. Reads the name and the document, and nothing of the stack itself.
pub(crate) async fn published_outputs(
    store: &StoreContext,
    name: &StackName,
) -> Result<Option<PublishedOutputs>> {
    let object = || format!("stack {}", name.short());
    let pointer = store.backend().read_name(name).await?;
    let Some(lineage) = pointer.and_then(|pointer| pointer.lineage()) else {
        return Err(Error::not_found(object()));
    };
    let there = store.backend().list(lineage, ObjectKind::Outputs).await?;
    let Some(latest) = there.last() else {
        return Ok(None);
    };
    let Some(provider) = &store.keys else {
        let reason = "its outputs are sealed, and there is no identity at hand to open them with";
        return Err(Error::sealed(object(), reason));
    };
    let document = store.backend().read(lineage, latest).await?;
    let opened = provider.open_outputs(lineage, &document)?;
    if ObjectName::Outputs(opened.serial) != *latest {
        let reason = format!(
            "{latest} is the document of serial {}: somebody changed the store",
            opened.serial
        );
        return Err(Error::sealed(object(), reason));
    }
    if let Some(known_stacks) = store.known_stacks() {
        require_onward(known_stacks, lineage, &opened)
            .await?
            .map_err(|reason| Error::distrusted(object(), reason))?;
    }
    Ok(Some(PublishedOutputs {
        lineage,
        serial: opened.serial,
        outputs: opened.outputs,
    }))
}

/// The same key as before, and not an older revision; remembered then. Nobody vouches for a new key of outputs to those
/// who hold nothing else.
async fn require_onward(
    known_stacks: &dyn KnownStacks,
    lineage: Lineage,
    opened: &OpenedOutputs,
) -> Result<Result<(), String>> {
    let mut seen = known_stacks.seen(lineage).await?.unwrap_or_default();
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
    known_stacks.remember(lineage, Some(&seen)).await;
    Ok(Ok(()))
}
