//! What `trust` writes to the memory of this client, and requires of it.

use crate::error::CliError;
use state_core::{KeyId, Lineage, StackName};
use state_manager::{KnownStacks, StackPin};

/// Requires that this client remembers no other stack under the name.
pub(super) async fn require_named(
    known_stacks: &dyn KnownStacks,
    name: &StackName,
    lineage: Lineage,
) -> Result<(), CliError> {
    let Some(other) = known_stacks.named(name).await?.filter(|other| *other != lineage) else {
        return Ok(());
    };
    let object = format!("stack {}", name.short());
    let message = format!("this client remembers another stack, {other}, under this name");
    Err(CliError::conflict(object, &message)
        .with_hint("compare both with `statectl trust`, and accept the stack with `statectl trust --accept`"))
}

/// Pins the data key of a stack that this client doesn't know yet.
pub(super) async fn pin(
    known_stacks: &dyn KnownStacks,
    name: &StackName,
    lineage: Lineage,
    key: KeyId,
) -> Result<(), CliError> {
    if let Some(seen) = known_stacks.seen(lineage).await? {
        // A pin of the key alone would replace the remembered serial and recipients.
        let known = match seen.key {
            Some(known) if known == key => return Ok(()),
            Some(known) => format!("key {known}"),
            None => "a stack without a key".to_owned(),
        };
        let message = format!("cannot pin the key: this client remembers {known}");
        return Err(CliError::conflict(format!("stack {}", name.short()), &message)
            .with_hint("accept the current key with `statectl trust --accept` first"));
    }
    known_stacks
        .replace(lineage, None, Some(&StackPin::pinned(key)))
        .await;
    require_remembered(known_stacks, name, lineage, Some(key)).await
}

/// Requires that this client remembers the stack with this key. A memory that can't be written is only a warning to other
/// commands, which do their work without it.
async fn require_remembered(
    known_stacks: &dyn KnownStacks,
    name: &StackName,
    lineage: Lineage,
    key: Option<KeyId>,
) -> Result<(), CliError> {
    let pin = known_stacks.seen(lineage).await?;
    if pin.is_some_and(|pin| pin.key == key) {
        return Ok(());
    }
    let object = format!("stack {}", name.short());
    Err(
        CliError::failed(object, "this client could not remember the stack")
            .with_hint("make the folder that the warning names writable, and try again"),
    )
}
