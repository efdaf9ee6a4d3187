//! Promise P5 of `docs/architecture.md`: the cost of a mutation doesn't depend on the number of entries. The tests
//! count operations instead of measuring time.

use crate::process::WORKER;
use serde_json::Value;
use std::process::Command;

/// Maximum overhead of a frame over its payload, in bytes.
const OVERHEAD: u64 = 112;

#[test]
fn mutation_cost_is_independent_of_the_number_of_entries() {
    let (small, large) = (measure(100), measure(100_000));
    for count in ["writes", "bytes", "fsyncs", "allocations", "allocated"] {
        assert_eq!(
            each(&small, count),
            each(&large, count),
            "{count} of each mutation"
        );
    }
    assert!(
        each(&small, "fsyncs").iter().all(|syncs| *syncs == 2),
        "a mutation must write two frames with one sync each"
    );

    eprintln!(
        "cost of {} mutations at 100 and at 100,000 entries: {} writes, {} fsyncs, {} bytes, {} allocations of {} bytes",
        each(&small, "writes").len(),
        sum(&small, "writes"),
        sum(&small, "fsyncs"),
        sum(&small, "bytes"),
        sum(&small, "allocations"),
        sum(&small, "allocated"),
    );
    for report in [&small, &large] {
        eprintln!("until close, checkpoint included: {}", report["until-close"]);
    }
}

/// A create or update records the intended entry and the resulting entry; a delete records none.
#[test]
fn each_recorded_entry_is_encoded_once() {
    let report = measure(100);
    let kinds = ["create", "update", "delete"].iter().cycle();
    for (kind, encodings) in kinds.zip(each(&report, "encodings")) {
        let recorded = if *kind == "delete" { 0 } else { 2 };
        assert_eq!(encodings, recorded, "encodings of entries for a {kind}");
    }
}

#[test]
fn frame_adds_at_most_112_bytes_to_its_payload() {
    let report = measure(100);
    let frames = report["overheads"].as_array().expect("frames");
    assert!(frames.len() > 100, "too few frames: {}", frames.len());
    for frame in frames {
        let (bytes, payload) = (frame[0].as_u64(), frame[1].as_u64());
        let added = bytes.zip(payload).map(|(bytes, payload)| bytes - payload);
        assert!(added.is_some_and(|added| added <= OVERHEAD), "{frame}");
    }
}

/// Returns the report of the worker `cost` for a stack with this many entries.
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

/// Returns one count of each measured mutation, for example `writes`.
fn each(report: &Value, count: &str) -> Vec<u64> {
    let mutations = report["mutations"].as_array().expect("mutations");
    mutations
        .iter()
        .filter_map(|counts| counts[count].as_u64())
        .collect()
}

fn sum(report: &Value, count: &str) -> u64 {
    each(report, count).iter().sum()
}
