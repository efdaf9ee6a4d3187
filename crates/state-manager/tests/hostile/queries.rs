//! The commands that only read, with their answers as facts. Facts of a stack that isn't authenticated are left out: its
//! content proves nothing.

use crate::client::{opened, resources, texts};
use crate::commands::{Facts, found};
use crate::scenario::{OTHER, name};
use state_core::diff::diff;
use state_core::mask::Mask;
use state_core::{Address, Result, RevisionId, Snapshot, StackName};
use state_manager::{Authenticity, LogQuery, OpeningObserver, Stacks, Standing};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Collects the names of the stacks that were opened and are not authentic, or that were rolled back.
#[derive(Debug, Default)]
struct Doubtful(Mutex<BTreeSet<StackName>>);

impl OpeningObserver for Doubtful {
    fn opened(&self, name: &StackName, standing: &Standing) {
        if standing.authenticity != Authenticity::Checked || standing.regression.is_some() {
            lock(&self.0).insert(name.clone());
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lists all stacks, and looks the other stack up by its name.
pub(crate) async fn list(stacks: &Stacks, facts: &mut Facts) -> Result<()> {
    let doubtful = Arc::new(Doubtful::default());
    let observer: Arc<dyn OpeningObserver> = Arc::<Doubtful>::clone(&doubtful);
    for summary in stacks.clone().with_observer(observer).list().await? {
        if lock(&doubtful.0).contains(&summary.name) {
            continue;
        }
        let key = format!("summary of {}", summary.name);
        facts.push((key, format!("{} {:?}", summary.lineage, summary.current)));
    }
    let other: StackName = OTHER.parse()?;
    stacks.get(&other).await?;
    Ok(())
}

/// Reads all revisions of the stack.
pub(crate) async fn old_revision(stacks: &Stacks, facts: &mut Facts) -> Result<()> {
    let stack = found(stacks).await?;
    if stack.tip().await?.authenticity != Authenticity::Checked {
        return Ok(());
    }
    let revisions: Vec<RevisionId> = stack.list().await?;
    for revision in &revisions {
        let content = opened(&stack, stack.get(revision).await?).await?;
        facts.push((
            format!("revision {revision}"),
            format!("{:?}", resources(&content)),
        ));
    }
    Ok(())
}

/// Compares each revision of the stack with the one before, as `statectl diff` does.
pub(crate) async fn differences(stacks: &Stacks, facts: &mut Facts) -> Result<()> {
    let stack = found(stacks).await?;
    let view = stack.tip().await?;
    if view.authenticity != Authenticity::Checked {
        return Ok(());
    }
    let mut before: Option<(RevisionId, Snapshot)> = None;
    for revision in view.history().await?.into_iter().rev() {
        let content = opened(&stack, view.get(&revision.id).await?).await?;
        let empty = Snapshot {
            entries: Vec::new(),
            outputs: BTreeMap::new(),
            ..content.clone()
        };
        let old = before.as_ref().map_or(&empty, |(_, old)| old);
        let lines = diff(old, &content).masked(Mask::reveal("(sealed)")).lines();
        let lines: Vec<String> = lines
            .into_iter()
            .map(|line| format!("{}{}", line.sign.as_str(), line.text))
            .collect();
        let old = before.as_ref().map(|(old, _)| old);
        facts.push((
            format!("difference of {old:?} and {}", revision.id),
            format!("{lines:?}"),
        ));
        before = Some((revision.id, content));
    }
    Ok(())
}

/// Reads the logs of all updates.
pub(crate) async fn logs(stacks: &Stacks, facts: &mut Facts) -> Result<()> {
    let view = found(stacks).await?.tip().await?;
    if view.authenticity != Authenticity::Checked {
        return Ok(());
    }
    let query = LogQuery {
        reveal: true,
        ..LogQuery::default()
    };
    for stored in view.logs(&query).await? {
        let line = stored.line;
        let address = line.address.as_ref().map_or("", Address::as_str);
        facts.push((
            format!("log of {}", stored.update),
            format!("{} [{address}] {}", line.level.name(), line.message),
        ));
    }
    Ok(())
}

/// The name of the fact that [`published`] adds.
pub(crate) const PUBLISHED: &str = "published outputs";

/// Reads the published outputs.
pub(crate) async fn published(stacks: &Stacks, facts: &mut Facts) -> Result<()> {
    let published = stacks.published_outputs(&name()).await?;
    let published = published
        .as_ref()
        .map(|one| (one.serial, texts(&one.outputs.values), &one.outputs.sensitive));
    facts.push((PUBLISHED.to_owned(), format!("{published:?}")));
    Ok(())
}

/// The name of the fact that [`other_stack`] adds.
pub(crate) const OTHER_STACK: &str = "the other stack";

/// Reads the stack `OTHER`, and adds its resources to the facts.
pub(crate) async fn other_stack(stacks: &Stacks, facts: &mut Facts) -> Result<()> {
    let answer = crate::client::look_as(stacks, &OTHER.parse()?).await?;
    let shown = answer
        .shown
        .filter(|shown| shown.authenticity == Authenticity::Checked && !shown.is_regressed);
    if let Some(shown) = shown {
        facts.push((
            OTHER_STACK.to_owned(),
            format!("{} {:?}", shown.sealing, shown.resources),
        ));
    }
    Ok(())
}
