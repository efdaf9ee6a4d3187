//! Taking in a stack from another store: objects, then slots, then the head, each made once. Without a head the stack
//! isn't there, so what was cut short is done again.

use crate::layout::Meta;
use crate::stack::Stack;
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use state_core::backend::Tail;
use state_core::{Enveloped, Error, Frame, Head, Result};

/// Makes the slots, then the head.
pub async fn adopt_stack(stack: &Stack, head: &Head, before: Tail, frames: &[Frame]) -> Result<()> {
    if frames.first().is_some_and(|frame| frame.slot() != before.next) {
        return Err(Error::invalid(
            stack.shown(),
            "its journal doesn't begin where it should",
        ));
    }
    let meta = Meta {
        lineage: stack.lineage,
    };
    stack
        .create_at(&stack.paths.meta(), &meta.encode().into())
        .await?;
    let slots: Vec<(String, Bytes)> = frames
        .iter()
        .map(|frame| (stack.paths.slot(frame.slot()), frame.bytes().clone()))
        .collect();
    let slots = slots
        .into_iter()
        .map(|(path, bytes)| async move { stack.create_at(&path, &bytes).await });
    stream::iter(slots)
        .buffer_unordered(stack.store.concurrency())
        .try_collect::<()>()
        .await?;
    stack.create_at(&stack.paths.head(), &head.encode().into()).await
}
