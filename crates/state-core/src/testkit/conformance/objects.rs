//! Rules of objects: created once, never rewritten.

use super::{Bench, Verdict, ensure, ensure_fails};
use crate::backend::{ObjectKind, ObjectName};
use crate::counter::{Serial, Slot};
use crate::digest::{Digest, KeyId};
use crate::error::ErrorKind;
use crate::revision::RevisionId;
use bytes::Bytes;

fn snapshot(slot: u64, content: &[u8]) -> ObjectName {
    ObjectName::Snapshot {
        slot: Slot(slot),
        short: Digest::of(content).short(),
    }
}

/// The same bytes again are fine, since the first answer may have got lost; other bytes never.
pub async fn objects_are_created_once(bench: &Bench<'_>) -> Verdict {
    let lineage = bench.stack().await?;
    let held = bench.acquire(lineage, "anna").await?;
    let name = snapshot(3, b"one");
    let bytes = Bytes::from_static(b"one\0\xFF");
    for _ in 0..2 {
        held.writer.create(&name, bytes.clone()).await?;
        ensure(
            bench.backend.read(lineage, &name).await? == bytes,
            "an object reads back otherwise",
        )?;
    }
    ensure_fails(
        held.writer.create(&name, Bytes::from_static(b"two")).await,
        ErrorKind::Conflict,
        "an object with other bytes",
    )?;
    ensure(
        bench.backend.read(lineage, &name).await? == bytes,
        "a refused object had an effect",
    )?;
    let empty = snapshot(4, b"");
    held.writer.create(&empty, Bytes::new()).await?;
    ensure(
        bench.backend.read(lineage, &empty).await?.is_empty(),
        "an empty object reads back otherwise",
    )
}

/// A list holds one kind, by slot or serial.
pub async fn objects_are_listed_by_kind_in_order(bench: &Bench<'_>) -> Verdict {
    let lineage = bench.stack().await?;
    let held = bench.acquire(lineage, "anna").await?;
    let mut there = Vec::new();
    for number in [10, 9, 100, 0, u64::MAX] {
        let digest = Digest::of(&number.to_be_bytes());
        let key = std::array::from_fn(|at| digest.as_bytes()[at]);
        there.push(snapshot(number, &number.to_be_bytes()));
        there.push(ObjectName::Update(RevisionId::new(Serial(number), &digest)));
        there.push(ObjectName::Log(Serial(number)));
        there.push(ObjectName::Outputs(Serial(number)));
        there.extend(KeyId::from_bytes(key).map(|id| ObjectName::Key { number, id }));
    }
    for name in &there {
        held.writer.create(name, Bytes::from(name.to_string())).await?;
    }
    there.sort();
    for kind in ObjectKind::ALL {
        let expected: Vec<_> = there.iter().filter(|name| name.kind() == kind).cloned().collect();
        ensure(
            bench.backend.list(lineage, kind).await? == expected,
            &format!("the list of {} isn't all of them, sorted", kind.folder()),
        )?;
        for name in &expected {
            ensure(
                bench.backend.read(lineage, name).await? == name.to_string(),
                "an object reads back otherwise",
            )?;
        }
    }
    Ok(())
}

/// One stack's objects aren't another's.
pub async fn objects_of_stacks_are_apart(bench: &Bench<'_>) -> Verdict {
    let (one, other) = (bench.stack().await?, bench.stack().await?);
    let held = bench.acquire(one, "anna").await?;
    let name = snapshot(0, b"x");
    held.writer.create(&name, Bytes::from_static(b"x")).await?;
    ensure_fails(
        bench.backend.read(other, &name).await,
        ErrorKind::NotFound,
        "the object of another stack",
    )
}
