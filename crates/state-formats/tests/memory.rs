//! What the import of a large Pulumi deployment needs in memory, against the bytes of its file.
//!
//! The peak is the system's own count for a process that does nothing else (`VmHWM`), so this is the only test of its
//! binary. Where the system doesn't tell, nothing is checked.

use state_core::testkit::run::skip;
use state_core::{Clock, Timestamp};
use state_formats::{Formats, Pulumi, ReadOptions};
use std::fmt::Write;
use std::time::Duration;

/// How many resources the deployment has.
const RESOURCES: usize = 40_000;
/// The most that the import may need: so many times the file, in tenths.
const TENTHS: u64 = 20;

#[derive(Debug)]
struct Still;

impl Clock for Still {
    fn now(&self) -> Timestamp {
        Timestamp::new("2026-05-30T12:00:00Z")
    }

    fn elapsed(&self) -> Duration {
        Duration::ZERO
    }
}

/// As the file backend writes it: one line; secrets, dependencies, fields that the model doesn't have. A resource has
/// 1.9 kB, the mean of the real checkpoints.
fn deployment() -> Vec<u8> {
    // Room for all of it: a text that grows would be the peak.
    let mut text = String::with_capacity(RESOURCES * 2000);
    text.push_str(
        r#"{"version":3,"deployment":{"manifest":{"time":"","magic":"","version":""},"resources":["#,
    );
    for n in 0..RESOURCES {
        let urn = |n: usize| format!("urn:pulumi:dev::shop::aws:s3/bucket:Bucket::bucket-{n:06}");
        let comma = if n > 0 { "," } else { "" };
        let needs = match n {
            0 => String::new(),
            _ => format!(r#""dependencies":["{}"],"#, urn(n / 2)),
        };
        write!(
            text,
            r#"{comma}{{"urn":"{}","custom":true,"id":"id-{n}","type":"aws:s3/bucket:Bucket","inputs":{{"tags":{{"name":"{n}","owner":"team"}},"token":{{"4dabf18193072939515e22adb298388d":"1b47061264138c4ac30d75fd1eb44270","ciphertext":"v1:{n:016}:{n:064}"}}}},"outputs":{{"arn":"arn:aws:s3:::bucket-{n}","policy":"{}"}},{needs}"created":"2026-01-02T03:04:05Z","sourcePosition":"project:///index.ts#{n},1"}}"#,
            urn(n),
            "x".repeat(1340),
        )
        .expect("in memory");
    }
    text.push_str("]}}");
    text.into_bytes()
}

#[test]
fn the_import_of_a_large_deployment_needs_at_most_twice_its_size() {
    let bytes = deployment();
    let size = bytes.len() as u64;
    let options = ReadOptions::new(&Still);
    let imported = Formats::standard()
        .import(bytes, &Pulumi, &options)
        .expect("a deployment");
    assert_eq!(imported.snapshot.entries.len(), RESOURCES);
    let told = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let Some(line) = told.lines().find_map(|line| line.strip_prefix("VmHWM:")) else {
        skip("procfs", "memory of a large import");
        return;
    };
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    let peak = kib * 1024;
    println!(
        "{peak} bytes for a file of {size}, {}.{:02} times",
        peak / size,
        peak * 100 / size % 100
    );
    assert!(peak * 10 <= size * TENTHS, "{peak} bytes for a file of {size}");
}
