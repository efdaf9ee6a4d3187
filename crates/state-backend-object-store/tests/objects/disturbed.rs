//! The contract of backends, rule by rule, on a store that fails under it: with patience no rule notices; without, what
//! a rule is told is true, and whoever comes next finds a whole stack.

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

/// No rule asks more often.
const REQUESTS: usize = 3_000;

type Verdicts = Vec<(&'static str, Verdict)>;

/// Runs all rules, each on a store of its own on which faults strike as they are drawn: one for each request, or none.
async fn judged(
    patience: Duration,
    mut draw: impl FnMut(usize) -> Option<StoreFault>,
    seed: u64,
) -> (Verdicts, Vec<FaultyStore>) {
    let draw = RefCell::new(&mut draw);
    let stores = RefCell::new(Vec::new());
    let open = async || {
        let store = faulty();
        let mut options = options();
        options.patience = patience;
        // Pauses and silence take hours here: no lease shall end meanwhile.
        options.lease = Duration::from_secs(60 * 60);
        options.renewal = Duration::from_secs(15 * 60);
        let backend = ObjectBackend::new(Arc::new(store.clone()), options, Opening::Create);
        // A first contact has no patience.
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

/// Their verdict is about a list: behind a store whose lists are old, which the contract rules out, it can't be kept.
const RULES_OF_LISTS: [&str; 5] = [
    "names_are_case_insensitive",
    "names_are_listed_sorted_with_tombstones",
    "objects_are_listed_by_kind_in_order",
    "collection_deletes_only_before_the_history_floor",
    "items_in_use_are_not_deleted",
];

#[tokio::test(start_paused = true)]
async fn with_patience_every_rule_is_kept_behind_each_fault() {
    let patience = Duration::from_secs(20 * 60);
    for fault in StoreFault::ALL {
        for every in [3, 4, 7] {
            for first in 0..every {
                let nth = |request: usize| (request % every == first).then_some(fault);
                let (mut verdicts, _) = judged(patience, nth, 1).await;
                if fault == StoreFault::StaleList {
                    verdicts.retain(|(rule, _)| !RULES_OF_LISTS.contains(rule));
                }
                let broken = verdicts.iter().find(|(_, verdict)| verdict.is_err());
                assert_eq!(broken, None, "{fault:?} at {first} of each {every} requests");
            }
        }
    }
}

/// It claims a longer journal than there is, on purpose.
const DAMAGES: &str = "journal_that_ends_before_its_watermark_is_corrupt";

/// How many mixtures of faults there are without patience.
const MIXTURES: u32 = 150;

#[tokio::test(start_paused = true)]
async fn without_patience_every_rule_is_kept_or_ends_with_an_honest_error() {
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

/// What may be said of a call that the store didn't answer well.
fn is_honest(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::Indeterminate | ErrorKind::NotApplied | ErrorKind::Unavailable | ErrorKind::Closed
    )
}

/// Looks up what became of it all, before and after what was under way has landed: each stack is whole, and whoever
/// comes next can take it over and write.
async fn settle(store: &FaultyStore, entropy: &SeededEntropy) {
    store.heal();
    let reader = backend(store);
    let before = whole(store, &reader).await;
    store.deliver().await;
    let after = whole(store, &reader).await;
    for (lineage, view) in &before {
        let now = after.iter().find(|(other, _)| other == lineage);
        let (_, now) = now.expect("a stack doesn't go");
        let is_longer = now.frames.starts_with(&view.frames) || now.head != view.head;
        assert!(is_longer, "what was shown stays");
    }
    let bench = Bench::new(&reader, entropy);
    for (lineage, view) in after.into_iter().filter(|(_, view)| !view.head.removed) {
        let seen = reader.lock_status(lineage).await.unwrap().epoch;
        let acquired = reader.acquire(lineage, &bench.request("next", Some(seen))).await;
        let next = acquired.unwrap();
        assert!(
            next.frames.starts_with(&view.frames),
            "the next owner has what was shown"
        );
        bench.append(&next, next.tail, b"\"next\"\n").await.unwrap();
    }
}

/// All stacks, as a reader finds them.
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
