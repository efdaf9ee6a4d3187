//! Repeats a read of the history if a collection or a checkpoint replaced the history meanwhile, so that
//! objects that the read needed may be deleted.

use crate::context::StackContext;
use crate::read::stored;
use state_core::{Error, Head, Result};

/// Reads a part of the history, beginning with a tip that was read before. If the history was replaced since, starts
/// over with the present tip. The number of attempts needs no limit, because each retry requires another change by a
/// writer. This is a macro, because the compiler couldn't prove that the future of a closure is `Send`.
macro_rules! reading {
    ($stack:expr, $first:expr, $tip:ident => $read:expr) => {{
        let mut $tip = std::sync::Arc::clone($first);
        loop {
            let read = async { $read }.await;
            if !$crate::read::retrying::must_start_over($stack, &read, &$tip.head).await? {
                break read;
            }
            $tip = std::sync::Arc::new($crate::read::open::tip($stack).await?.0);
        }
    }};
}
pub(crate) use reading;

/// Whether a read that began with this head may have failed because the history was replaced meanwhile.
pub(crate) async fn must_start_over<T>(
    stack: &StackContext,
    read: &Result<T>,
    before: &Head,
) -> Result<bool> {
    match read {
        Err(Error::NotFound { .. } | Error::Collected { .. } | Error::Corrupt { .. }) => {
            let now = stored::head(stack).await?.head;
            Ok((&now.collection, &now.history) != (&before.collection, &before.history))
        }
        _ => Ok(false),
    }
}
