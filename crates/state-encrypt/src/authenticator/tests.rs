//! Tests which changes of an object its tag detects.

use super::*;
use proptest::collection::vec;
use proptest::prelude::*;
use state_core::testkit::run::property_config;

fn authenticator(key: u8, lineage: u8) -> Authenticator {
    Authenticator::new(
        &DataKey::from_bytes(&[key; 32]),
        Lineage::from_bits([lineage; 16]),
    )
}

proptest! {
    #![proptest_config(property_config())]

    #[test]
    fn tag_verifies_only_the_tagged_bytes(content in vec(any::<u8>(), 0..64), bit: prop::sample::Index) {
        let here = authenticator(1, 1);
        let tag = here.tag(TagDomain::Frame, &[b"frame 7", &content]);
        let verify = |parts: &[&[u8]], tag: &[u8]| here.verify("frame 7", TagDomain::Frame, parts, tag).is_ok();
        prop_assert!(verify(&[b"frame 7", &content], &tag));
        prop_assert!(!verify(&[b"frame 8", &content], &tag));
        let mut changed = content.clone();
        changed.push(0);
        prop_assert!(!verify(&[b"frame 7", &changed], &tag));
        if !content.is_empty() {
            let bit = bit.index(content.len() * 8);
            changed = content.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(!verify(&[b"frame 7", &changed], &tag));
        }
    }
}

#[test]
fn tag_depends_on_key_lineage_and_domain() {
    let tag = authenticator(1, 1).tag(TagDomain::Head, &[b"x"]);
    assert_ne!(tag, authenticator(2, 1).tag(TagDomain::Head, &[b"x"]));
    assert_ne!(tag, authenticator(1, 2).tag(TagDomain::Head, &[b"x"]));
    assert_ne!(tag, authenticator(1, 1).tag(TagDomain::Frame, &[b"x"]));
    assert_ne!(tag, authenticator(1, 1).tag(TagDomain::Head, &[b"x", b""]));
}

#[test]
fn tag_of_wrong_length_is_refused() {
    let here = authenticator(1, 1);
    let tag = here.tag(TagDomain::Head, &[b"x"]);
    for length in [0, 1, 8, 15, 16, 17, 31] {
        let refused = here.verify("the head", TagDomain::Head, &[b"x"], &tag[..length]);
        let forged = Error::Forged {
            object: "the head".to_owned(),
        };
        assert_eq!(refused, Err(forged), "{length}");
    }
}

#[test]
fn tag_with_any_changed_bit_is_refused() {
    let here = authenticator(1, 1);
    let tag = here.tag(TagDomain::Spool, &[b"x"]);
    for bit in 0..256 {
        let mut changed = tag;
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(
            here.verify("a document", TagDomain::Spool, &[b"x"], &changed)
                .is_err()
        );
    }
}
