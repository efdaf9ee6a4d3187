//! Rules of name pointers: the documents that map the name of a stack to its lineage.

use super::{Bench, Verdict, ensure, ensure_fails};
use crate::backend::{NamePointer, NameTarget};
use crate::error::{ErrorKind, Result};
use crate::id::Lineage;
use crate::name::StackName;

/// Returns a pointer from a name to a new lineage, without storing it.
fn pointer(bench: &Bench<'_>, name: &str) -> Result<NamePointer> {
    Ok(NamePointer::new(
        name.parse()?,
        NameTarget::Lineage(Lineage::random(bench.entropy)),
        bench.nonce(),
    ))
}

/// A swap must name the nonce of the current pointer, or `None` for an unused name.
pub async fn name_swap_requires_the_expected_nonce(bench: &Bench<'_>) -> Verdict {
    let store = bench.backend;
    let (first, second) = (pointer(bench, "shop/prod")?, pointer(bench, "shop/prod")?);
    let name = first.name.clone();
    ensure(
        store.read_name(&name).await?.is_none(),
        "an unused name has a pointer",
    )?;
    ensure_fails(
        store.swap_name(&name, Some(bench.nonce()), &first).await,
        ErrorKind::Conflict,
        "swapping a pointer that doesn't exist",
    )?;
    store.swap_name(&name, None, &first).await?;
    ensure(
        store.read_name(&name).await? == Some(first.clone()),
        "the stored pointer differs from the written one",
    )?;
    for stale in [None, Some(bench.nonce())] {
        ensure_fails(
            store.swap_name(&name, stale, &second).await,
            ErrorKind::Conflict,
            "swapping a pointer with a wrong expected nonce",
        )?;
    }
    ensure(
        store.read_name(&name).await? == Some(first.clone()),
        "a refused swap had an effect",
    )?;
    store.swap_name(&name, Some(first.nonce), &second).await?;
    ensure(
        store.read_name(&name).await? == Some(second),
        "a swap had no effect",
    )
}

/// `Shop` and `shop` are the same name; the pointer keeps the spelling with which it was written.
pub async fn names_are_case_insensitive(bench: &Bench<'_>) -> Verdict {
    let store = bench.backend;
    let upper = pointer(bench, "Shop/Prod")?;
    store.swap_name(&upper.name, None, &upper).await?;
    let lower = pointer(bench, "shop/prod")?;
    ensure(
        store.read_name(&lower.name).await? == Some(upper.clone()),
        "a name in another case has another pointer",
    )?;
    ensure_fails(
        store.swap_name(&lower.name, None, &lower).await,
        ErrorKind::Conflict,
        "creating a name that is used in another case",
    )?;
    store.swap_name(&lower.name, Some(upper.nonce), &lower).await?;
    ensure(
        store.names().await? == [lower],
        "a name in two cases is listed twice, or with its old spelling",
    )
}

/// The list contains all pointers, sorted by name, including those of removed and renamed stacks.
pub async fn names_are_listed_sorted_with_tombstones(bench: &Bench<'_>) -> Verdict {
    let store = bench.backend;
    ensure(store.names().await?.is_empty(), "an empty store has names")?;
    let mut expected = Vec::new();
    for name in ["b/z", "a/z", "b/a", "b.c/d"] {
        let mut pointer = pointer(bench, name)?;
        if name == "b/a" {
            pointer.target = NameTarget::Removed(pointer.subject());
        }
        if name == "a/z" {
            pointer.target = NameTarget::MovedTo {
                lineage: pointer.subject(),
                name: StackName::new("b", "z")?,
            };
        }
        store.swap_name(&pointer.name, None, &pointer).await?;
        expected.push(pointer);
    }
    expected.sort_by(|left, right| left.name.cmp(&right.name));
    ensure(
        store.names().await? == expected,
        "the list of names is incomplete or not sorted",
    )
}
