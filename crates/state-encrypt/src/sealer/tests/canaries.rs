//! Searches stored forms, errors and `Debug` output of this crate for known secrets.

use crate::fixtures::{key, lineage, person, sealer};
use crate::{Authenticator, ConfigCrypter, OutputsDocument, Passphrase, Sealer, wrap};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use state_core::head::SealingPolicy;
use state_core::mutation::{Op, Outcome, StackOutputs};
use state_core::pending::{PendingOperation, RefusedResult};
use state_core::testkit::clock::SeededEntropy;
use state_core::{
    Address, Crypter, Entry, EntryKey, FactoryInfo, Json, MutationId, Properties, Serial, Snapshot,
};
use state_core::{Timestamp, Uid, codec};
use std::sync::Arc;

const CANARY: &str = "Kana\u{f6}rien\"vogel-4711";

/// The encodings in which the canary could occur in bytes, including base64 at every offset.
fn spellings() -> Vec<Vec<u8>> {
    let mut spellings = vec![
        CANARY.as_bytes().to_vec(),
        Json::from_string(CANARY)
            .as_str()
            .trim_matches('"')
            .as_bytes()
            .to_vec(),
        CANARY.escape_default().to_string().into_bytes(),
        CANARY
            .replace('\u{f6}', "\\u00f6")
            .replace('"', "\\\"")
            .into_bytes(),
        b"vogel-4711".to_vec(),
    ];
    let hex: String = CANARY.bytes().map(|byte| format!("{byte:02x}")).collect();
    spellings.extend([hex.to_uppercase().into_bytes(), hex.into_bytes()]);
    for shift in 0..3 {
        let mut shifted = vec![b' '; shift];
        shifted.extend_from_slice(CANARY.as_bytes());
        for engine in [&STANDARD, &STANDARD_NO_PAD, &URL_SAFE_NO_PAD] {
            let text = engine.encode(&shifted);
            // Neighbouring bytes change the first and last base64 digits.
            spellings.push(text.as_bytes()[4..text.len() - 4].to_vec());
        }
    }
    spellings
}

fn assert_silent(what: &str, bytes: &[u8]) {
    for spelling in spellings() {
        let found = bytes.windows(spelling.len()).any(|window| window == spelling);
        assert!(
            !found,
            "{what} reveals the canary as {}",
            String::from_utf8_lossy(&spelling)
        );
    }
}

fn secret_entry(uid: u8) -> Entry {
    let canary = Json::from_string(CANARY);
    let value = format!(
        r#"{{"copy":[{c},{{{c}:1}}],"n":1,"p":{{"deep":[{c}]}}}}"#,
        c = canary.as_str()
    );
    let mut entry = Entry::leaf(Address::new(format!("thing.{uid}")).unwrap(), "thing");
    entry.uid = Some(Uid::from_bits([uid; 16]));
    entry.inputs = Properties::new(Json::parse(&value).unwrap());
    entry.outputs = entry.inputs.clone();
    entry.sensitive_outputs = vec!["/p/deep/0".to_owned()];
    entry.id = Some(format!("id-{CANARY}"));
    entry.init_errors = vec![format!("refused: {CANARY}")];
    entry.extensions.insert("some".to_owned(), canary.clone());
    entry.unknown.insert("x".to_owned(), canary);
    entry
}

fn secret_snapshot() -> Snapshot {
    let mut snapshot = Snapshot::new(FactoryInfo::default(), "shop", Timestamp::new("now"));
    snapshot.lineage = Some(lineage(1));
    snapshot.entries = vec![secret_entry(1).into(), secret_entry(2).into()];
    let pending = Arc::new(secret_entry(3));
    snapshot.pending_operations = vec![PendingOperation {
        id: MutationId::from_bits([1; 16]),
        op: Op::Create,
        target: EntryKey::live(pending.address.clone()),
        entry: Some(Arc::clone(&pending)),
        deposes: None,
        tombstone: false,
        begun: None,
        result: Some(RefusedResult {
            outcome: Outcome::Succeeded,
            entry: Some(pending),
            violations: vec!["its parent is missing".to_owned()],
        }),
    }];
    let canary = Json::from_string(CANARY);
    snapshot.outputs = ["a", "b"].map(|name| (name.to_owned(), canary.clone())).into();
    snapshot.sensitive_outputs = vec!["a".to_owned()];
    snapshot.extensions.insert("some".to_owned(), canary.clone());
    snapshot.unknown.insert("x".to_owned(), canary);
    snapshot
}

#[test]
fn search_finds_canary_in_plaintext() {
    let plain = codec::encode_stored(&secret_snapshot());
    let found = spellings().into_iter().filter(|spelling| {
        plain
            .windows(spelling.len())
            .any(|window| window == spelling.as_slice())
    });
    assert!(found.count() >= 2, "the search finds plaintext canaries");
}

#[test]
fn stored_forms_contain_no_canary() {
    for policy in [SealingPolicy::Sensitive, SealingPolicy::All] {
        let sealed = sealer(policy).seal_snapshot(&secret_snapshot()).unwrap();
        assert_silent("a snapshot", &codec::encode_stored(&sealed));
        assert_silent(
            "a snapshot as pretty JSON",
            codec::encode_pretty(&sealed).as_bytes(),
        );
        let outputs = StackOutputs {
            values: secret_snapshot().outputs,
            sensitive: vec!["a".to_owned()],
        };
        let document = OutputsDocument::seal(
            &key(5),
            &[],
            lineage(1),
            &"shop/production".parse().unwrap(),
            Serial(1),
            policy,
            &outputs,
        )
        .unwrap();
        assert_silent("an outputs document", &document.encode());
        assert_silent("its Debug", format!("{document:?}").as_bytes());
    }
    let crypter = ConfigCrypter::new(&key(1), lineage(1), Arc::new(SeededEntropy::new(1)));
    let secret = crypter.encrypt("db", CANARY.as_bytes()).unwrap();
    assert_silent("a configuration secret", secret.as_bytes());
}

#[test]
fn errors_and_debug_output_contain_no_canary() {
    let snapshot = secret_snapshot();
    let sealed = sealer(SealingPolicy::Sensitive).seal_snapshot(&snapshot).unwrap();
    let others = [
        Sealer::new(key(2), lineage(1), SealingPolicy::Sensitive),
        Sealer::new(key(1), lineage(2), SealingPolicy::Sensitive),
        sealer(SealingPolicy::Plaintext),
    ];
    for other in others {
        for entry in &sealed.entries {
            let error = other.open_entry(entry).unwrap_err();
            assert_silent(
                "an error",
                format!("{error} {error:?} {}", error.hint()).as_bytes(),
            );
        }
        assert_silent("a sealer", format!("{other:?}").as_bytes());
    }
    let error = sealer(SealingPolicy::Sensitive)
        .open_snapshot(&snapshot)
        .unwrap_err();
    assert_silent("an error", format!("{error} {error:?}").as_bytes());
    let open = sealer(SealingPolicy::Sensitive).open_snapshot(&sealed).unwrap();
    assert_silent("an open snapshot", format!("{open:?}").as_bytes());
    let passphrase = Passphrase::new(CANARY).unwrap();
    assert_silent("a passphrase", format!("{passphrase:?}").as_bytes());
}

#[test]
fn debug_output_contains_no_key() {
    let (identities, recipients) = person();
    let (key, lineage) = (key(0xab), lineage(1));
    let wraps = wrap(&key, &recipients).unwrap();
    let sealer = Sealer::new(Arc::clone(&key), lineage, SealingPolicy::All);
    let all = format!(
        "{key:?} {identities:?} {recipients:?} {wraps:?} {sealer:?} {:?} {:?}",
        Authenticator::new(&key, lineage),
        ConfigCrypter::new(&key, lineage, Arc::new(SeededEntropy::new(1)))
    );
    assert!(!all.contains("abababab") && !all.contains("171, 171"), "{all}");
    for wrap in &wraps {
        let text = String::from_utf8_lossy(&wrap.bytes);
        assert!(!text.contains("abababab"));
    }
}
