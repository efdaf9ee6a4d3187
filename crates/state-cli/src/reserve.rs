//! Commands that delete: they use the space that a store keeps in reserve, so that they work on a full disk.

use crate::error::CliError;
use state_manager::Stack;

const NOT_RESTORED: &str = "the disk of the store is full: only a part of the space for deletions could be reserved again; free \
                            some space, for example with `statectl gc`";

/// Runs `work`, which takes the lock of the stack and deletes, with the reserved space freed before. Adds a warning if the
/// space can't be reserved again.
pub(crate) async fn with_reserve<T>(
    stack: &Stack,
    work: impl Future<Output = Result<(T, Vec<String>), CliError>>,
) -> Result<(T, Vec<String>), CliError> {
    stack.free_reserve().await?;
    let done = work.await;
    // Also after an error: the next attempt needs the space too.
    let restored = stack.restore_reserve().await;
    let (done, mut warnings) = done?;
    match restored {
        Ok(true) => {}
        Ok(false) => warnings.push(NOT_RESTORED.to_owned()),
        Err(error) => warnings.push(CliError::from(error).message),
    }
    Ok((done, warnings))
}
