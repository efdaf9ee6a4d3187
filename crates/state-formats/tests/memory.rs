//! Memory that the import of a large Pulumi deployment needs, relative to the size of its file.
//!
//! The peak is the system's count for the whole process (`VmHWM`), so this is the only test of its binary. The test is
//! skipped on systems without that count.

use state_core::testkit::run::skip;
use state_core::{Clock, Timestamp};
use state_formats::{Formats, Pulumi, ReadOptions};
use std::fmt::Write;
use std::time::Duration;

/// Number of resources in the deployment.
const RESOURCES: usize = 40_000;
/// Maximum memory of the import, in tenths of the file size.
const TENTHS: u64 = 20;

#[derive(Debug)]
struct FixedClock;

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        Timestamp::new("2026-05-30T12:00:00Z")
    }

    fn elapsed(&self) -> Duration {
        Duration::ZERO
    }
}

/// A deployment in the layout of Pulumi's file backend: on one line, with secrets, dependencies and fields for which
/// the model has no field. A resource has 1.9 kB, the mean of the real checkpoints.
fn deployment() -> Vec<u8> {
    // Allocate the whole text at once: reallocating a growing text would set the peak of the process.
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
fn large_import_needs_at_most_twice_the_file_size() {
    let bytes = deployment();
    let size = bytes.len() as u64;
    let options = ReadOptions::new(&FixedClock);
    let imported = Formats::standard()
        .import(bytes, &Pulumi, &options)
        .expect("a deployment");
    assert_eq!(imported.snapshot.entries.len(), RESOURCES);
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let Some(line) = status.lines().find_map(|line| line.strip_prefix("VmHWM:")) else {
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
