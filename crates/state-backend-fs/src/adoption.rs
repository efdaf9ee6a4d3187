//! Taking in a stack from another store: its journal becomes one segment, which says so by its name.
//!
//! ```text
//! journal/<slot:020>-0.log      the chain before it, 32 bytes; then frames of any epochs, as they were there
//! ```
//!
//! No writer ever has epoch 0. The head comes last and under `head.lock`: before it the stack isn't there, so nobody
//! reads the segment, and who begins anew replaces it.

use crate::dir::Dir;
use crate::failure::Failure;
use crate::layout::{HEAD, JOURNAL, META, Meta, STACKS, SegmentName};
use crate::stack::Stack;
use state_core::backend::{Holder, ObjectKind, ObjectName, Tail};
use state_core::{Enveloped, Epoch, Error, Frame, Head, Lineage, Result};
use std::time::Duration;

/// Keeps an object of a stack that isn't there yet.
pub(crate) fn adopt_object(root: &Dir, lineage: Lineage, name: &ObjectName, bytes: &[u8]) -> Result<()> {
    let folder = place(root, lineage)?.make_child(name.kind().folder())?;
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
    let stack = Stack {
        dir: place(root, head.lineage)?,
        lineage: head.lineage,
        patience,
    };
    let journal = stack.dir.make_child(JOURNAL)?;
    for kind in ObjectKind::ALL {
        stack.dir.make_child(kind.folder())?;
    }
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

fn place(root: &Dir, lineage: Lineage) -> Result<Dir, Failure> {
    root.make_child(STACKS)?.make_child(&lineage.to_string())
}
