//! Compares loading a state with typed serde_json: `cargo bench -p state-core --features testkit --bench load`.
//!
//! Loads the stored form of a state with 100,000 entries from memory, once with 0.9 KB and once with 3 KB an entry. Ours
//! goes from uncompressed bytes to a verified state: digest, strict parsing, integrity rules, state. serde_json only parses
//! the same bytes into structs, on two rails that differ in the type of the properties and extensions:
//!
//! - `values`: `serde_json::Value`. This rail is the limit of "typed serde_json": a program that uses typed serde_json gets
//!   values whose syntax, strings and keys are checked and that it can read.
//! - `raw values`: `Box<RawValue>`. serde_json only finds the ends of these values and copies their text. It doesn't
//!   decode a string and accepts duplicate keys inside of them. This rail is shown as the upper bound of a lazy parser.
//!
//! Every round has other bytes, and the order of the four measurements changes from round to round. CPU time is that of the
//! whole process with all its threads. Nothing is dropped while the time is measured. Each figure is the median of the
//! rounds, with the range; a ratio is computed in each round. `heap` is the peak of the resident memory while a new process
//! loads one state, without the input.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark that prints its results and measures wall time"
)]

use rustix::time::{ClockId, clock_gettime};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;
use state_core::digest::{Digest, Digester};
use state_core::state::State;
use state_core::testkit::clock::SeededEntropy;
use state_core::testkit::stored::{Blocks, stored};
use state_core::{Lineage, Snapshot, codec, verify};
use std::collections::BTreeMap;
use std::fs::{read_to_string, write};
use std::hint::black_box;
use std::num::NonZeroUsize;
use std::process::Command;
use std::time::{Duration, Instant};

const ENTRIES: usize = 100_000;
const ROUNDS: usize = 9;
/// The argument with which the benchmark starts itself to measure the heap.
const HEAP: &str = "--heap";

fn main() {
    if let Some(words) = std::env::args().skip_while(|word| word != HEAP).nth(1) {
        print_heap(words.parse().unwrap());
        return;
    }
    for (name, words) in [("3 KB", 34), ("0.9 KB", 4)] {
        let mut figures = BTreeMap::<&str, Vec<f64>>::new();
        for round in 0..ROUNDS {
            let input = Input::new(round, words);
            if round == 0 {
                println!(
                    "{ENTRIES} entries of {} bytes ({name}):",
                    input.bytes.len() / ENTRIES
                );
                let program = std::env::current_exe().unwrap();
                Command::new(program)
                    .args([HEAP, &words.to_string()])
                    .status()
                    .unwrap();
            }
            measure(&input, round, &mut figures);
        }
        for (figure, values) in &mut figures {
            println!("  {figure}: {}", summary(values));
        }
    }
}

/// Measures ours and the rails once, in an order that depends on the round.
fn measure<'f>(input: &Input, round: usize, figures: &mut BTreeMap<&'f str, Vec<f64>>) {
    let mut times = [(Duration::ZERO, Duration::ZERO); 4];
    let mut steps = BTreeMap::new();
    for turn in 0..4 {
        let which = (turn + round) % 4;
        times[which] = match which {
            0 => timed(|| input.load(1, &mut steps)),
            1 => timed(|| input.load(2, &mut BTreeMap::new())),
            2 => timed(|| input.parse::<Value>()),
            _ => timed(|| input.parse::<Box<RawValue>>()),
        };
    }
    let mut add = |figure: &'f str, value: f64| figures.entry(figure).or_default().push(value);
    let rate = |time: Duration| input.bytes.len() as f64 / 1e6 / time.as_secs_f64();
    let [one, two, values, raw] = times;
    add("1 thread, MB/s of CPU", rate(one.0));
    add("1 thread, MB/s of wall time", rate(one.1));
    add("2 threads, MB/s of CPU", rate(two.0));
    add("2 threads, MB/s of wall time", rate(two.1));
    add("serde_json with values, MB/s of CPU", rate(values.0));
    add("serde_json with raw values, MB/s of CPU", rate(raw.0));
    let ratio = |theirs: (Duration, Duration)| theirs.0.as_secs_f64() / one.0.as_secs_f64();
    add(
        "times the speed of serde_json with values (limit: 2)",
        ratio(values),
    );
    add("times the speed of serde_json with raw values", ratio(raw));
    for (step, time) in steps {
        add(step, time.as_secs_f64() * 1e3);
    }
}

/// The median of the values, and their range.
fn summary(values: &mut [f64]) -> String {
    values.sort_by(f64::total_cmp);
    let [low, middle, high] = [0, values.len() / 2, values.len() - 1].map(|at| values[at]);
    format!("{middle:.2} ({low:.2} to {high:.2})")
}

/// A stored state, with the digest that its reference names.
struct Input {
    lineage: Lineage,
    bytes: Vec<u8>,
    digest: Digest,
}

impl Input {
    fn new(round: usize, words: usize) -> Self {
        let (lineage, bytes) = stored(&SeededEntropy::new(round as u64), ENTRIES, words);
        let digest = Digest::of(&bytes);
        Self {
            lineage,
            bytes,
            digest,
        }
    }

    /// From bytes to a verified state.
    fn load(&self, threads: usize, steps: &mut BTreeMap<&'static str, Duration>) -> (Snapshot, State) {
        let (mut blocks, mut digester) = (Blocks::of(&self.bytes), Digester::default());
        let next = |buffer: &mut Vec<u8>| {
            let block = blocks.next();
            buffer.clear();
            buffer.extend_from_slice(block.unwrap_or_default());
            digester.add(buffer);
            Ok(block.is_some())
        };
        let threads = NonZeroUsize::new(threads).unwrap();
        let (snapshot, time) = step(|| codec::decode_stored("snapshot", threads, next).unwrap());
        assert_eq!(digester.finish(), self.digest);
        steps.insert("  step 1, digest and decode, ms", time);
        let ((), time) = step(|| verify::check("snapshot", &snapshot).unwrap());
        steps.insert("  step 2, rules, ms", time);
        let (state, time) = step(|| State::from_snapshot(self.lineage, &snapshot).unwrap());
        steps.insert("  step 3, state, ms", time);
        assert_eq!(state.len(), ENTRIES);
        (snapshot, state)
    }

    fn parse<V: DeserializeOwned>(&self) -> TypedSnapshot<V> {
        let snapshot: TypedSnapshot<V> = serde_json::from_slice(&self.bytes).unwrap();
        assert_eq!(snapshot.entries.len(), ENTRIES);
        snapshot
    }
}

/// A snapshot as typed serde_json reads it.
#[derive(Deserialize)]
#[serde(bound = "V: DeserializeOwned")]
struct TypedSnapshot<V> {
    entries: Vec<TypedEntry<V>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", bound = "V: DeserializeOwned")]
#[expect(dead_code, reason = "the fields are read from JSON only")]
struct TypedEntry<V> {
    address: String,
    #[serde(rename = "type")]
    entry_type: String,
    uid: String,
    kind: Option<String>,
    id: Option<String>,
    inputs: Option<V>,
    outputs: Option<V>,
    #[serde(default)]
    depends_on: Vec<String>,
    extensions: BTreeMap<String, V>,
}

/// Returns the CPU time of the process and the wall time in which an act makes its result. Dropping the result doesn't
/// count.
fn timed<T>(act: impl FnOnce() -> T) -> (Duration, Duration) {
    let (start, before) = (Instant::now(), cpu());
    let result = black_box(act());
    let times = (cpu() - before, start.elapsed());
    drop(result);
    times
}

/// Returns the result of a step and its CPU time.
fn step<T>(act: impl FnOnce() -> T) -> (T, Duration) {
    let before = cpu();
    let result = act();
    (result, cpu() - before)
}

fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap(), time.tv_nsec.try_into().unwrap())
}

/// Prints the growth of the resident memory while a state is loaded, at its peak; nothing without Linux's procfs.
fn print_heap(words: usize) {
    let read = |field: &str| {
        let status = read_to_string("/proc/self/status").ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix(field))?;
        line.trim().trim_end_matches(" kB").parse::<f64>().ok()
    };
    let input = Input::new(0, words);
    // Resets the peak to the present size.
    let is_reset = write("/proc/self/clear_refs", "5").is_ok();
    let Some(before) = read("VmRSS:").filter(|_| is_reset) else {
        return;
    };
    let _loaded = input.load(1, &mut BTreeMap::new());
    if let Some(peak) = read("VmHWM:") {
        let times = (peak - before) * 1024.0 / input.bytes.len() as f64;
        println!("  heap, times the uncompressed bytes: {times:.2}");
    }
}
