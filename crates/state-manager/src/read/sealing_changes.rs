//! Reports changes of policy and recipients to the user, with the revisions that record them.

use crate::context::StackContext;
use crate::keys::trust::UnreportedChange;
use crate::known_stacks::ChangeOrigin;
use crate::objects::document::{Revision, RevisionKind};
use crate::read::history::Revisions;
use crate::read::tip::Tip;
use state_core::{Result, Serial, UpdateKind};

/// Adds to a change the users and the revisions that made it, and reports the change.
pub(crate) async fn report(stack: &StackContext, tip: &Tip, mut unreported: UnreportedChange) {
    // If the history can't be read, the change is reported without the users and revisions that made it.
    let revisions = rekeys_since(stack, tip, unreported.since)
        .await
        .unwrap_or_default();
    let change = &mut unreported.change;
    let is_named = |message: &str| change.is_mentioned_in(message);
    let named: Vec<_> = revisions
        .iter()
        .filter(|(_, message)| is_named(message))
        .collect();
    // `rotation` writes the recipients into the messages. Another caller of this library may choose other messages, and
    // no message contains the policy: then all revisions that changed keys are reported.
    let origins: Vec<ChangeOrigin> = match named.is_empty() || change.policy.is_some() {
        true => revisions.iter().map(|(origin, _)| origin.clone()).collect(),
        false => named.into_iter().map(|(origin, _)| origin.clone()).collect(),
    };
    change.origins = if change.is_recorded() { origins } else { Vec::new() };
    change.names = tip
        .head
        .keys
        .as_ref()
        .map(|keys| keys.names.clone())
        .unwrap_or_default();
    unreported.report(stack).await;
}

/// The revisions after a serial that changed key, policy or recipients, oldest first, each with its message.
async fn rekeys_since(stack: &StackContext, tip: &Tip, since: Serial) -> Result<Vec<(ChangeOrigin, String)>> {
    let mut revisions = Revisions::of(stack, tip);
    let mut found = Vec::new();
    while let Some(Revision { id, kind, .. }) = revisions.next().await? {
        if id.serial() <= since {
            break;
        }
        if let RevisionKind::Update(info) = kind
            && info.kind == UpdateKind::Rekey
        {
            let origin = ChangeOrigin {
                who: info.who.clone(),
                serial: id.serial(),
            };
            found.push((origin, info.message.clone()));
        }
    }
    found.reverse();
    Ok(found)
}
