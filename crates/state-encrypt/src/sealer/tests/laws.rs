//! Property tests of sealing and opening.

use super::shape;
use crate::fixtures::{entry, key, lineage, outputs, sealer};
use crate::sealer::Sealer;
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use proptest::prelude::*;
use proptest::sample::Index;
use state_core::head::SealingPolicy;
use state_core::testkit::oracle::is_topological;
use state_core::testkit::run::property_config;
use state_core::testkit::strategy::{json_objects, json_values, snapshots};
use state_core::{Address, Entry, Json, Properties, Snapshot, Uid, codec, verify};
use std::sync::Arc;

fn policies() -> impl Strategy<Value = SealingPolicy> {
    prop_oneof![Just(SealingPolicy::Sensitive), Just(SealingPolicy::All)]
}

/// Generates any values, some of them with the reserved member.
fn values() -> impl Strategy<Value = Json> {
    let reserved = (json_values(), json_values()).prop_map(|(inner, other)| {
        Json::parse(&format!(
            r#"{{"$sealed":{},"z":[{}]}}"#,
            inner.as_str(),
            other.as_str()
        ))
        .unwrap()
    });
    prop_oneof![4 => json_values(), 1 => reserved]
}

fn with_value(value: &Json) -> Entry {
    entry(1, &format!(r#"{{"a":1,"p":{}}}"#, value.as_str()), &["p"])
}

/// Generates entries with any inputs and outputs, and with marks on existing and missing paths.
fn entries() -> impl Strategy<Value = Entry> {
    let side = || {
        (
            json_objects(),
            proptest::collection::vec((any::<Index>(), any::<bool>()), 0..3),
        )
    };
    (side(), side(), values(), proptest::option::of("[ -~]{0,12}")).prop_map(|(inputs, outputs, odd, id)| {
        let marks = |names: &[String], picks: &[(Index, bool)]| -> Vec<String> {
            let one = |(index, lost): &(Index, bool)| match names.is_empty() || *lost {
                true => "/lost/0".to_owned(),
                false => names[index.index(names.len())].clone(),
            };
            picks.iter().map(one).collect()
        };
        let ((inputs, input_names), input_picks) = inputs;
        let ((outputs, output_names), output_picks) = outputs;
        let mut entry = Entry::leaf(Address::new("a").unwrap(), "kind");
        entry.uid = Some(Uid::from_bits([1; 16]));
        entry.sensitive_inputs = marks(&input_names, &input_picks);
        entry.sensitive_outputs = marks(&output_names, &output_picks);
        (entry.inputs, entry.outputs) = (Some(inputs), Some(outputs));
        entry.extensions.insert("some".to_owned(), odd.clone());
        entry.unknown.insert("x-odd".to_owned(), odd);
        entry.id = id;
        entry
    })
}

/// Gives the entries of pending operations uids, as the manager does before it seals them.
fn sealable(mut snapshot: Snapshot) -> Snapshot {
    snapshot.lineage = snapshot.lineage.map(|_| lineage(1));
    for operation in &mut snapshot.pending_operations {
        let uid = Some(Uid::from_bits(*operation.id.as_bytes()));
        let result_entry = operation.result.as_mut().and_then(|result| result.entry.as_mut());
        for entry in operation.entry.iter_mut().chain(result_entry) {
            Arc::make_mut(entry).uid = uid;
        }
    }
    snapshot
}

proptest! {
    #![proptest_config(property_config())]

    #[test]
    fn sealed_value_opens_to_the_same_value(value in values(), policy in policies()) {
        let entry = with_value(&value);
        let sealed = sealer(policy).seal_entry(&entry).unwrap();
        let ends_sealed = shape(outputs(&sealed)).ends_with("\"p\":sealed}");
        prop_assert!(ends_sealed);
        prop_assert!(sealer(policy).open_entry(&sealed).unwrap() == entry);
    }

    #[test]
    fn sealed_entry_round_trips_and_stays_canonical(entry in entries(), policy in policies()) {
        let sealer = sealer(policy);
        let sealed = sealer.seal_entry(&entry).unwrap();
        prop_assert!(sealer.open_entry(&sealed).unwrap() == entry);
        for side in [&sealed.inputs, &sealed.outputs].into_iter().flatten() {
            let text = side.json().as_str();
            let again = Json::parse(text).unwrap();
            prop_assert_eq!(again.as_str(), text);
        }
        let text = codec::entry_text(&sealed);
        let read: Entry = serde_json::from_str(&text).unwrap();
        prop_assert!(read == sealed);
    }

    #[test]
    fn sealing_again_keeps_sealed_bytes(entry in entries(), policy in policies()) {
        let sealer = sealer(policy);
        let sealed = sealer.seal_entry(&entry).unwrap();
        prop_assert!(sealer.seal_entry(&sealed).unwrap() == sealed, "sealing twice");
        let opened = sealer.open_entry(&sealed).unwrap();
        prop_assert!(sealer.seal_entry(&opened).unwrap() == sealed, "opening and sealing");
    }

    #[test]
    fn unchanged_value_keeps_its_ciphertext(old in json_values(), new in json_values(), kept in json_values()) {
        let with = |other: &Json| entry(1, &format!(r#"{{"k":{},"o":{}}}"#, kept.as_str(), other.as_str()), &["k", "o"]);
        let seal = |entry: &Entry| sealer(SealingPolicy::Sensitive).seal_entry(entry).unwrap();
        let (before, after) = (seal(&with(&old)), seal(&with(&new)));
        let field = |entry: &Entry, name: &str| entry.outputs.as_ref().unwrap().get(name).unwrap().text().to_owned();
        prop_assert_eq!(field(&before, "k"), field(&after, "k"));
        prop_assert_eq!(field(&before, "o") == field(&after, "o"), old == new);
    }

    #[test]
    fn any_single_changed_bit_is_refused(value in json_values(), at: Index) {
        let sealer = sealer(SealingPolicy::Sensitive);
        let sealed = sealer.seal_entry(&with_value(&value)).unwrap();
        let text = outputs(&sealed);
        let (start, end) = (text.rfind(':').unwrap() + 1, text.rfind('"').unwrap());
        let mut bytes = STANDARD_NO_PAD.decode(&text[start..end]).unwrap();
        let bit = at.index(bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        let changed = format!("{}{}{}", &text[..start], STANDARD_NO_PAD.encode(&bytes), &text[end..]);
        let mut entry = sealed.clone();
        entry.outputs = Properties::new(Json::parse(&changed).unwrap());
        prop_assert!(sealer.open_entry(&entry).is_err());
    }

    #[test]
    fn any_single_changed_character_is_refused(value in json_values(), at: Index, to in "[A-Za-z0-9+/=:]") {
        let sealer = sealer(SealingPolicy::Sensitive);
        let sealed = sealer.seal_entry(&with_value(&value)).unwrap();
        let text = outputs(&sealed);
        let start = text.find("v1:").unwrap();
        let at = start + at.index(text.rfind('"').unwrap() - start);
        prop_assume!(text[at..=at] != to);
        let changed = format!("{}{to}{}", &text[..at], &text[at + 1..]);
        let mut entry = sealed.clone();
        entry.outputs = Properties::new(Json::parse(&changed).unwrap());
        prop_assert!(sealer.open_entry(&entry).is_err());
        let end = changed.rfind('"').unwrap();
        let is_still_one = state_core::sealed::split(&changed[start..end]).is_some();
        prop_assert_eq!(sealer.seal_entry(&entry).is_err(), is_still_one);
    }
}

proptest! {
    #![proptest_config(property_config())]

    #[test]
    fn sealing_keeps_entry_order_and_verification_results(snapshot in snapshots(10), policy in policies()) {
        let snapshot = sealable(snapshot);
        let before = verify::verify(&snapshot);
        let sealer = sealer(policy);
        let sealed = sealer.seal_snapshot(&snapshot).unwrap();
        prop_assert!(is_topological(&sealed.entries));
        prop_assert_eq!(&verify::verify(&sealed), &before);
        let read = codec::decode("snapshot", &codec::encode_stored(&sealed)).unwrap();
        prop_assert!(read == sealed, "the stored form is lossless");
        let open = sealer.open_snapshot(&read).unwrap();
        prop_assert!(is_topological(&open.entries));
        prop_assert_eq!(&verify::verify(&open), &before);
        prop_assert!(open == snapshot);
        prop_assert!(sealer.seal_snapshot(&sealed).unwrap() == sealed);
    }

    #[test]
    fn resealing_under_another_key_keeps_the_values(snapshot in snapshots(6), from in policies(), to in policies()) {
        let snapshot = sealable(snapshot);
        let (old, new) = (sealer(from), Sealer::new(key(2), lineage(2), to));
        let mut reopened = old.open_snapshot(&old.seal_snapshot(&snapshot).unwrap()).unwrap();
        reopened.lineage = reopened.lineage.map(|_| new.lineage());
        let resealed = new.seal_snapshot(&reopened).unwrap();
        let mut open = new.open_snapshot(&resealed).unwrap();
        open.lineage = snapshot.lineage;
        prop_assert!(open == snapshot);
    }
}
