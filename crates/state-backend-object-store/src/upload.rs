//! Objects that are made once. A large one goes up in parts, if its name says what is in it.

use crate::layout::MAX_OBJECT;
use crate::objects::Created;
use crate::stack::Stack;
use bytes::Bytes;
use object_store::path::Path;
use state_core::backend::ObjectName;
use state_core::{Error, Result};

/// Creates an object of a stack. The same bytes again are fine.
pub(crate) async fn create_object(stack: &Stack, name: &ObjectName, bytes: &Bytes) -> Result<()> {
    let path = stack.branch.object(name);
    if bytes.len() as u64 > MAX_OBJECT {
        let reason = format!(
            "its {} bytes are more than the {MAX_OBJECT} that an object may have",
            bytes.len()
        );
        return Err(Error::invalid(stack.objects.shown(&path), reason));
    }
    // Only a snapshot's name says what is in it: whoever makes it too makes the same.
    if matches!(name, ObjectName::Snapshot { .. }) {
        return create_named_by_digest(stack, &path, bytes).await;
    }
    create_at(stack, &path, bytes).await
}

/// Creates an object whose name has the digest of its content.
pub(crate) async fn create_named_by_digest(stack: &Stack, path: &Path, bytes: &Bytes) -> Result<()> {
    if bytes.len() > stack.objects.options.part {
        return stack.objects.upload(path, bytes).await;
    }
    create_at(stack, path, bytes).await
}

/// Creates an object. The same bytes again are fine.
pub(crate) async fn create_at(stack: &Stack, path: &Path, bytes: &Bytes) -> Result<()> {
    match stack.objects.create(path, bytes).await? {
        Created::Ours(_) => Ok(()),
        Created::Taken(_) => Err(Error::conflict(
            stack.objects.shown(path),
            "it exists with other bytes",
        )),
    }
}
