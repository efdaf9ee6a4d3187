//! Damages each object of small complete stores in every way: each bit flipped, each cut, and the object missing. The
//! stores are plain and sealed, of files and of objects, with a closed and with an open journal.
//!
//! Clients then read the store, write an update, and read again. Each answer must equal the answer on the intact store, or
//! be an error that names the damaged object. `excuses.rs` lists the damage that a client can't notice.

mod answers;
mod excuses;
mod harm;
mod judge;
mod specimen;

use crate::disk::Kind;
use crate::tally::Tally;
use crate::{block_on, first_seed};
use futures_util::FutureExt;
use harm::Harm;
use judge::{Judgement, judge};
use specimen::{Client, Specimen};
use state_core::testkit::hostile::StoredKind;
use state_core::testkit::run;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::AssertUnwindSafe;
use std::sync::{Mutex, OnceLock, PoisonError};

/// CI tries one of this many flipped bits, and one of this many cuts; `STATE_TEST_SCALE` divides the number. It is a prime:
/// a divisor of the number of bits in a byte would flip the same bit of each byte.
const STRIDE: usize = 1009;

/// The damage of one object of a store, and the client that then uses the store.
#[derive(Clone, Copy)]
struct Damage {
    specimen: &'static Specimen,
    client: Client,
    /// The number of the object.
    object: usize,
    harm: Harm,
}

impl Damage {
    /// Returns the judgement. A panic of the client is a broken rule.
    async fn judged(&self) -> Judgement {
        let damage = (self.object, self.harm);
        let observed = self.specimen.observe(self.client, Some(damage));
        match AssertUnwindSafe(observed).catch_unwind().await {
            Ok(seen) => judge(self.specimen, self.client, damage, &seen),
            Err(_) => Judgement {
                broken: vec!["the client panicked".to_owned()],
                ..Judgement::default()
            },
        }
    }

    fn path(&self) -> &'static str {
        &self.specimen.objects[self.object].0
    }

    /// The kind of the object; `None` for the reserve of space.
    fn kind(&self) -> Option<StoredKind> {
        StoredKind::of(self.path())
    }

    fn is_of_journal(&self) -> bool {
        self.kind() == Some(StoredKind::Journal)
    }

    fn describe(&self) -> String {
        let Specimen {
            kind,
            is_sealed,
            is_crashed,
            ..
        } = self.specimen;
        let stack = if *is_sealed { "sealed" } else { "plain" };
        let journal = if *is_crashed { "open" } else { "closed" };
        let (path, harm) = (self.path(), self.harm);
        format!(
            "{kind:?}, {stack}, {journal} journal, {:?} client: {path} {harm}",
            self.client
        )
    }
}

/// All stores, built once for all tests of this process.
fn specimens() -> &'static [Specimen] {
    static SPECIMENS: OnceLock<Vec<Specimen>> = OnceLock::new();
    SPECIMENS.get_or_init(|| {
        let kinds = [Kind::Files, Kind::Objects].into_iter();
        let all = kinds.flat_map(|kind| [(kind, false), (kind, true)]);
        let built = all.flat_map(|(kind, is_sealed)| {
            block_on(Specimen::build(kind, is_sealed)).expect("the store is built")
        });
        built.collect()
    })
}

/// The damages of all objects of all stores, for each client.
fn damages<I: Iterator<Item = Harm>>(harms: impl Fn(usize) -> I) -> Vec<Damage> {
    let mut damages = Vec::new();
    for specimen in specimens() {
        for (object, (_, bytes)) in specimen.objects.iter().enumerate() {
            for client in specimen.clients() {
                damages.extend(harms(bytes.len()).map(|harm| Damage {
                    specimen,
                    client,
                    object,
                    harm,
                }));
            }
        }
    }
    damages
}

/// Every `STRIDE`-th damage. The seed decides which is the first one. The nightly CI takes all of them.
fn sample(damages: Vec<Damage>) -> Vec<Damage> {
    let stride = (STRIDE / run::scaled(1) as usize).max(1);
    let offset = usize::try_from(first_seed()).unwrap_or(0) % stride;
    damages.into_iter().skip(offset).step_by(stride).collect()
}

#[expect(
    clippy::print_stderr,
    reason = "the counts of a randomized test must be visible"
)]
/// Tries damages and prints the counts by kind of object. Fails if a rule is broken.
fn assert_noticed_or_harmless(what: &str, damages: &[Damage]) {
    // By kind: number of damages, of those that an error named, and of those that an excuse covers.
    let counts: Mutex<BTreeMap<String, [usize; 3]>> = Mutex::default();
    let tally = Tally::default();
    tally.run(damages.len(), async |number| {
        let damage = &damages[number];
        let judged = damage.judged().await;
        let kind = damage
            .kind()
            .map_or("reserve".to_owned(), |kind| format!("{kind:?}"));
        let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
        let [tried, noticed, excused] = counts.entry(kind).or_default();
        *tried += 1;
        *noticed += usize::from(judged.is_noticed);
        *excused += usize::from(!judged.excuses.is_empty());
        // One damage can break the same rule in many answers.
        let broken = judged.broken.into_iter().take(2).collect();
        (judged.is_noticed, broken, damage.describe())
    });
    let counts = counts.into_inner().unwrap_or_else(PoisonError::into_inner);
    for (kind, [tried, noticed, excused]) in counts {
        eprintln!("{what}, {kind}: {tried} tried, {noticed} named in an error, {excused} excused");
    }
    eprintln!("replay with STATE_TESTS_SEED={}", first_seed());
    tally.assert_no_failure();
}

#[test]
fn flipped_bit_is_named_or_changes_nothing() {
    assert_noticed_or_harmless("flipped bits", &sample(damages(Harm::flips)));
}

#[test]
fn cut_object_is_named_or_changes_nothing() {
    assert_noticed_or_harmless("cuts", &sample(damages(Harm::cuts)));
}

#[test]
fn missing_object_is_named_or_changes_nothing() {
    assert_noticed_or_harmless("missing objects", &damages(|_| [Harm::Missing].into_iter()));
}

/// Tries damages one after the other until `is_enough` says that the judgements suffice.
fn judge_until(damages: &[Damage], mut is_enough: impl FnMut(&Damage, &Judgement) -> bool) {
    block_on(async {
        for damage in damages {
            if is_enough(damage, &damage.judged().await) {
                break;
            }
        }
    });
}

/// An excuse that no damage needs could hide a defect.
#[test]
fn every_excuse_is_needed() {
    // Most excuses are about missing objects. Steps of a prime number reach each frame of a journal, and each of its tags.
    let mut damages = damages(|_| [Harm::Missing].into_iter());
    let cuts = self::damages(|length| Harm::cuts(length).step_by(61)).into_iter();
    damages.extend(cuts.filter(|damage| damage.is_of_journal() && damage.specimen.is_crashed));
    let flips = self::damages(|length| Harm::flips(length).step_by(61)).into_iter();
    damages.extend(flips.filter(|damage| damage.is_of_journal() && damage.specimen.is_sealed));
    let mut unused: BTreeSet<usize> = (0..excuses::ALL.len()).collect();
    judge_until(&damages, |_, judged| {
        unused.retain(|excuse| !judged.excuses.contains(excuse));
        unused.is_empty()
    });
    let reasons: Vec<&str> = unused
        .into_iter()
        .map(|excuse| excuses::ALL[excuse].reason)
        .collect();
    assert_eq!(reasons, [""; 0], "excuses that nothing needs");
}

/// If no damage of an object is noticed, the other tests prove nothing about the object.
#[test]
fn damage_of_each_object_is_noticed_unless_it_is_harmless() {
    let mut wrong = Vec::new();
    for specimen in specimens() {
        for (object, (path, bytes)) in specimen.objects.iter().enumerate() {
            let flips = Harm::flips(bytes.len()).step_by(bytes.len().max(7) / 7 * 8 + 1);
            let harms = flips.chain([Harm::Missing]);
            let damages: Vec<Damage> = harms
                .map(|harm| Damage {
                    specimen,
                    client: Client::New,
                    object,
                    harm,
                })
                .collect();
            let mut is_noticed = false;
            judge_until(&damages, |_, judged| {
                is_noticed |= judged.is_noticed;
                is_noticed
            });
            if !is_noticed && excuses::harmless(path).is_none() {
                wrong.push(damages[0].describe());
            }
        }
    }
    let wrong = wrong.join("\n");
    assert_eq!(wrong, "", "objects whose damage isn't noticed:\n{wrong}");
}

/// The stores have objects of each kind that their backend and policy can have.
#[test]
fn damaged_stores_have_objects_of_all_kinds() {
    for specimen in specimens().iter().filter(|specimen| !specimen.is_crashed) {
        let kinds: BTreeSet<StoredKind> = specimen.kinds().collect();
        let of_sealed = [StoredKind::Key, StoredKind::Outputs];
        let expected = StoredKind::ALL.into_iter();
        let expected = expected.filter(|kind| specimen.is_sealed || !of_sealed.contains(kind));
        assert_eq!(kinds, expected.collect());
    }
}
