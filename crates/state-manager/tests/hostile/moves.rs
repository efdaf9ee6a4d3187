//! Moves of a resource between the two stacks. An interrupted move is settled by the next sessions, and only authentic
//! states may decide how: if its two stacks settle it differently, the resource is in both of them or in neither.

use crate::commands::{Command, found};
use crate::disk::Disk;
use crate::scenario::{OTHER, Run, Scenario, name};
use crate::written::contains;
use state_core::edits::{MovePlan, MoveRequest};
use state_core::moves::MoveOutcome;
use state_core::testkit::fault::{Fault, FaultyBackend, Operation};
use state_core::testkit::hostile::{Attacker, StoreImage};
use state_core::update::UpdateKind;
use state_core::{Error, ErrorKind, Lineage, Record, Result};
use state_manager::{Session, Stack, Stacks, UpdateRequest};
use std::sync::Arc;

/// The end of a move as the record of the destination names it.
const ARRIVED: &str = r#""outcome":"arrived""#;

/// Moves the resource `built-1` to the other stack.
pub(crate) async fn make(stacks: &Stacks) -> Result<()> {
    let (source, destination) = lock(stacks).await?;
    let moved = make_locked(&source, &destination).await;
    let closed = source.close().await.and(destination.close().await);
    moved.and(closed)
}

async fn lock(stacks: &Stacks) -> Result<(Session, Session)> {
    let other = other(stacks).await?;
    let lock = async |stack: &Stack| stack.lock("mv").await;
    Stacks::lock_both::<Error>(&found(stacks).await?, &other, lock).await
}

async fn other(stacks: &Stacks) -> Result<Stack> {
    let other = stacks.get(&OTHER.parse()?).await?;
    other.ok_or_else(|| Error::not_found("the other stack"))
}

async fn make_locked(source: &Session, destination: &Session) -> Result<()> {
    let request = MoveRequest {
        addresses: vec!["built-1".parse()?],
        ..MoveRequest::default()
    };
    let plan = MovePlan::new(&source.state(), &destination.state(), &request)
        .map_err(|refusal| Error::invalid("the move", format!("{refusal:?}")))?;
    let request = UpdateRequest::new(UpdateKind::Edit);
    source.move_to(destination, request, &plan).await.map(drop)
}

/// A copy of the last stage in which a writer crashed within a move, before its commit point or after it. Both stacks
/// stay locked.
pub(crate) async fn interrupted(scenario: &Scenario, is_committed: bool) -> Result<Disk> {
    let disk = scenario.last().copy();
    let backend = FaultyBackend::new(disk.under(&Attacker::default()).await?);
    let faults = backend.plan();
    let stacks = scenario.stacks(Arc::new(backend), 8);
    let (source, destination) = lock(&stacks).await?;
    // The destination announces the move, the source commits it, and the destination records its end.
    let after = if is_committed { 2 } else { 1 };
    faults.fail(Operation::Append, after, Fault::Late);
    match make_locked(&source, &destination).await {
        Err(error) if error.kind() == ErrorKind::Indeterminate => Ok(disk),
        other => Err(Error::invalid("the move", format!("it ended with {other:?}"))),
    }
}

/// Takes over both stacks from a writer that crashed within a move, and then locks both. The first session can't withdraw
/// the move, because the crashed writer still holds the source.
pub(crate) async fn settle(stacks: &Stacks) -> Result<()> {
    for stack in [other(stacks).await?, found(stacks).await?] {
        let status = stack.lock_status().await?;
        let session = match status.holder {
            Some(_) => stack.break_lock("takeover", status.epoch).await?,
            None => stack.lock("takeover").await?,
        };
        session.close().await?;
    }
    let (source, destination) = lock(stacks).await?;
    source.close().await.and(destination.close().await)
}

/// The ends of moves that the client signed in a stack, in all versions of its journal.
pub(crate) fn ends(scenario: &Scenario, lineage: Lineage, run: &Run) -> Vec<MoveOutcome> {
    let folder = format!("stacks/{lineage}/journal/");
    let objects = run.attacker.objects().into_iter();
    let mut ends = Vec::new();
    for object in objects.filter(|object| object.starts_with(&folder)) {
        for bytes in run.attacker.versions(&object).into_iter().flatten() {
            for (_, frame) in StoreImage::new([(object.clone(), bytes)]).frames(lineage) {
                let key = frame.key_id().and_then(|id| scenario.keys.honest(id));
                if key.is_some_and(|key| frame.is_authentic(&*key)) {
                    let records = state_core::journal::decode_records("frame", frame.payload());
                    ends.extend(
                        records
                            .unwrap_or_default()
                            .into_iter()
                            .filter_map(|record| match record {
                                Record::MoveEnd(end) => Some(end.outcome),
                                _ => None,
                            }),
                    );
                }
            }
        }
    }
    ends
}

/// Checks that the two stacks settled an interrupted move as it was left: a committed move arrives at the destination, and
/// another one is withdrawn there.
pub(crate) async fn check(
    scenario: &Scenario,
    command: Command,
    remembers: bool,
    run: &Run,
    broken: &mut Vec<String>,
) {
    let Some(is_committed) = command.interrupted_move() else {
        return;
    };
    let image = run.disk.image().await.unwrap_or_default();
    let key = |lineage| image.head(lineage).map(|head| head.key_id);
    let knows = remembers && command.knows_stack();
    // To a client without memory, an attacker can show either stack as it was before the move. No such state explains how
    // a stack without a key settled the move of a sealed one.
    let is_destination_true = key(scenario.other) == Some(scenario.last_key(scenario.other).await);
    let is_explained = key(scenario.lineage) != Some(None) || !is_destination_true;
    if !knows && is_explained {
        return;
    }
    let wrong = if is_committed {
        MoveOutcome::Withdrawn
    } else {
        MoveOutcome::Arrived
    };
    if ends(scenario, scenario.other, run).contains(&wrong) {
        broken.push(format!("a move of {} is wrongly {wrong:?}", name()));
    }
    // A session continues a journal that the attacker damages meanwhile, and then no reader finds its frames. The text of
    // the record proves that the session wrote it: the attacker invents no arrivals.
    let folder = format!("stacks/{}/journal/", scenario.other);
    let objects = run.attacker.objects().into_iter();
    let mut versions = objects
        .filter(|object| object.starts_with(&folder))
        .flat_map(|object| run.attacker.versions(&object))
        .flatten();
    let has_arrived = versions.any(|bytes| contains(&bytes, ARRIVED));
    if ends(scenario, scenario.lineage, run).contains(&MoveOutcome::Confirmed) && !has_arrived {
        broken.push(format!("a move of {} is confirmed and didn't arrive", name()));
    }
}
