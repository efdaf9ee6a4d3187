//! Decodes identities, recipients, wrapped keys, sealed values and published outputs.

use state_core::head::SealingPolicy;
use state_core::testkit::clock::SeededEntropy;
use state_core::{Address, Entry, Json, Lineage, Properties, Uid};
use state_encrypt::{DataKey, Identities, OutputsDocument, Recipients, Sealer, generate_identity, unwrap};
use std::sync::{Arc, OnceLock};

fn key() -> &'static Arc<DataKey> {
    static KEY: OnceLock<Arc<DataKey>> = OnceLock::new();
    KEY.get_or_init(|| Arc::new(DataKey::generate(&SeededEntropy::new(1))))
}

/// An identity for which no key is wrapped.
fn identities() -> &'static Identities {
    static IDENTITIES: OnceLock<Identities> = OnceLock::new();
    IDENTITIES.get_or_init(|| {
        Identities::parse("identity", generate_identity().file()).expect("a new identity is valid")
    })
}

/// Decodes the bytes as each text of the crate `state-encrypt`, and opens what can be opened.
pub(crate) fn keys(bytes: &[u8]) {
    if let Ok(document) = OutputsDocument::decode(bytes) {
        drop(document.open_with(key()));
    }
    if !may_use_scrypt(bytes) {
        drop(unwrap(&[bytes], identities(), key().id()));
    }
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    drop(Identities::parse("identity", text));
    drop(text.parse::<Recipients>());
    sealed(text);
}

/// A passphrase costs a second of work, which the input could demand again and again.
fn may_use_scrypt(bytes: &[u8]) -> bool {
    bytes.windows(6).any(|window| window == b"scrypt")
}

/// Opens an entry with these outputs. If it opens, sealing it again must give an entry that opens to the same.
fn sealed(text: &str) {
    let Some(outputs) = Json::parse(text).ok().and_then(Properties::new) else {
        return;
    };
    let sealer = Sealer::new(
        Arc::clone(key()),
        Lineage::from_bits([9; 16]),
        SealingPolicy::Sensitive,
    );
    let mut entry = Entry::leaf(Address::new("thing").expect("an address"), "thing");
    entry.uid = Some(Uid::from_bits([7; 16]));
    entry.outputs = Some(outputs);
    entry.sensitive_outputs = vec!["password".to_owned()];
    let Ok(opened) = sealer.open_entry(&entry) else {
        return;
    };
    let Ok(sealed) = sealer.seal_entry(&opened) else {
        return;
    };
    let again = sealer.open_entry(&sealed).expect("a sealed entry opens");
    assert!(again == opened, "an entry must open to what was sealed");
}
