//! Compares verification, topological orders and merges with std and petgraph:
//! `cargo bench -p state-core --bench graph -- [ENTRIES]`.
//!
//! All contestants start from the same entries, which were decoded from the stored form of a state: 1,000,000 entries
//! with addresses of about 45 bytes, each with up to 3 dependencies: two of the same module, and one anywhere before it. Every time includes the map from
//! addresses to entries. Every round has another state, and the order of the contestants changes from round to round.
//! The results are CPU time per entry and ratios within a round: medians, with their range over the rounds.
//!
//! `Ours` checks every integrity rule, reports all violations, and breaks ties in the order by key. The contestants only
//! do what the name says: they find one violated reference, or any topological order.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark that prints its results"
)]

use petgraph::algo::toposort;
use petgraph::graph::{DiGraph, NodeIndex};
use rustix::time::{ClockId, clock_gettime};
use state_core::codec;
use state_core::testkit::clock::SeededEntropy;
use state_core::{
    Address, Dependency, Entropy, Entry, EntryKey, FactoryInfo, SharedEntry, Snapshot, Timestamp, Uid, dag,
    merge, verify,
};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::hint::black_box;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

/// The number of entries, unless the command line contains another one.
const ENTRIES: usize = 1_000_000;
const ROUNDS: u64 = 5;
/// The number of entries in a module.
const MODULE: usize = 500;

/// A contestant: its name, and the code to measure. Returns a number that must be the same for all contestants of a
/// discipline.
type Contestant<'s> = (&'static str, Box<dyn Fn() -> usize + 's>);

fn main() {
    let entries = std::env::args()
        .find_map(|word| word.parse().ok())
        .unwrap_or(ENTRIES);
    let mut times = BTreeMap::<&str, BTreeMap<&str, Vec<f64>>>::new();
    let mut rounds = 0;
    for round in 0..ROUNDS {
        let random = Random::new(round);
        let ordered = decoded(listed(&random, entries));
        let shuffled = {
            let mut list = ordered.entries.clone();
            random.shuffle(&mut list);
            decoded(list)
        };
        let update = Update::new(&random, &ordered.entries);
        for (discipline, contestants) in disciplines(&ordered, &shuffled, &update) {
            let count = contestants.len();
            let mut expected = None;
            for turn in 0..count {
                let (name, act) = &contestants[(turn + round as usize) % count];
                let mut result = 0;
                let time = cpu(|| result = black_box(act()));
                assert_eq!(*expected.get_or_insert(result), result, "{discipline}: {name}");
                let times = times.entry(discipline).or_default().entry(name).or_default();
                times.push(time.as_secs_f64() * 1e9 / entries as f64);
            }
        }
        rounds += 1;
    }
    println!("{entries} entries, {rounds} rounds, ns of CPU per entry and times the CPU time of ours:");
    for (discipline, times) in &times {
        println!("  {discipline}");
        let ours = &times["ours"];
        for (name, theirs) in times {
            let ratios = theirs.iter().zip(ours).map(|(theirs, ours)| theirs / ours);
            let ratio = summary(ratios.collect(), 2);
            println!("    {name}: {} ns, {ratio} x", summary(theirs.clone(), 0));
        }
    }
}

/// The median of the values, and their range.
fn summary(mut values: Vec<f64>, digits: usize) -> String {
    values.sort_by(f64::total_cmp);
    let [low, middle, high] = [0, values.len() / 2, values.len() - 1].map(|at| values[at]);
    format!("{middle:.digits$} ({low:.digits$} to {high:.digits$})")
}

fn cpu(act: impl FnOnce()) -> Duration {
    let now = || {
        let time = clock_gettime(ClockId::ProcessCPUTime);
        Duration::new(time.tv_sec.try_into().unwrap(), time.tv_nsec.try_into().unwrap())
    };
    let before = now();
    act();
    now() - before
}

fn disciplines<'s>(
    ordered: &'s Snapshot,
    shuffled: &'s Snapshot,
    update: &'s Update,
) -> Vec<(&'static str, Vec<Contestant<'s>>)> {
    let list = &ordered.entries;
    let mixed = &shuffled.entries;
    vec![
        (
            "verify",
            vec![
                ("ours", Box::new(|| verify::verify(ordered).violations.len())),
                ("std, order alone", Box::new(|| std_late(list))),
            ],
        ),
        (
            "order",
            vec![
                (
                    "ours, by key",
                    Box::new(|| dag::topological_order(list).unwrap().len()),
                ),
                ("ours", Box::new(|| dag::stable_order(list).unwrap().len())),
                ("std", Box::new(|| std_order(list))),
                ("petgraph", Box::new(|| petgraph_order(list))),
            ],
        ),
        (
            "order, shuffled",
            vec![
                (
                    "ours, by key",
                    Box::new(|| dag::topological_order(mixed).unwrap().len()),
                ),
                ("ours", Box::new(|| dag::stable_order(mixed).unwrap().len())),
                ("std", Box::new(|| std_order(mixed))),
                ("petgraph", Box::new(|| petgraph_order(mixed))),
            ],
        ),
        (
            "merge, all recorded",
            vec![
                (
                    "ours",
                    Box::new(|| merge::merge(list, &update.all, &update.all_keys).len()),
                ),
                ("std", Box::new(|| std_merge(list, &update.all))),
            ],
        ),
        (
            "merge, a tenth recorded",
            vec![
                (
                    "ours",
                    Box::new(|| merge::merge(list, &update.tenth, &update.tenth_keys).len()),
                ),
                ("std", Box::new(|| std_merge(list, &update.tenth))),
            ],
        ),
    ]
}

/// The number of references that no earlier entry satisfies.
fn std_late(entries: &[SharedEntry]) -> usize {
    let mut first: HashMap<&str, usize> = HashMap::with_capacity(entries.len());
    for (at, entry) in entries.iter().enumerate() {
        first.entry(entry.address.as_str()).or_insert(at);
    }
    let late = |at: usize, to: &Dependency| first.get(to.address().as_str()).is_none_or(|first| *first >= at);
    let entries = entries.iter().enumerate();
    entries
        .map(|(at, entry)| entry.depends_on.iter().filter(|to| late(at, to)).count())
        .sum()
}

/// Kahn's algorithm on maps of texts.
fn std_order(entries: &[SharedEntry]) -> usize {
    let mut unmet: HashMap<&str, usize> = HashMap::with_capacity(entries.len());
    let mut dependents: HashMap<&str, Vec<&str>> = HashMap::with_capacity(entries.len());
    for entry in entries {
        let address = entry.address.as_str();
        unmet.insert(address, entry.depends_on.len());
        for to in &entry.depends_on {
            dependents.entry(to.address().as_str()).or_default().push(address);
        }
    }
    let ready = entries.iter().filter(|entry| entry.depends_on.is_empty());
    let mut ready: VecDeque<&str> = ready.map(|entry| entry.address.as_str()).collect();
    let mut order = Vec::with_capacity(entries.len());
    while let Some(address) = ready.pop_front() {
        order.push(address);
        for dependent in dependents.get(address).into_iter().flatten() {
            let unmet = unmet.get_mut(dependent).unwrap();
            *unmet -= 1;
            if *unmet == 0 {
                ready.push_back(dependent);
            }
        }
    }
    black_box(&order).len()
}

fn petgraph_order(entries: &[SharedEntry]) -> usize {
    let edges = entries.iter().map(|entry| entry.depends_on.len()).sum();
    let mut graph: DiGraph<usize, ()> = DiGraph::with_capacity(entries.len(), edges);
    let mut nodes: HashMap<&str, NodeIndex> = HashMap::with_capacity(entries.len());
    for (at, entry) in entries.iter().enumerate() {
        nodes.insert(entry.address.as_str(), graph.add_node(at));
    }
    for (at, entry) in entries.iter().enumerate() {
        for to in &entry.depends_on {
            graph.add_edge(nodes[to.address().as_str()], NodeIndex::new(at), ());
        }
    }
    let order = toposort(&graph, None).unwrap();
    order.iter().map(|node| graph[*node]).collect::<Vec<_>>().len()
}

/// The recorded entries, then the entries of the base whose keys were not recorded.
fn std_merge(base: &[SharedEntry], new: &[SharedEntry]) -> usize {
    let mut done: HashSet<(&str, Option<&str>)> = HashSet::with_capacity(new.len());
    done.extend(new.iter().map(|entry| key(entry)));
    let left = base.iter().filter(|entry| !done.contains(&key(entry)));
    let merged: Vec<SharedEntry> = new.iter().chain(left).cloned().collect();
    merged.len()
}

fn key(entry: &Entry) -> (&str, Option<&str>) {
    (
        entry.address.as_str(),
        entry.deposed.as_ref().map(|key| key.as_str()),
    )
}

/// The entries that two updates have recorded, and their keys.
struct Update {
    all: Vec<SharedEntry>,
    all_keys: BTreeSet<EntryKey>,
    tenth: Vec<SharedEntry>,
    tenth_keys: BTreeSet<EntryKey>,
}

impl Update {
    fn new(random: &Random, base: &[SharedEntry]) -> Self {
        let keys = |entries: &[SharedEntry]| entries.iter().map(|entry| entry.key()).collect();
        let again = |entry: &SharedEntry| Arc::new(Entry::clone(entry));
        let all: Vec<_> = base.iter().map(again).collect();
        let tenth: Vec<_> = base.iter().filter(|_| random.below(10) == 0).map(again).collect();
        Self {
            all_keys: keys(&all),
            all,
            tenth_keys: keys(&tenth),
            tenth,
        }
    }
}

/// Pseudorandom numbers that depend on a seed only.
struct Random(SeededEntropy);

impl Random {
    fn new(seed: u64) -> Self {
        Self(SeededEntropy::new(seed))
    }

    fn below(&self, limit: usize) -> usize {
        (u128::from_le_bytes(self.0.bits()) % limit as u128) as usize
    }

    fn shuffle<T>(&self, list: &mut [T]) {
        for at in (1..list.len()).rev() {
            list.swap(at, self.below(at + 1));
        }
    }
}

/// Entries in topological order.
fn listed(random: &Random, count: usize) -> Vec<SharedEntry> {
    let addresses: Vec<Address> = (0..count)
        .map(|at| Address::new(format!("module.service[{}].aws_instance.node[{at}]", at / MODULE)).unwrap())
        .collect();
    let entry = |at: usize| {
        let mut entry = Entry::leaf(addresses[at].clone(), "aws_instance");
        entry.uid = Some(Uid::from_bits(random.0.bits()));
        entry.id = Some(format!("i-{at:017x}"));
        let near = |_| at - 1 - random.below(at.min(MODULE));
        let targets: BTreeSet<usize> = (0..2.min(at))
            .map(near)
            .chain((at > 2).then(|| random.below(at)))
            .collect();
        let targets = targets.into_iter().map(|to| addresses[to].clone());
        entry.depends_on = targets.map(Dependency::Entry).collect();
        Arc::new(entry)
    };
    (0..count).map(entry).collect()
}

/// A snapshot with these entries, as it is read from its stored form.
fn decoded(entries: Vec<SharedEntry>) -> Snapshot {
    let time = Timestamp::new("2026-05-30T12:00:00Z");
    let mut snapshot = Snapshot::new(FactoryInfo::default(), "shop", time);
    snapshot.entries = entries;
    let bytes = codec::encode_stored(&snapshot);
    drop(snapshot);
    let mut blocks = [&*bytes].into_iter();
    let next = |buffer: &mut Vec<u8>| {
        let block = blocks.next();
        buffer.clear();
        buffer.extend_from_slice(block.unwrap_or_default());
        Ok(block.is_some())
    };
    codec::decode_stored("snapshot", NonZeroUsize::MIN, next).unwrap()
}
