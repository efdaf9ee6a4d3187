//! Checks that the test vectors in `docs/format.md` are those that the crates compute, and that the documents that the
//! page quotes are those of the golden store (`tests/golden`).

use state_core::backend::{Holder, NamePointer, NameTarget};
use state_core::head::SealingPolicy;
use state_core::journal::{Fence, Frame, FrameKind, LogRef, genesis};
use state_core::sealing::{MacKey, StackKey, TagDomain};
use state_core::testkit::clock::SeededEntropy;
use state_core::{
    Digest, Entry, Enveloped, Epoch, FactoryInfo, Head, Json, Lineage, Nonce, Properties, Slot, Snapshot,
    StackName, Timestamp, codec,
};
use state_encrypt::{DataKey, Sealer, SealingKey, endorse};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The line of the page before the vectors.
const BEGIN: &str = "<!-- vectors -->\n";
/// The line of the page after the vectors.
const END: &str = "<!-- end of vectors -->\n";

/// The documents of the golden store that the page quotes.
const QUOTED: [&str; 5] = [
    "format",
    "names/shop/production.json",
    "stacks/ce56971c-de35-4897-821e-fc0b1046c8bf/meta.json",
    "stacks/ce56971c-de35-4897-821e-fc0b1046c8bf/head.json",
    "stacks/ce56971c-de35-4897-821e-fc0b1046c8bf/updates/00000000000000000001-d30e2d3364356158.page",
];

/// Returns the path of a file or folder, given relative to `tests/`.
fn path(relative: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(relative)
}

/// With `STATE_GOLDEN=write`, writes the computed vectors to the page instead of comparing them.
#[test]
fn format_page_has_the_vectors_that_the_crates_compute() {
    let page = fs::read_to_string(path("../docs/format.md")).expect("the page");
    let (before, rest) = page
        .split_once(BEGIN)
        .expect("the mark at the begin of the vectors");
    let (found, after) = rest.split_once(END).expect("the mark at the end of the vectors");
    let computed = format!("\n```text\n{}```\n\n", vectors());
    if std::env::var_os("STATE_GOLDEN").is_some_and(|value| value == "write") {
        let page = [before, BEGIN, &computed, END, after].concat();
        fs::write(path("../docs/format.md"), page).expect("the page is written");
    } else {
        assert_eq!(found, computed);
    }
}

#[test]
fn format_page_quotes_the_golden_store() {
    let page = fs::read_to_string(path("../docs/format.md")).expect("the page");
    for document in QUOTED {
        let text =
            fs::read_to_string(path("golden/format-2/plain").join(document)).expect("a golden document");
        assert!(page.contains(&format!("```text\n{text}```")), "{document}");
    }
}

/// Returns all vectors as text, one line each.
fn vectors() -> String {
    let mut lines = String::new();
    let mut add = |name: &str, value: &str| {
        lines.push_str(&format!("{name} = {value}\n"));
    };
    add_journal(&mut add);
    add_snapshot(&mut add);
    add_keys(&mut add);
    add_bound(&mut add);
    add_sealed(&mut add);
    lines
}

/// A function that adds a vector, given by name and value.
type Add<'a> = &'a mut dyn FnMut(&str, &str);

fn lineage() -> Lineage {
    "00112233-4455-4677-8899-aabbccddeeff".parse().expect("a UUID")
}

fn data_key() -> Arc<DataKey> {
    Arc::new(DataKey::from_bytes(&[1; 32]))
}

fn sealer() -> Sealer {
    Sealer::new(data_key(), lineage(), SealingPolicy::Sensitive)
}

fn stack_key() -> SealingKey {
    SealingKey::new(data_key(), lineage(), &sealer())
}

fn add_journal(add: Add<'_>) {
    let first = genesis(lineage());
    let fence = Fence {
        previous: None,
        chain: first,
        holder: Holder::new("ana", "ci", 42, "deploy", None),
    };
    let nonce = |byte| Nonce::from_bytes([byte; 16]);
    let fence = Frame::new(
        FrameKind::Fence,
        Epoch(1),
        Slot(0),
        nonce(0x11),
        &fence.encode(),
        &first,
    );
    let fence = fence.expect("a small payload");
    let record = b"{\"record-plugin\":{\"kind\":\"resource\",\"name\":\"aws\",\"version\":\"6.1.0\"}}\n";
    let data = Frame::tagged(
        Some(&stack_key()),
        FrameKind::Data,
        Epoch(1),
        Slot(1),
        nonce(0x22),
        record,
        fence.chain(),
    );
    let data = data.expect("a small payload");
    add("genesis", &first.to_string());
    add("frame 0", &hex(fence.bytes()));
    add("chain after frame 0", &fence.chain().to_string());
    add("frame 1", &hex(data.bytes()));
    add("chain after frame 1", &data.chain().to_string());
}

fn add_snapshot(add: Add<'_>) {
    let moment = Timestamp::new("2026-01-01T00:00:00Z");
    let mut snapshot = Snapshot::new(FactoryInfo::default(), "shop/production", moment);
    snapshot.lineage = Some(lineage());
    snapshot.entries = vec![Arc::new(entry())];
    let stored = codec::encode_stored(&snapshot);
    add("snapshot", &String::from_utf8_lossy(&stored).replace('\n', "\\n"));
    add("digest of the snapshot", &Digest::of(&stored).to_string());
}

fn add_keys(add: Add<'_>) {
    let (old, new) = (data_key(), DataKey::from_bytes(&[2; 32]));
    add("key file", &old.to_text().replace('\n', "\\n"));
    add("key id", &old.id().to_string());
    add("key id of the output key", &old.for_outputs().id().to_string());
    add("key id of the successor", &new.id().to_string());
    add(
        "endorsement of the successor as generation 2",
        &hex(&endorse(&old, lineage(), new.id(), 2)),
    );
    let key = stack_key();
    for domain in [
        TagDomain::Head,
        TagDomain::Frame,
        TagDomain::Name,
        TagDomain::Spool,
        TagDomain::Outputs,
    ] {
        let tag = Json::parse(&serde_json::to_string(&key.tag(domain, b"content")).expect("a tag"));
        let tag = tag.expect("a tag is a text").as_str().to_owned();
        add(
            &format!("tag of `content` in domain {}", domain.name()),
            tag.trim_matches('"'),
        );
    }
}

/// Adds a head, two name pointers and a reference to a log, with their tags and digests.
fn add_bound(add: Add<'_>) {
    let key = stack_key();
    let nonce = |byte| Nonce::from_bytes([byte; 16]);
    let mut head = Head::new(lineage(), stack_name(), nonce(0x33));
    head.key_id = Some(key.id());
    head.sign(&key);
    add("head", &text(&head));
    let mut pointer = NamePointer::new(stack_name(), NameTarget::Lineage(lineage()), nonce(0x44));
    pointer.sign(&key);
    add("name pointer", &text(&pointer));
    let target = NameTarget::MovedTo {
        lineage: lineage(),
        name: "shop/next".parse().expect("a stack name"),
    };
    let mut tombstone = NamePointer::new(stack_name(), target, nonce(0x55));
    tombstone.sign(&key);
    add("tombstone", &text(&tombstone));
    let log = LogRef::of(b"content");
    let log = serde_json::to_string(&log).expect("a reference");
    add("`log` for a log of the bytes `content`", &log);
}

fn text(document: &impl Enveloped) -> String {
    String::from_utf8_lossy(&document.encode()).replace('\n', "\\n")
}

fn stack_name() -> StackName {
    "shop/production".parse().expect("a stack name")
}

fn add_sealed(add: Add<'_>) {
    let sealed = sealer().seal_entry(&entry()).expect("the entry has a uid");
    add("entry", &codec::entry_text(&entry()));
    add("sealed entry", &codec::entry_text(&sealed));
    let crypter = stack_key()
        .crypter(Arc::new(SeededEntropy::new(1)))
        .expect("the key has a crypter");
    let token = crypter.encrypt("log 2026-01-01T00:00:00Z bucket", b"quota exceeded");
    let token = token.expect("a short text");
    add(
        "log message `quota exceeded` about `bucket` at 2026-01-01T00:00:00Z",
        &format!("$sealed:{token}"),
    );
}

fn entry() -> Entry {
    let inputs = Json::parse(r#"{"password":"hunter22","user":"anna"}"#).expect("JSON");
    Entry {
        uid: Some("12345678-1234-4234-8234-123456789abc".parse().expect("a UUID")),
        id: Some("arn:hunter22".to_owned()),
        inputs: Properties::new(inputs),
        sensitive_inputs: vec!["password".to_owned()],
        init_errors: vec!["denied".to_owned()],
        ..Entry::leaf("bucket".parse().expect("an address"), "s3_bucket")
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
