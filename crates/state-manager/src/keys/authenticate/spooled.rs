//! Spooled provider results, which sessions of the stack tagged.

use super::{Authenticated, SessionHead};
use crate::context::StackContext;
use crate::keys::proof::Proof;
use crate::keys::wrapped;
use crate::objects::spooled_result::SpooledResult;
use state_core::mutation::End;
use state_core::{Error, Result};

/// The result in a spool file, if a session of this stack wrote it. Other users may have write access to the folder of
/// the file. The tag covers the id of the mutation, so the result of one mutation can't be recorded for another. A stack
/// without a data key accepts every result.
///
/// # Errors
/// `Distrusted` if the result has no valid tag under a key that the stack has or had.
pub(crate) async fn spooled<'a>(
    stack: &StackContext,
    head: &SessionHead,
    spooled: &'a SpooledResult,
) -> Result<Authenticated<&'a End>> {
    let Some(head) = head.sealed() else {
        return Ok(Authenticated::new(&spooled.end, Proof::Plain));
    };
    let refused = |reason: &str| {
        let stack = stack.object();
        let object = format!("spooled result of operation {} of {stack}", spooled.end.id);
        Err(Error::distrusted(object, reason))
    };
    let Some(id) = spooled.key_id else {
        return refused(
            "it has no tag under a data key of the stack: it was changed or made outside of statectl",
        );
    };
    // The key may have been replaced while the operation was pending.
    if !wrapped::keys_of(&head).contains(&id) {
        return refused("it names a data key that the stack never had");
    }
    let key = wrapped::unwrap(stack, id).await?;
    match spooled.is_authentic(Some(&*key)) {
        true => Ok(Authenticated::new(&spooled.end, Proof::Mac(id))),
        false => refused("its tag doesn't match the stack's data key: it was changed after it was written"),
    }
}
