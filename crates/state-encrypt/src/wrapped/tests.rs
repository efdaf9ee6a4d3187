//! Who opens a wrapped key, and what is said to those who don't.

use super::*;
use crate::fixtures::{CHEAP, key, person};
use crate::passphrase::Passphrase;

fn files(wraps: &[Wrap]) -> Vec<Vec<u8>> {
    wraps.iter().map(|wrap| wrap.bytes.clone()).collect()
}

fn passphrase(text: &str) -> Passphrase {
    Passphrase::new(text).unwrap()
}

#[test]
fn each_of_several_recipients_opens_the_one_file() {
    let ((anna, mut recipients), (bert, of_bert)) = (person(), person());
    recipients.add(of_bert.keys()[0].clone());
    let wraps = wrap(&key(1), &recipients).unwrap();
    assert_eq!(wraps.len(), 1);
    assert_eq!(wraps[0].recipients.len(), 2);
    for who in [anna, bert] {
        assert!(unwrap(&files(&wraps), &who, key(1).id()).unwrap() == *key(1));
        assert_eq!(who.files_opened(), 1, "one unwrapping an opening");
    }
}

#[test]
fn a_passphrase_has_a_file_of_its_own() {
    let (anna, mut recipients) = person();
    recipients
        .add_passphrase_with_work(passphrase("correct horse"), CHEAP)
        .unwrap();
    recipients
        .add_passphrase_with_work(passphrase("battery staple"), CHEAP)
        .unwrap();
    let wraps = wrap(&key(1), &recipients).unwrap();
    let kinds: Vec<bool> = wraps.iter().map(Wrap::is_passphrase).collect();
    assert_eq!(kinds, [false, true, true]);
    let phrases = ["correct horse", "battery staple"].map(|text| Identities::of_passphrase(passphrase(text)));
    for who in phrases.into_iter().chain([anna]) {
        assert!(unwrap(&files(&wraps), &who, key(1).id()).unwrap() == *key(1));
        assert_eq!(who.files_opened(), 1);
    }
}

#[test]
fn nobody_to_wrap_to_is_refused() {
    assert_eq!(wrap(&key(1), &Recipients::default()), Err(Error::NoRecipient));
}

#[test]
fn a_wrong_identity_is_told_with_the_key_that_it_lacks() {
    let ((_, mut recipients), (mut stranger, _)) = (person(), person());
    recipients
        .add_passphrase_with_work(passphrase("correct horse"), CHEAP)
        .unwrap();
    stranger.add_passphrase(passphrase("wrong horse"));
    let wraps = files(&wrap(&key(1), &recipients).unwrap());
    let refused = unwrap(&wraps, &stranger, key(1).id()).unwrap_err();
    let expected = Error::WrongIdentity {
        key: key(1).id(),
        identities: 2,
    };
    assert_eq!(refused, expected);
    assert_eq!(stranger.files_opened(), 0);
}

#[test]
fn an_unknown_key_id_is_told() {
    let (anna, _) = person();
    let none: [&[u8]; 0] = [];
    let key = key(1).id();
    assert_eq!(unwrap(&none, &anna, key).unwrap_err(), Error::UnknownKey { key });
}

#[test]
fn a_file_with_another_key_is_told_and_does_not_hide_the_right_one() {
    let (anna, recipients) = person();
    let other = files(&wrap(&key(2), &recipients).unwrap());
    let refused = unwrap(&other, &anna, key(1).id()).unwrap_err();
    let (expected, found) = (key(1).id(), key(2).id());
    assert_eq!(refused, Error::OtherKey { expected, found });
    let right = files(&wrap(&key(1), &recipients).unwrap());
    assert!(unwrap(&[other, right].concat(), &anna, key(1).id()).is_ok());
}

#[test]
fn a_work_factor_beyond_the_cap_is_refused_before_the_work() {
    let mut recipients = Recipients::default();
    recipients
        .add_passphrase_with_work(passphrase("correct horse"), 4)
        .unwrap();
    let wraps = files(&wrap(&key(1), &recipients).unwrap());
    let who = Identities::of_passphrase(passphrase("correct horse")).with_max_work_factor(3);
    let refused = unwrap(&wraps, &who, key(1).id()).unwrap_err();
    let expected = Error::WorkFactor {
        key: key(1).id(),
        file: 1,
        needed: 4,
        cap: 3,
    };
    assert_eq!(refused, expected);
    assert!(unwrap(&wraps, &who.with_max_work_factor(4), key(1).id()).is_ok());
}

#[test]
fn an_absurd_work_factor_in_a_file_is_refused_without_work_or_panic() {
    let mut recipients = Recipients::default();
    recipients
        .add_passphrase_with_work(passphrase("correct horse"), 9)
        .unwrap();
    let wraps = wrap(&key(1), &recipients).unwrap();
    let line = |bytes: &[u8]| bytes.iter().position(|byte| *byte == b'\n').unwrap();
    let second = line(&wraps[0].bytes) + 1;
    let end = second + line(&wraps[0].bytes[second..]);
    let who = Identities::of_passphrase(passphrase("correct horse"));
    for (factor, needed) in [("23", 23), ("63", 63)] {
        let mut bytes = wraps[0].bytes.clone();
        bytes.splice(end - 1..end, factor.bytes());
        match unwrap(&[bytes], &who, key(1).id()).unwrap_err() {
            Error::WorkFactor {
                needed: found,
                cap: 22,
                ..
            } => assert_eq!(found, needed),
            other => panic!("{other}"),
        }
    }
}

#[test]
fn every_cut_and_every_changed_byte_of_a_file_is_refused() {
    let (anna, recipients) = person();
    let whole = wrap(&key(1), &recipients).unwrap().remove(0).bytes;
    for cut in 0..whole.len() {
        assert!(
            unwrap(&[&whole[..cut]], &anna, key(1).id()).is_err(),
            "cut at {cut}"
        );
    }
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 1;
        let refused = unwrap(&[changed], &anna, key(1).id()).unwrap_err();
        let is_right = matches!(refused, Error::Wrapped { .. } | Error::WrongIdentity { .. });
        assert!(is_right, "byte {at}: {refused}");
    }
    let huge = vec![b'a'; MAX_FILE + 1];
    assert!(matches!(
        unwrap(&[huge], &anna, key(1).id()),
        Err(Error::Wrapped { .. })
    ));
}

#[test]
fn a_file_that_holds_something_else_is_refused() {
    let (anna, recipients) = person();
    let all = age_recipients(&recipients).unwrap();
    for content in ["hunter2!", "state-data-key: 2\n", &"x".repeat(10_000)] {
        let mut bytes = Vec::new();
        let all = all.iter().map(AsRef::as_ref);
        let mut output = Encryptor::with_recipients(all)
            .unwrap()
            .wrap_output(&mut bytes)
            .unwrap();
        output.write_all(content.as_bytes()).unwrap();
        output.finish().unwrap();
        let refused = unwrap(&[bytes], &anna, key(1).id()).unwrap_err();
        assert!(matches!(refused, Error::Wrapped { file: 1, .. }), "{refused}");
        assert!(!format!("{refused} {refused:?}").contains("hunter2"));
    }
}

#[cfg(feature = "ssh")]
#[test]
fn an_ssh_key_opens_what_is_wrapped_to_it() {
    let public = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAtRKmWSq9YIxWK3kdpf5DaYHEJzvp43OwwHa9GUfqlQ a comment";
    let who = Identities::parse("ssh", include_str!("../identity/ssh_plain")).unwrap();
    let (stranger, _) = person();
    let wraps = files(&wrap(&key(1), &public.parse().unwrap()).unwrap());
    assert!(unwrap(&wraps, &who, key(1).id()).unwrap() == *key(1));
    assert!(unwrap(&wraps, &stranger, key(1).id()).is_err());
}
