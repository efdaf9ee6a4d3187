//! Two stacks held at once.

use crate::session::Session;
use crate::stack::Stack;
use crate::stacks::Stacks;
use state_core::Error;

impl Stacks {
    /// Locks two stacks with `lock`, in the order of their names: so that two who want the same two can't wait for each
    /// other. Moves between them that were cut short are settled. The sessions come back in the order of the arguments.
    ///
    /// # Errors
    /// `Conflict` when it is one stack; whatever `lock` says. Then none of the two is held.
    ///
    /// # Cancellation
    /// A future that is dropped frees what it held.
    pub async fn lock_both<E: From<Error>>(
        one: &Stack,
        other: &Stack,
        lock: impl AsyncFn(&Stack) -> Result<Session, E>,
    ) -> Result<(Session, Session), E> {
        if one.lineage() == other.lineage() {
            let object = format!("stack {}", one.name().short());
            return Err(Error::conflict(object, "it is the same stack").into());
        }
        let in_order = one.name().folded() < other.name().folded();
        let (first, second) = if in_order { (one, other) } else { (other, one) };
        let first = lock(first).await?;
        // Of several errors the first one counts; the locks are freed in any case.
        let second = match lock(second).await {
            Ok(second) => second,
            Err(error) => {
                drop(first.close().await);
                return Err(error);
            }
        };
        if let Err(error) = settle(&first, &second).await {
            drop((first.close().await, second.close().await));
            return Err(error.into());
        }
        Ok(if in_order {
            (first, second)
        } else {
            (second, first)
        })
    }
}

/// None of them could ask the other one while we held that.
async fn settle(one: &Session, other: &Session) -> state_core::Result<()> {
    one.settle_moves_from(other).await?;
    other.settle_moves_from(one).await
}
