//! Rules of objects: created once, never replaced.

use super::{Bench, Verdict, ensure, ensure_fails};
use crate::backend::{ObjectKind, ObjectName};
use crate::counter::{Serial, Slot};
use crate::digest::{Digest, KeyId};
use crate::error::ErrorKind;
use bytes::Bytes;

/// Returns the name of a snapshot with this content, without storing it.
fn snapshot(slot: u64, content: &[u8]) -> ObjectName {
    ObjectName::Snapshot {
        slot: Slot(slot),
        short: Digest::of(content).short(),
    }
}

/// Creating the same bytes again succeeds, because the first answer may have been lost. Creating other bytes fails.
pub async fn objects_are_created_once(bench: &Bench<'_>) -> Verdict {
    let lineage = bench.stack().await?;
    let held = bench.acquire(lineage, "anna").await?;
    let name = snapshot(3, b"one");
    let bytes = Bytes::from_static(b"one\0\xFF");
    for _ in 0..2 {
        held.writer.create(&name, bytes.clone()).await?;
        ensure(
            bench.backend.read(lineage, &name).await? == bytes,
            "the stored object differs from the written one",
        )?;
    }
    ensure_fails(
        held.writer.create(&name, Bytes::from_static(b"two")).await,
        ErrorKind::Conflict,
        "creating an object with other bytes",
    )?;
    ensure(
        bench.backend.read(lineage, &name).await? == bytes,
        "a refused object had an effect",
    )?;
    let empty = snapshot(4, b"");
    held.writer.create(&empty, Bytes::new()).await?;
    ensure(
        bench.backend.read(lineage, &empty).await?.is_empty(),
        "the stored empty object is not empty",
    )
}

/// A list contains all objects of one kind, sorted by slot or serial.
pub async fn objects_are_listed_by_kind_in_order(bench: &Bench<'_>) -> Verdict {
    let lineage = bench.stack().await?;
    let held = bench.acquire(lineage, "anna").await?;
    let mut created = Vec::new();
    for number in [10, 9, 100, 0, u64::MAX] {
        let digest = Digest::of(&number.to_be_bytes());
        let key = std::array::from_fn(|at| digest.as_bytes()[at]);
        created.push(snapshot(number, &number.to_be_bytes()));
        created.push(ObjectName::HistoryPage {
            first: Serial(number),
            short: digest.short(),
        });
        created.push(ObjectName::Log(Serial(number)));
        created.push(ObjectName::Outputs(Serial(number)));
        created.extend(KeyId::from_bytes(key).map(|id| ObjectName::Key { number, id }));
    }
    for name in &created {
        held.writer.create(name, Bytes::from(name.to_string())).await?;
    }
    created.sort();
    for kind in ObjectKind::ALL {
        let expected: Vec<_> = created
            .iter()
            .filter(|name| name.kind() == kind)
            .cloned()
            .collect();
        ensure(
            bench.backend.list(lineage, kind).await? == expected,
            &format!("the list of {} is incomplete or not sorted", kind.folder()),
        )?;
        for name in &expected {
            ensure(
                bench.backend.read(lineage, name).await? == name.to_string(),
                "the stored object differs from the written one",
            )?;
        }
    }
    Ok(())
}

/// An object belongs to one stack only.
pub async fn objects_belong_to_one_stack(bench: &Bench<'_>) -> Verdict {
    let (one, other) = (bench.stack().await?, bench.stack().await?);
    let held = bench.acquire(one, "anna").await?;
    let name = snapshot(0, b"x");
    held.writer.create(&name, Bytes::from_static(b"x")).await?;
    ensure_fails(
        bench.backend.read(other, &name).await,
        ErrorKind::NotFound,
        "reading an object of another stack",
    )
}
