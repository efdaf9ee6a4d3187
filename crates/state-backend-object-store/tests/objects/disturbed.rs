//! The conformance suite on a store that fails. With retries, every rule holds as if nothing failed; without retries,
//! every error is correct, and the next holder finds a complete stack.

use super::*;
use futures_util::TryStreamExt;
use object_store::ObjectStore;
use state_backend_object_store::testkit::StoreFault;
use state_core::backend::JournalView;
use state_core::backend::RemoteStore;
use state_core::testkit::conformance::{self, Bench, Verdict};
use state_core::testkit::run::scaled;
use state_core::{Backend, Entropy, ErrorKind, Lineage};
use std::cell::RefCell;
use std::time::Duration;

/// No rule makes more requests than this.
const REQUESTS: usize = 3_000;

type Verdicts = Vec<(&'static str, Verdict)>;

/// Runs all rules, each on a store of its own, with at most one drawn fault per request.
async fn judged(
    retry_timeout: Duration,
    mut draw: impl FnMut(usize) -> Option<StoreFault>,
    seed: u64,
) -> (Verdicts, Vec<FaultyStore>) {
    let draw = RefCell::new(&mut draw);
    let stores = RefCell::new(Vec::new());
    let open = async || {
        let store = faulty();
        let mut options = options();
        options.retry_timeout = retry_timeout;
        // Pauses and timeouts take hours here, and no lease may end in that time.
        options.lease = Duration::from_secs(60 * 60);
        options.renewal = Duration::from_secs(15 * 60);
        let backend = ObjectBackend::new(Arc::new(store.clone()), options, Opening::Create);
        // The first request to a store isn't retried for long, so it is made without faults.
        backend.ready().await.unwrap();
        let mut draw = draw.borrow_mut();
        for request in 0..REQUESTS {
            if let Some(fault) = draw(request) {
                store.fail(request, fault);
            }
        }
        stores.borrow_mut().push(store);
        backend
    };
    let verdicts = conformance::run_all(open, &SeededEntropy::new(seed)).await;
    (verdicts, stores.into_inner())
}

/// Rules about lists. These rules can't hold on a store with stale lists, which the contract excludes.
const RULES_OF_LISTS: [&str; 5] = [
    "names_are_case_insensitive",
    "names_are_listed_sorted_with_tombstones",
    "objects_are_listed_by_kind_in_order",
    "collection_deletes_only_before_the_history_floor",
    "items_in_use_are_not_deleted",
];

#[tokio::test(start_paused = true)]
async fn every_rule_holds_behind_each_fault_with_retries() {
    let retry_timeout = Duration::from_secs(20 * 60);
    for fault in StoreFault::ALL {
        for every in [3, 4, 7] {
            for first in 0..every {
                let nth = |request: usize| (request % every == first).then_some(fault);
                let (mut verdicts, _) = judged(retry_timeout, nth, 1).await;
                if fault == StoreFault::StaleList {
                    verdicts.retain(|(rule, _)| !RULES_OF_LISTS.contains(rule));
                }
                let broken = verdicts.iter().find(|(_, verdict)| verdict.is_err());
                assert_eq!(broken, None, "{fault:?} at {first} of each {every} requests");
            }
        }
    }
}

/// This rule claims a longer journal than exists, on purpose.
const DAMAGES: &str = "journal_that_ends_before_its_watermark_is_corrupt";

/// Number of random mixtures of faults without retries.
const MIXTURES: u32 = 150;

#[tokio::test(start_paused = true)]
async fn every_rule_holds_or_fails_honestly_without_retries() {
    let faults = StoreFault::ALL.map(|fault| (fault != StoreFault::StaleList).then_some(fault));
    let (mut kept, mut undecided) = (0, 0);
    for seed in 0..u64::from(scaled(MIXTURES)) {
        let dice = SeededEntropy::new(seed);
        let rarity = [2, 4, 12][seed as usize % 3];
        let mixed = |_| {
            let bits = dice.bits();
            let fault = faults[usize::from(bits[0]) % faults.len()];
            fault.filter(|_| bits[1].is_multiple_of(rarity))
        };
        let (verdicts, stores) = judged(Duration::from_millis(100), mixed, seed).await;
        for ((rule, verdict), store) in verdicts.into_iter().zip(stores) {
            match verdict {
                Ok(()) => kept += 1,
                Err(broken) => {
                    let honest = broken.error().is_some_and(is_honest);
                    assert!(honest, "{rule}, mixture {seed}: {broken}");
                    undecided += 1;
                }
            }
            if rule != DAMAGES {
                settle(&store, &dice).await;
            }
        }
    }
    assert!(
        kept > 1_000 && undecided > 1_000,
        "{kept} kept, {undecided} undecided"
    );
}

/// Errors that are honest after a fault of the store.
pub(crate) fn is_honest(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::Indeterminate | ErrorKind::NotApplied | ErrorKind::Unavailable | ErrorKind::Closed
    )
}

/// Inspects all stacks before and after delayed requests take effect: each stack is whole, and the next holder can
/// take it over and write.
async fn settle(store: &FaultyStore, entropy: &SeededEntropy) {
    store.heal();
    let reader = backend(store);
    let before = whole(store, &reader).await;
    store.deliver().await;
    let after = whole(store, &reader).await;
    for (lineage, view) in &before {
        let now = after.iter().find(|(other, _)| other == lineage);
        let (_, now) = now.expect("a stack never disappears");
        let is_longer = now.frames.starts_with(&view.frames) || now.head != view.head;
        assert!(is_longer, "frames that a reader saw stay");
    }
    let bench = Bench::new(&reader, entropy);
    for (lineage, view) in after.into_iter().filter(|(_, view)| !view.head.removed) {
        let seen = reader.lock_status(lineage).await.unwrap().epoch;
        let acquired = reader.acquire(lineage, &bench.request("next", Some(seen))).await;
        let next = acquired.unwrap();
        assert!(
            next.frames.starts_with(&view.frames),
            "the next owner reads the frames that a reader saw"
        );
        bench.append(&next, next.tail, b"\"next\"\n").await.unwrap();
    }
}

/// Returns all stacks, as a reader finds them.
async fn whole(store: &FaultyStore, reader: &ObjectBackend) -> Vec<(Lineage, JournalView)> {
    let listed: Vec<_> = store.list(None).try_collect().await.unwrap();
    let heads = listed
        .iter()
        .filter(|meta| meta.location.filename() == Some("head.json"));
    let mut stacks = Vec::new();
    for meta in heads {
        let folder = meta.location.parts().nth_back(1).unwrap();
        let lineage: Lineage = folder.as_ref().parse().unwrap();
        stacks.push((lineage, reader.read_journal(lineage, None).await.unwrap()));
    }
    stacks
}
