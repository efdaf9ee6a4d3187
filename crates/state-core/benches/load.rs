//! Compares loading a state with typed serde_json: `cargo bench -p state-core --bench load`.
//!
//! Loads the stored form of a state with 100,000 entries from memory, once with 0.9 KB and once with 3 KB an entry.
//! Ours goes from bytes to a verified state: digest, strict parsing, indexes, integrity rules. serde_json only parses the
//! lines into structs whose properties are `RawValue`s. Every round has other bytes, and the order of the two changes
//! from round to round. The result is the median of the ratios of the rounds, with their range.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark that prints its results"
)]

use rustix::time::{ClockId, clock_gettime};
use serde::Deserialize;
use serde_json::value::RawValue;
use state_core::codec::{self, StoredReader};
use state_core::digest::{Digest, Digester};
use state_core::state::State;
use state_core::testkit::clock::SeededEntropy;
use state_core::{
    Address, Dependency, Entropy, Entry, FactoryInfo, Json, Lineage, Properties, Snapshot, Timestamp, Uid,
    verify,
};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

const ENTRIES: usize = 100_000;
const ROUNDS: usize = 7;

fn main() {
    for (name, words) in [("0.9 KB", 4), ("3 KB", 34)] {
        let mut steps = BTreeMap::<&str, Vec<f64>>::new();
        let mut ratios = Vec::new();
        let mut rates = Vec::new();
        for round in 0..ROUNDS {
            let (lineage, bytes) = stored(round as u64, words);
            let digest = Digest::of(&bytes);
            let megabytes = bytes.len() as f64 / 1e6;
            let mut ours = None;
            let mut theirs = None;
            for turn in 0..2 {
                if (turn + round) % 2 == 0 {
                    ours = Some(cpu(|| load(lineage, &bytes, digest, &mut steps)));
                } else {
                    theirs = Some(cpu(|| parse(&bytes)));
                }
            }
            let (ours, theirs) = (ours.unwrap(), theirs.unwrap());
            rates.push(megabytes / ours.as_secs_f64());
            ratios.push(theirs.as_secs_f64() / ours.as_secs_f64());
            if round == 0 {
                println!(
                    "{ENTRIES} entries of {:.0} bytes ({name}):",
                    megabytes * 1e6 / ENTRIES as f64
                );
            }
        }
        println!("  load: {} MB/s of CPU", summary(&mut rates));
        println!("  times the speed of typed serde_json: {}", summary(&mut ratios));
        for (step, times) in &mut steps {
            println!("    {step}: {} ms", summary(times));
        }
    }
}

/// The median of the values, and their range.
fn summary(values: &mut [f64]) -> String {
    values.sort_by(f64::total_cmp);
    let [low, middle, high] = [0, values.len() / 2, values.len() - 1].map(|at| values[at]);
    format!("{middle:.2} ({low:.2} to {high:.2})")
}

/// From bytes to a verified state.
fn load(lineage: Lineage, bytes: &[u8], expected: Digest, steps: &mut BTreeMap<&str, Vec<f64>>) {
    let mut step = |name, time: Duration| steps.entry(name).or_default().push(time.as_secs_f64() * 1e3);
    let mut digester = Digester::default();
    step("1 digest", cpu(|| digester.add(bytes)));
    assert_eq!(digester.finish(), expected);
    let mut snapshot = None;
    step(
        "2 decode",
        cpu(|| {
            let mut reader = StoredReader::new("snapshot");
            reader.lines(bytes).unwrap();
            snapshot = Some(reader.finish().unwrap());
        }),
    );
    let snapshot = snapshot.unwrap();
    step("3 rules", cpu(|| verify::check("snapshot", &snapshot).unwrap()));
    let mut state = None;
    step(
        "4 indexes",
        cpu(|| state = Some(State::from_snapshot(lineage, &snapshot).unwrap())),
    );
    assert_eq!(black_box(state).unwrap().len(), ENTRIES);
}

/// A snapshot as typed serde_json reads it.
#[derive(Deserialize)]
struct TypedSnapshot {
    entries: Vec<TypedEntry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(dead_code, reason = "the fields are read from JSON only")]
struct TypedEntry {
    address: String,
    #[serde(rename = "type")]
    entry_type: String,
    uid: String,
    kind: Option<String>,
    id: Option<String>,
    inputs: Option<Box<RawValue>>,
    outputs: Option<Box<RawValue>>,
    #[serde(default)]
    depends_on: Vec<String>,
    extensions: BTreeMap<String, Box<RawValue>>,
}

fn parse(bytes: &[u8]) {
    let snapshot: TypedSnapshot = serde_json::from_slice(bytes).unwrap();
    assert_eq!(black_box(snapshot).entries.len(), ENTRIES);
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

/// The stored form of a state whose entries have properties with this many words.
fn stored(seed: u64, words: usize) -> (Lineage, Vec<u8>) {
    let entropy = SeededEntropy::new(seed);
    let lineage = Lineage::from_bits(entropy.bits());
    let mut snapshot = Snapshot::new(
        FactoryInfo::default(),
        "shop",
        Timestamp::new("2026-05-30T12:00:00Z"),
    );
    snapshot.lineage = Some(lineage);
    let address = |index: usize| {
        Address::new(format!("module.web[{}].aws_instance.node[{index}]", index / 500)).unwrap()
    };
    for index in 0..ENTRIES {
        let mut entry = Entry::leaf(address(index), "aws_instance");
        entry.uid = Some(Uid::from_bits(entropy.bits()));
        entry.id = Some(word(&entropy));
        for back in [1, 30] {
            entry
                .depends_on
                .extend(index.checked_sub(back).map(address).map(Dependency::Entry));
        }
        entry.inputs = Some(properties(&entropy, words));
        entry.outputs = Some(properties(&entropy, words));
        let extension = Json::parse(
            "{\"mode\":\"managed\",\"provider\":\"provider[\\\"registry.terraform.io/hashicorp/aws\\\"]\"}",
        )
        .unwrap();
        entry.extensions.insert("terraform", extension);
        snapshot.entries.push(Arc::new(entry));
    }
    (lineage, codec::encode_stored(&snapshot))
}

fn properties(entropy: &dyn Entropy, words: usize) -> Properties {
    let mut text = String::from("{\"arn\":\"arn:aws:ec2:eu-west-1:123456789012:instance/");
    write!(
        text,
        "{}\",\"ebs\":[{{\"size\":8,\"encrypted\":true}}],\"tags\":{{",
        word(entropy)
    )
    .unwrap();
    for number in 0..words {
        let comma = if number == 0 { "" } else { "," };
        write!(text, "{comma}\"tag-{number:02}\":\"{}\"", word(entropy)).unwrap();
    }
    text.push_str("},\"zone\":null}");
    Properties::new(Json::parse(&text).unwrap()).unwrap()
}

fn word(entropy: &dyn Entropy) -> String {
    entropy.bits().iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}
