//! One function for each decoder: what must hold whatever the bytes are. The fuzzer calls them with bytes that it makes up, the
//! tests with those that it found (`corpus`).
//!
//! None may panic. What is read must be written so that it is read as the same.

use bytes::Bytes;
use state_core::journal::{Fence, FrameKind, ParsedFrame, decode_records, encode_records};
use state_core::{Clock, Digest, Enveloped, Epoch, Frame, Head, Nonce, Slot, Snapshot, Timestamp};
use state_core::{codec, repair, verify};
use state_engine::program::{Configured, Program};
use state_formats::{Formats, Pulumi, ReadOptions, StateFormat, Terraform, Unobin};
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

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

/// Terraform's states of all versions, and OpenTofu's envelope.
pub(crate) fn terraform(bytes: &[u8]) {
    if !claims_much_work(bytes) {
        drop(Terraform.decrypt(bytes, "a passphrase"));
    }
    foreign(bytes, &Terraform);
}

/// Deriving a key takes as long as the file says, up to a cap that is too long for a fuzzer.
fn claims_much_work(bytes: &[u8]) -> bool {
    bytes.windows(6).any(|window| window == b"pbkdf2")
}

/// unobin's snapshots, in both words, with and without envelope.
pub(crate) fn unobin(bytes: &[u8]) {
    foreign(bytes, &Unobin);
}

/// Pulumi's checkpoints and deployments.
pub(crate) fn pulumi(bytes: &[u8]) {
    foreign(bytes, &Pulumi);
}

fn foreign(bytes: &[u8], format: &dyn StateFormat) {
    let formats = Formats::standard();
    drop(formats.detect(bytes));
    let sound = ReadOptions::new(&Still);
    let strict = formats.import(bytes, format, &sound);
    let broken = formats.import(
        bytes,
        format,
        &ReadOptions {
            broken: true,
            ..sound
        },
    );
    if let Ok(imported) = &strict {
        let broken = broken
            .as_ref()
            .expect("what is sound is read as well when it may be broken");
        assert!(
            broken.snapshot.entries == imported.snapshot.entries,
            "with the same entries"
        );
        assert!(
            broken.snapshot.outputs == imported.snapshot.outputs,
            "and the same outputs"
        );
        // Pulumi's header is mended in a state that may be broken, and a note says so.
        if broken.notes == imported.notes {
            assert!(broken.snapshot == imported.snapshot, "and as the same");
        } else {
            assert!(format.name() == Pulumi.name(), "nothing else is mended");
        }
        let again = written(&imported.snapshot, format).map(|bytes| formats.import(bytes, format, &sound));
        if let Some(again) = again {
            let again = again.expect("what we write is read");
            assert!(
                again.snapshot.entries == imported.snapshot.entries,
                "the entries come back"
            );
            assert!(
                again.snapshot.outputs == imported.snapshot.outputs,
                "the outputs come back"
            );
        }
    }
    if let Ok(imported) = broken {
        let repaired = repair::repair(&imported.snapshot);
        if repaired.is_valid() {
            assert!(verify::verify(&repaired.snapshot).is_valid());
            assert!(
                repair::repair(&repaired.snapshot).steps.is_empty(),
                "once is enough"
            );
        }
    }
}

/// As the store keeps it in between; none if the format can't say it. A Pulumi state isn't verified yet when it is read:
/// two resources may have one name.
fn written(snapshot: &Snapshot, format: &dyn StateFormat) -> Option<Vec<u8>> {
    let stored = codec::encode_stored(snapshot);
    let stored = codec::decode_broken("snapshot", &stored).expect("our own form is read");
    assert!(stored == *snapshot, "a store loses nothing");
    Formats::standard().export(&stored, format).ok()
}

/// Our own snapshots, in both forms.
pub(crate) fn snapshot(bytes: &[u8]) {
    let Ok(read) = codec::decode_broken("snapshot", bytes) else {
        return;
    };
    drop(verify::verify(&read));
    if let Ok(read) = codec::decode("snapshot", bytes) {
        let stored = codec::encode_stored(&read);
        let again = codec::decode("snapshot", &stored).expect("our own form is read");
        assert!(again == read, "the same snapshot");
        assert!(codec::encode_stored(&again) == stored, "the same bytes");
        let pretty = codec::encode_pretty(&read);
        let again = codec::decode("snapshot", pretty.as_bytes()).expect("the pretty form is read");
        assert!(again == read, "the same snapshot");
    }
}

/// Frames of the journal, and what is in them.
pub(crate) fn frame(bytes: &[u8]) {
    let previous = Digest::of(b"before");
    let shared = Bytes::copy_from_slice(bytes);
    for offset in [0, bytes.len() / 2, bytes.len() + 1] {
        drop(Frame::parse(&shared, offset, &previous));
    }
    let _payload = Frame::unverified_payload(bytes);
    let _extent = Frame::extent(bytes);
    let _is_there = Frame::header_anywhere(bytes);
    let _is_prefix = Frame::is_header_prefix(bytes);
    drop(Fence::decode("fence", bytes));
    if let Ok(records) = decode_records("frame", bytes) {
        let written = encode_records(&records);
        let again = decode_records("frame", &written).expect("our own records are read");
        assert!(again == records, "the same records");
    }
    let made = Frame::new(
        FrameKind::Data,
        Epoch(1),
        Slot(1),
        Nonce::from_bits([7; 16]),
        bytes,
        &previous,
    );
    let made = made.expect("the fuzzer's inputs are small");
    match Frame::parse(&Bytes::copy_from_slice(made.bytes()), 0, &previous) {
        ParsedFrame::Frame(parsed) => assert!(parsed == made, "the same frame"),
        other => panic!("our own frame isn't read: {other:?}"),
    }
}

/// The head of a stack.
pub(crate) fn head(bytes: &[u8]) {
    drop(Head::decode("head", bytes));
    // Without the digest, which a fuzzer can't guess.
    if let Ok(head) = serde_json::from_slice::<Head>(bytes) {
        let written = head.encode();
        let again = Head::decode("head", &written).expect("our own head is read");
        assert!(again == head, "the same head");
    }
}

/// Programs: YAML or JSON.
pub(crate) fn program(bytes: &[u8]) {
    let Ok(program) = Program::parse("program", bytes) else {
        return;
    };
    // A digit is a value of every type but `boolean`.
    let given = program
        .declared()
        .map(|setting| (setting.name.clone(), "1".to_owned()))
        .collect();
    let mut configuring = pin!(program.configure(given, None));
    let Poll::Ready(configured) = configuring.as_mut().poll(&mut Context::from_waker(Waker::noop())) else {
        panic!("without a store there is nothing to wait for");
    };
    drop(configured.map(Configured::into_source));
}
