//! Tests that a format of another crate, added with one type and one line, is detected, read and written like the
//! others.

use crate::support::{FixedClock, with_instance};
use crate::toy::Toy;
use state_core::{Json, Serial, Snapshot};
use state_formats::{Formats, ImportVerdict, ReadOptions, Refusal};

const FILE: &[u8] = b"toy 1\nhouse\ngarden\n";

#[test]
fn added_format_is_detected_read_and_written() {
    let formats = Formats::standard().with(Toy);
    let detected = formats.detect(FILE).expect("its first line names the format");
    assert_eq!(detected.format.name(), "toy");
    assert_eq!(detected.description, "a state of Toy");
    let options = ReadOptions::new(&FixedClock);
    let imported = formats.import(FILE, detected.format, &options).expect("names");
    assert_eq!(imported.snapshot.entries.len(), 2);
    let origin = formats.origin(&imported.snapshot);
    assert_eq!(origin.name(), "toy");
    assert_eq!(formats.export(&imported.snapshot, origin).expect("names"), FILE);
    let compressed = zstd::bulk::compress(FILE, 1).expect("in memory");
    let again = formats
        .import(compressed, detected.format, &options)
        .expect("names");
    assert!(again == imported);
}

#[test]
fn added_format_is_listed_everywhere() {
    let formats = Formats::standard().with(Toy);
    assert_eq!(
        formats.names(),
        ["terraform", "pulumi", "unobin", "toy", "native"]
    );
    assert!(
        formats
            .table()
            .ends_with("\n| `toy` | names, one a line | the same | nothing |\n")
    );
    assert_eq!(formats.named("toys").expect("an alias").name(), "toy");
    let error = formats.named("other").expect_err("unknown").to_string();
    assert!(
        error.ends_with("native, terraform, pulumi, unobin, toy"),
        "{error}"
    );
    let opaque: Vec<_> = formats.opaque().map(|(name, _)| name).collect();
    assert_eq!(opaque, ["terraform", "pulumi", "toy", "statectl"]);
    assert_eq!(formats.encrypted_secrets(&snapshot(&formats)), 0);
}

fn snapshot(formats: &Formats) -> Snapshot {
    let imported = formats.import(FILE, &Toy, &ReadOptions::new(&FixedClock));
    imported.expect("names").snapshot
}

#[test]
fn added_format_follows_the_rules_of_imports_and_exports() {
    let formats = Formats::standard().with(Toy);
    let imported = formats
        .import(FILE, &Toy, &ReadOptions::new(&FixedClock))
        .expect("names");
    let verdict = |existing: &Snapshot| {
        formats
            .check_import(Some(existing), &imported)
            .expect("comparable")
    };
    assert_eq!(verdict(&imported.snapshot), ImportVerdict::Accepted);
    let mut changed = imported.snapshot.clone();
    changed.serial = Some(Serial(9));
    assert_eq!(verdict(&changed), ImportVerdict::Refused(Refusal::ChangedHere));
    let terraform = with_instance("{}");
    let terraform = formats
        .import(
            terraform.as_bytes(),
            formats.named("terraform").expect("standard"),
            &ReadOptions::new(&FixedClock),
        )
        .expect("a state");
    assert_eq!(
        verdict(&terraform.snapshot),
        ImportVerdict::Refused(Refusal::OtherSystem)
    );
    // Any format may write a snapshot from Terraform, but only Pulumi and native can represent one from Pulumi.
    formats
        .export(&terraform.snapshot, &Toy)
        .expect("names are enough");
    let mut pulumi = imported.snapshot;
    pulumi.extensions.remove("toy");
    pulumi.extensions.insert("pulumi", Json::null());
    let error = formats
        .export(&pulumi, &Toy)
        .expect_err("another system")
        .to_string();
    assert!(error.contains("can't be written as a toy state"), "{error}");
}
