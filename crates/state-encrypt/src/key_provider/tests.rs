//! The contract of core, kept with age.

use super::*;
use crate::fixtures::{CHEAP, entry, lineage, person};
use crate::passphrase::Passphrase;
use state_core::ErrorKind;
use state_core::sealing::TagDomain;
use state_core::testkit::clock::SeededEntropy;

fn keys(identities: Identities, recipients: Recipients) -> AgeKeys {
    AgeKeys::new(identities, recipients, Arc::new(SeededEntropy::new(1)))
}

fn passphrase() -> Passphrase {
    Passphrase::new("correct horse").unwrap()
}

#[test]
fn a_key_goes_to_the_store_and_comes_back() {
    let (anna, recipients) = person();
    let writer = keys(Identities::default(), recipients);
    let made = writer.generate(lineage(1)).unwrap();
    let wrapped = writer.wrap(made.id(), None).unwrap();
    let reader = keys(anna, Recipients::default());
    let opened = reader.unwrap(lineage(1), made.id(), &wrapped.files).unwrap();
    assert_eq!(opened.id(), made.id());
    let plain = entry(1, r#"{"p":"hunter2!"}"#, &["p"]);
    let sealed = made.seal_entry(SealingPolicy::Sensitive, &plain).unwrap();
    assert!(opened.open_entry(&sealed).unwrap() == plain);
    assert_eq!(opened.tag(TagDomain::Head, b"x"), made.tag(TagDomain::Head, b"x"));
    assert_ne!(
        opened.tag(TagDomain::Head, b"x"),
        made.tag(TagDomain::Frame, b"x")
    );
    assert_eq!(opened.endorse(made.id(), 2), made.endorse(made.id(), 2));
    assert_ne!(opened.endorse(made.id(), 3), made.endorse(made.id(), 2));
    let there = reader.unwrap(lineage(2), made.id(), &wrapped.files).unwrap();
    assert_ne!(there.tag(TagDomain::Head, b"x"), made.tag(TagDomain::Head, b"x"));
    assert_eq!(there.open_entry(&sealed).unwrap_err().kind(), ErrorKind::Sealed);
}

#[test]
fn the_recipients_of_a_key_can_be_named_anew() {
    let ((_, mut recipients), (bert, of_bert)) = (person(), person());
    recipients.add_passphrase_with_work(passphrase(), CHEAP).unwrap();
    let keys = keys(Identities::default(), recipients.clone());
    let made = keys.generate(lineage(1)).unwrap();
    let all = keys.wrap(made.id(), None).unwrap();
    assert_eq!(all.recipients, [recipients.keys()[0].as_str(), "passphrase"]);
    assert_eq!(all.files.len(), 2);
    let bert_alone = [of_bert.keys()[0].to_string()];
    let wrapped = keys.wrap(made.id(), Some(&bert_alone)).unwrap();
    assert_eq!(wrapped.recipients, bert_alone);
    assert!(unwrap(&wrapped.files, &bert, made.id()).is_ok());
    let again = keys.wrap(made.id(), Some(&["passphrase".to_owned()])).unwrap();
    let knows = Identities::of_passphrase(passphrase());
    assert!(unwrap(&again.files, &knows, made.id()).is_ok());
}

#[test]
fn what_the_contract_refuses_is_refused() {
    let (_, recipients) = person();
    let keys = keys(Identities::default(), recipients);
    let made = keys.generate(lineage(1)).unwrap();
    let kind = |lines: &[&str]| {
        let lines: Vec<String> = lines.iter().map(|&line| line.to_owned()).collect();
        keys.wrap(made.id(), Some(&lines)).unwrap_err().kind()
    };
    assert_eq!(kind(&[]), ErrorKind::Sealed);
    assert_eq!(kind(&["age1typo"]), ErrorKind::Invalid);
    assert_eq!(kind(&["passphrase"]), ErrorKind::Invalid);
    let stranger = crate::fixtures::key(9).id();
    assert_eq!(keys.wrap(stranger, None).unwrap_err().kind(), ErrorKind::Sealed);
    let wrapped = keys.wrap(made.id(), None).unwrap();
    let refused = keys.unwrap(lineage(1), made.id(), &wrapped.files).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Sealed);
    assert!(!format!("{keys:?}").contains("AGE-SECRET"));
}
