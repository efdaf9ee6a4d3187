//! Keys and values for the tests of this crate.

use crate::{DataKey, Identities, Recipients, Sealer};
use state_core::head::SealingPolicy;
use state_core::{Address, Entry, Json, Lineage, Properties, Uid};
use std::sync::Arc;

/// A work factor for passphrases that takes about a millisecond.
pub(crate) const CHEAP: u8 = 2;

pub(crate) fn key(byte: u8) -> Arc<DataKey> {
    Arc::new(DataKey::from_bytes(&[byte; 32]))
}

pub(crate) fn lineage(byte: u8) -> Lineage {
    Lineage::from_bits([byte; 16])
}

pub(crate) fn sealer(policy: SealingPolicy) -> Sealer {
    Sealer::new(key(1), lineage(1), policy)
}

/// Returns a new identity, and recipients that consist of that identity alone.
pub(crate) fn person() -> (Identities, Recipients) {
    let generated = crate::generate_identity();
    let identities = Identities::parse("test", generated.file()).unwrap();
    (identities, generated.recipient().parse().unwrap())
}

pub(crate) fn json(text: &str) -> Json {
    Json::parse(text).unwrap()
}

/// Returns an entry with these outputs and these sensitive paths.
pub(crate) fn entry(uid: u8, outputs: &str, marked: &[&str]) -> Entry {
    let mut entry = Entry::leaf(Address::new(format!("thing.{uid}")).unwrap(), "thing");
    entry.uid = Some(Uid::from_bits([uid; 16]));
    entry.outputs = Properties::new(json(outputs));
    entry.sensitive_outputs = marked.iter().map(|&path| path.to_owned()).collect();
    entry
}

pub(crate) fn outputs(entry: &Entry) -> &str {
    entry.outputs.as_ref().unwrap().json().as_str()
}
