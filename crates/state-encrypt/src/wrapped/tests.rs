//! Tests of which identities unwrap a data key, and of the errors for the others.

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
fn every_recipient_opens_the_shared_file() {
    let ((anna, mut recipients), (bert, of_bert)) = (person(), person());
    recipients.add(of_bert.keys()[0].clone());
    let wraps = wrap(&key(1), &recipients).unwrap();
    assert_eq!(wraps.len(), 1);
    assert_eq!(wraps[0].recipients.len(), 2);
    for identities in [anna, bert] {
        assert!(unwrap(&files(&wraps), &identities, key(1).id()).unwrap() == *key(1));
        assert_eq!(identities.files_opened(), 1, "one file is opened per unwrapping");
    }
}

#[test]
fn every_passphrase_gets_its_own_file() {
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
    for identities in phrases.into_iter().chain([anna]) {
        assert!(unwrap(&files(&wraps), &identities, key(1).id()).unwrap() == *key(1));
        assert_eq!(identities.files_opened(), 1);
    }
}

#[test]
fn wrapping_without_recipients_is_refused() {
    assert_eq!(wrap(&key(1), &Recipients::default()), Err(Error::NoRecipient));
}

#[test]
fn wrong_identity_error_names_the_required_key() {
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
fn unwrapping_without_files_reports_unknown_key() {
    let (anna, _) = person();
    let none: [&[u8]; 0] = [];
    let key = key(1).id();
    assert_eq!(unwrap(&none, &anna, key).unwrap_err(), Error::UnknownKey { key });
}

#[test]
fn file_with_another_key_does_not_hide_the_right_file() {
    let (anna, recipients) = person();
    let other = files(&wrap(&key(2), &recipients).unwrap());
    let refused = unwrap(&other, &anna, key(1).id()).unwrap_err();
    let (expected, found) = (key(1).id(), key(2).id());
    assert_eq!(refused, Error::OtherKey { expected, found });
    let right = files(&wrap(&key(1), &recipients).unwrap());
    assert!(unwrap(&[other, right].concat(), &anna, key(1).id()).is_ok());
}

#[test]
fn work_factor_beyond_a_configured_cap_is_refused() {
    let mut recipients = Recipients::default();
    recipients
        .add_passphrase_with_work(passphrase("correct horse"), 4)
        .unwrap();
    let wraps = files(&wrap(&key(1), &recipients).unwrap());
    let identities = Identities::of_passphrase(passphrase("correct horse")).with_max_work_factor(3);
    let refused = unwrap(&wraps, &identities, key(1).id()).unwrap_err();
    let expected = Error::WorkFactor {
        key: key(1).id(),
        file: 1,
        needed: 4,
        cap: 3,
    };
    assert_eq!(refused, expected);
    assert!(unwrap(&wraps, &identities.with_max_work_factor(4), key(1).id()).is_ok());
}

#[test]
fn planted_passphrase_files_cost_a_bounded_amount_of_work() {
    let wrapped = |text: &str, work: u8| {
        let mut recipients = Recipients::default();
        recipients
            .add_passphrase_with_work(passphrase(text), work)
            .unwrap();
        files(&wrap(&key(1), &recipients).unwrap())
    };
    let own = wrapped("correct horse", 4);
    let identities = Identities::of_passphrase(passphrase("correct horse")).with_max_work_factor(5);
    let planted = |count: usize| {
        let planted = wrapped("battery staple", 5);
        planted.iter().cycle().take(count).cloned().collect::<Vec<_>>()
    };
    // The limit is 2 × 2⁵. Planted files with more work come after the own file.
    let found = unwrap(&[planted(9), own].concat(), &identities, key(1).id());
    assert_eq!(found.unwrap().id(), key(1).id());
    let refused = |count: usize| unwrap(&planted(count), &identities, key(1).id()).unwrap_err();
    assert!(matches!(refused(2), Error::WrongIdentity { .. }));
    assert_eq!(refused(3), Error::TotalWork { key: key(1).id() });
}

#[test]
fn edited_work_factor_beyond_the_default_cap_is_refused() {
    let mut recipients = Recipients::default();
    recipients
        .add_passphrase_with_work(passphrase("correct horse"), 9)
        .unwrap();
    let wraps = wrap(&key(1), &recipients).unwrap();
    let line = |bytes: &[u8]| bytes.iter().position(|byte| *byte == b'\n').unwrap();
    let second = line(&wraps[0].bytes) + 1;
    let end = second + line(&wraps[0].bytes[second..]);
    let identities = Identities::of_passphrase(passphrase("correct horse"));
    for (factor, needed) in [("23", 23), ("63", 63)] {
        let mut bytes = wraps[0].bytes.clone();
        bytes.splice(end - 1..end, factor.bytes());
        match unwrap(&[bytes], &identities, key(1).id()).unwrap_err() {
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
fn every_truncated_or_changed_file_is_refused() {
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
fn file_without_a_data_key_is_refused() {
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
fn ssh_key_opens_a_file_wrapped_to_it() {
    let public = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAtRKmWSq9YIxWK3kdpf5DaYHEJzvp43OwwHa9GUfqlQ a comment";
    let identities = Identities::parse("ssh", include_str!("../identity/ssh_plain")).unwrap();
    let (stranger, _) = person();
    let wraps = files(&wrap(&key(1), &public.parse().unwrap()).unwrap());
    assert!(unwrap(&wraps, &identities, key(1).id()).unwrap() == *key(1));
    assert!(unwrap(&wraps, &stranger, key(1).id()).is_err());
}
