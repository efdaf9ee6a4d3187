//! P5: what a mutation costs doesn't depend on how many entries there are. Counted, never timed.

use crate::process::WORKER;
use serde_json::Value;
use std::process::Command;

/// The most that a frame adds to its payload, in bytes.
const OVERHEAD: u64 = 112;

/// Mutations that are counted.
const MUTATIONS: u64 = 50;

/// What a mutation may allocate more at 100,000 entries than at 100. A mutation copies the path to what it changes in
/// a few persistent maps (by position, by key, by uid, by what is referred to), and each path is one or two nodes
/// longer then. Measured: 7,329 and 8,197 allocations for 50 mutations, so 147 and 164 each, 17 more.
const DEEPER: u64 = 18;

#[test]
fn a_mutation_costs_the_same_at_100_and_at_100_000_entries_with_readers_attached() {
    let (small, large) = (measure(100), measure(100_000));
    for what in ["writes", "bytes", "fsyncs"] {
        assert_eq!(each(&small, what), each(&large, what), "{what} of each mutation");
    }
    assert!(
        each(&small, "fsyncs").iter().all(|syncs| *syncs == 2),
        "one sync a frame, two frames a mutation"
    );

    let (few, many) = (sum(&small, "allocations"), sum(&large, "allocations"));
    eprintln!(
        "cost of 50 mutations at 100 and 100,000 entries: {} writes, {} fsyncs, {} bytes; allocations {few} and {many} of {} and {} bytes",
        sum(&small, "writes"),
        sum(&small, "fsyncs"),
        sum(&small, "bytes"),
        sum(&small, "allocated"),
        sum(&large, "allocated"),
    );
    assert!(
        many <= few + DEEPER * MUTATIONS,
        "allocations: {few} at 100 entries, {many} at 100,000"
    );
    for report in [&small, &large] {
        eprintln!("until close, checkpoint included: {}", report["until-close"]);
    }
}

#[test]
fn a_frame_adds_at_most_112_bytes_to_its_payload() {
    let report = measure(100);
    let frames = report["overheads"].as_array().expect("frames");
    assert!(frames.len() > 100, "there are frames");
    for frame in frames {
        let (bytes, payload) = (frame[0].as_u64(), frame[1].as_u64());
        let added = bytes.zip(payload).map(|(bytes, payload)| bytes - payload);
        assert!(added.is_some_and(|added| added <= OVERHEAD), "{frame}");
    }
}

fn measure(entries: u64) -> Value {
    let dir = tempfile::tempdir().expect("a folder");
    let output = Command::new(WORKER)
        .arg("cost")
        .arg(dir.path())
        .arg(entries.to_string())
        .output()
        .expect("the worker runs");
    let text = String::from_utf8(output.stdout).expect("a report");
    assert!(output.status.success(), "{text}");
    let report: Value = serde_json::from_str(&text).expect("a report in JSON");
    assert_eq!(report["entries"], entries);
    report
}

fn each(report: &Value, what: &str) -> Vec<u64> {
    let mutations = report["mutations"].as_array().expect("mutations");
    mutations
        .iter()
        .filter_map(|counts| counts[what].as_u64())
        .collect()
}

fn sum(report: &Value, what: &str) -> u64 {
    each(report, what).iter().sum()
}
