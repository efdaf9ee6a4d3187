//! A stack that was imported several times: its base takes the content from the snapshot of the last import.

use crate::commands::found;
use crate::scenario::{Moment, Scenario};
use crate::updates::import_again;
use state_core::testkit::hostile::Attacker;
use state_core::{Error, Result};

/// So many imports in one session move the base to the snapshot of the last one.
const IMPORTS: usize = 4;

/// The last stage, after a session that imported several times.
pub(crate) async fn made(scenario: &Scenario) -> Result<Moment> {
    let disk = scenario.last().copy();
    let stacks = scenario.stacks(disk.under(&Attacker::default()).await?, 9);
    let stack = found(&stacks).await?;
    let session = stack.lock("import").await?;
    for _ in 0..IMPORTS {
        import_again(&stack, &session).await?;
    }
    session.close().await?;
    let head = disk.image().await?.head(scenario.lineage);
    head.and_then(|head| head.base.content)
        .ok_or_else(|| Error::not_found("the content of the base"))?;
    let pins = scenario.remembered(&disk).await?;
    Ok(Moment { disk, pins })
}
