//! Runs every command of a user while an attacker forges objects of the store. Each forgery of the catalogue in
//! `state_core::testkit::hostile` is placed before each request that can notice it, alone and in random pairs. The
//! stores are files and objects. A client with memory has known stacks (pins of what it saw), a client without memory
//! has none. The tests in `damaged` need no attacker: they damage each object of small stores in every way.

mod checks;
mod client;
mod commands;
mod damaged;
mod disk;
mod excuses;
mod found;
mod imports;
mod keys;
mod moves;
mod oracle;
mod queries;
mod scenario;
mod sealing;
mod signed;
mod tally;
mod updates;
mod written;

use commands::Command;
use disk::Kind;
use oracle::Oracle;
use scenario::{Scenario, environment};
use state_core::Entropy;
use state_core::testkit::clock::SeededEntropy;
use state_core::testkit::hostile::forgeries::choose;
use state_core::testkit::hostile::schedule::{pair, plan, singles};
use state_core::testkit::hostile::{CatalogueEntry, Intervention, Request, StoredKind};
use state_core::testkit::run;
use std::collections::BTreeMap;
use std::sync::OnceLock;
use tally::Tally;

/// Number of random pairs in one run of the test; `STATE_TEST_SCALE` multiplies it,
/// `STATE_TEST_PAIRS` replaces it. On a slow machine with two cores, 3,000 pairs take 40 seconds.
const PAIRS: u32 = 12_000;

/// A run tries one of this many parts of the single forgeries; the seed decides which. It is a prime: with a divisor of the
/// number of forgeries, every request would get the same few forgeries.
const STRIDE: usize = 37;

/// The store, the oracle and the honest requests that all schedules on one kind of backend use.
struct Bench {
    scenario: Scenario,
    oracle: Oracle,
    /// The requests of an honest run, by command and whether the client has a memory.
    requests: BTreeMap<(Command, bool), Vec<Request>>,
}

impl Bench {
    fn set_up(kind: Kind) -> Self {
        block_on(async {
            let scenario = Scenario::build(kind).await.expect("the scenario is built");
            let oracle = Oracle::learn(&scenario).await.expect("honest runs succeed");
            let mut requests = BTreeMap::new();
            for command in Command::ALL {
                for remembers in [false, true] {
                    let run = scenario
                        .run(scenario.before(command), command, Vec::new(), remembers)
                        .await;
                    let broken = oracle.judge(&scenario, command, remembers, &run).await;
                    assert_eq!(broken, [""; 0], "{kind:?}, {command:?}: an honest run");
                    run.answer
                        .unwrap_or_else(|error| panic!("{kind:?}, {command:?}: {error}"));
                    requests.insert((command, remembers), run.requests);
                }
            }
            Self {
                scenario,
                oracle,
                requests,
            }
        })
    }

    /// Runs one schedule. Returns whether the attacker changed the store, and the rules that were broken.
    async fn attempt(
        &self,
        command: Command,
        remembers: bool,
        plan: Vec<Intervention>,
    ) -> (bool, Vec<String>) {
        let before = self.scenario.before(command);
        let run = self.scenario.run(before, command, plan, remembers).await;
        if run.edits == 0 {
            return (false, Vec::new());
        }
        (
            true,
            self.oracle.judge(&self.scenario, command, remembers, &run).await,
        )
    }
}

/// Runs a future on this thread alone, so that equal schedules send equal requests.
fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime starts").block_on(future)
}

/// Describes the forgeries of a pair. The objects are those that an honest run requests at the same moments.
fn described(pair: &[(usize, u64)], requests: &[Request], catalogue: &[CatalogueEntry]) -> String {
    let one = |(at, choice): &(usize, u64)| {
        let Request { verb, object } = &requests[*at];
        let chosen = choose(catalogue, *choice, object).map_or("nothing", |entry| entry.name.as_str());
        format!("{chosen} at {at} ({verb:?} {object})")
    };
    pair.iter().map(one).collect::<Vec<_>>().join(" and ")
}

/// The number of pairs to run: `STATE_TEST_PAIRS`, or else [`PAIRS`] scaled.
fn pairs() -> usize {
    let given = std::env::var("STATE_TEST_PAIRS").ok();
    let given = given.and_then(|text| text.parse().ok());
    given.unwrap_or(run::scaled(PAIRS) as usize)
}

/// The seed of the first pair.
fn first_seed() -> u64 {
    let seed = std::env::var("STATE_TESTS_SEED").ok();
    seed.and_then(|text| text.parse().ok()).unwrap_or(15)
}

/// One bench for each kind of backend, set up once for all tests of this process.
fn benches() -> &'static [Bench; 2] {
    static BENCHES: OnceLock<[Bench; 2]> = OnceLock::new();
    BENCHES.get_or_init(|| [Bench::set_up(Kind::Files), Bench::set_up(Kind::Objects)])
}

#[test]
fn no_single_forgery_is_signed_shown_or_remembered() {
    let benches = benches();
    let part = usize::try_from(first_seed()).unwrap_or(0) % STRIDE;
    let (mut schedules, mut all) = (Vec::new(), 0);
    for bench in benches {
        let catalogue = &bench.scenario.catalogue;
        for ((command, remembers), requests) in &bench.requests {
            let singles = singles(requests, catalogue);
            all += singles.len();
            // Two runs needn't have equally many requests, so that a part is chosen by request and forgery.
            let is_chosen =
                |(at, forgery): &(usize, usize)| (at * catalogue.len() + forgery) % STRIDE == part;
            let chosen = singles.into_iter().filter(is_chosen);
            schedules.extend(chosen.map(|(at, forgery)| (bench, *command, *remembers, at, forgery)));
        }
    }
    eprintln!("{} of {all} single forgeries, part {part}", schedules.len());
    let clock = environment().clock;
    let tally = Tally::default();
    tally.run(schedules.len(), async |number| {
        let (bench, command, remembers, at, forgery) = schedules[number];
        let chosen = &bench.scenario.catalogue[forgery];
        let object = bench.requests[&(command, remembers)][at].object.clone();
        let context = format!(
            "{:?}, {command:?}, memory: {remembers}, {:?} {} (row {forgery}) at {at} on {object}",
            bench.scenario.kind, chosen.kind, chosen.name
        );
        let plan = vec![Intervention::on_request(at, chosen.action.clone())];
        let (is_effective, broken) = bench.attempt(command, remembers, plan).await;
        (is_effective, broken, context)
    });
    tally.report("single forgeries", schedules.len(), &*clock);
}

#[test]
fn no_pair_of_forgeries_is_signed_shown_or_remembered() {
    let benches = benches();
    let (first, count) = (first_seed(), pairs());
    let clock = environment().clock;
    let tally = Tally::default();
    tally.run(count, async |number| {
        let seed = first + number as u64;
        let bits = SeededEntropy::new(seed).bits();
        let bench = &benches[usize::from(bits[0]) % benches.len()];
        let remembers = bits[1].is_multiple_of(2);
        // Of two random commands, the one with fewer requests is run: in a short run, two random forgeries are more
        // likely to hit requests of the same check.
        let drawn = [bits[2], bits[3]].map(|bits| Command::ALL[usize::from(bits) % Command::ALL.len()]);
        let requests = |command: &Command| &bench.requests[&(*command, remembers)];
        let command = drawn.into_iter().min_by_key(|command| requests(command).len());
        let command = command.unwrap_or(Command::Read);
        let requests = requests(&command);
        let pair = pair(seed, requests);
        let plan = plan(&pair, &bench.scenario.catalogue);
        let context = format!(
            "seed {seed}, {:?}, {command:?}, memory: {remembers}, {}",
            bench.scenario.kind,
            described(&pair, requests, &bench.scenario.catalogue)
        );
        let (is_effective, broken) = bench.attempt(command, remembers, plan).await;
        (is_effective, broken, context)
    });
    eprintln!("replay with STATE_TESTS_SEED={first}");
    tally.report("pairs of forgeries", count, &*clock);
}

/// Whether a forgery can't change anything: `format` and `meta.json` contain no epoch and never change, `format` is the
/// only object in its folder, and the folder of a name doesn't depend on the stack.
fn is_always_without_effect(kind: StoredKind, name: &str) -> bool {
    let is_constant = name == "a later epoch" || name.starts_with("object of stage");
    match kind {
        StoredKind::Format => is_constant || ["neighbour", "object of another stack"].contains(&name),
        StoredKind::Meta => is_constant,
        StoredKind::Name => name == "object of another stack",
        _ => false,
    }
}

/// A forgery that never changes anything would prove nothing.
#[test]
fn every_forgery_changes_an_object_in_some_run() {
    // A prime number larger than the number of attempts: its multiples reach every attempt, in an order in which the
    // commands alternate. Some forgeries have an effect only within one command.
    const STEP: usize = 1_000_003;
    let benches = benches();
    // The forgeries of one kind of object are the same for both benches.
    let rows = &benches[0].scenario.catalogue;
    let mut wrong: Vec<String> = Vec::new();
    for (row, CatalogueEntry { kind, name, .. }) in rows.iter().enumerate() {
        let mut attempts = Vec::new();
        for bench in benches {
            for (key, requests) in &bench.requests {
                let moments = requests.iter().enumerate();
                let of_kind = moments.filter(|(_, request)| StoredKind::of(&request.object) == Some(*kind));
                attempts.extend(of_kind.map(|(at, _)| (bench, key, at)));
            }
        }
        let order = (0..attempts.len()).map(|number| number * STEP % attempts.len());
        let is_used = { order }.any(|number| {
            let (bench, (command, remembers), at) = attempts[number];
            let action = bench.scenario.catalogue[row].action.clone();
            let plan = vec![Intervention::on_request(at, action)];
            let before = bench.scenario.before(*command);
            let run = block_on(bench.scenario.run(before, *command, plan, *remembers));
            // A run under load can send more requests than the honest run, and then forges an object of another kind.
            let request = run.requests.get(at);
            run.edits > 0 && request.is_some_and(|request| StoredKind::of(&request.object) == Some(*kind))
        });
        if is_used == is_always_without_effect(*kind, name) {
            wrong.push(format!("{kind:?} {name} (row {row}): {is_used}"));
        }
    }
    assert_eq!(wrong, [""; 0], "forgeries, and whether they change an object");
}
