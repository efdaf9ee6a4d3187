//! Taking in a stack from another store: its journal becomes one segment, which says so by its name.
//!
//! ```text
//! journal/<slot:020>-0.log      the chain before it, 32 bytes; then frames of any epochs, as they were there
//! ```
//!
//! No writer ever has epoch 0. The head comes last and under `head.lock`: before it the stack isn't there, so nobody
//! reads the segment, and who begins anew replaces it.

use crate::dir::Dir;
use crate::layout::{HEAD, META, Meta, SegmentName};
use crate::stack::Stack;
use state_core::backend::{Holder, ObjectName, Tail};
use state_core::{Enveloped, Epoch, Error, Frame, Head, Lineage, Result};
use std::time::Duration;

/// Keeps an object of a stack that isn't there yet.
pub(crate) fn adopt_object(root: &Dir, lineage: Lineage, name: &ObjectName, bytes: &[u8]) -> Result<()> {
    let folder = Stack::make(root, lineage, Duration::ZERO)?.make_objects(name.kind())?;
    Ok(folder.create(&name.file_name(), bytes)?)
}

/// Makes the segment, then the head.
pub(crate) fn adopt_stack(
    root: &Dir,
    head: &Head,
    before: Tail,
    frames: &[Frame],
    patience: Duration,
) -> Result<()> {
    let stack = Stack::make(root, head.lineage, patience)?;
    let journal = stack.make_folders()?;
    let meta = Meta {
        lineage: head.lineage,
    };
    stack.dir.create(META, &meta.encode())?;
    let holder = Holder::new("a copy", "", std::process::id(), "copy", None);
    let lock = stack.lock_head(&holder)?;
    if stack.dir.is_file(HEAD) {
        return Err(Error::conflict(stack.dir.path(), "the stack exists already"));
    }
    if !frames.is_empty() {
        let name = SegmentName {
            epoch: Epoch::ZERO,
            slot: before.next,
        };
        let mut bytes = before.chain.as_bytes().to_vec();
        for frame in frames {
            bytes.extend_from_slice(frame.bytes());
        }
        journal.replace(&name.to_string(), &bytes)?;
    }
    stack.dir.create(HEAD, &head.encode())?;
    drop(lock);
    Ok(())
}
