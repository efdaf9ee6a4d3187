//! Tests that age keys fulfil the `KeyProvider` contract.

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
fn wrapped_key_unwraps_in_another_provider() {
    let (anna, recipients) = person();
    let writer = keys(Identities::default(), recipients);
    let generated = writer.generate(lineage(1)).unwrap();
    let wrapped = writer.wrap(generated.id(), None).unwrap();
    let reader = keys(anna, Recipients::default());
    let opened = reader.unwrap(lineage(1), generated.id(), &wrapped.files).unwrap();
    assert_eq!(opened.id(), generated.id());
    let plain = entry(1, r#"{"p":"hunter2!"}"#, &["p"]);
    let sealed = generated.seal_entry(SealingPolicy::Sensitive, &plain).unwrap();
    assert!(opened.open_entry(&sealed).unwrap() == plain);
    assert_eq!(
        opened.tag(TagDomain::Head, b"x"),
        generated.tag(TagDomain::Head, b"x")
    );
    assert_ne!(
        opened.tag(TagDomain::Head, b"x"),
        generated.tag(TagDomain::Frame, b"x")
    );
    assert_eq!(
        opened.endorse(generated.id(), 2),
        generated.endorse(generated.id(), 2)
    );
    assert_ne!(
        opened.endorse(generated.id(), 3),
        generated.endorse(generated.id(), 2)
    );
    let there = reader.unwrap(lineage(2), generated.id(), &wrapped.files).unwrap();
    assert_ne!(
        there.tag(TagDomain::Head, b"x"),
        generated.tag(TagDomain::Head, b"x")
    );
    assert_eq!(there.open_entry(&sealed).unwrap_err().kind(), ErrorKind::Sealed);
}

#[test]
fn key_can_be_wrapped_to_other_recipients() {
    let ((_, mut recipients), (bert, of_bert)) = (person(), person());
    recipients.add_passphrase_with_work(passphrase(), CHEAP).unwrap();
    let keys = keys(Identities::default(), recipients.clone());
    let generated = keys.generate(lineage(1)).unwrap();
    let all = keys.wrap(generated.id(), None).unwrap();
    assert_eq!(all.recipients, [recipients.keys()[0].as_str(), "passphrase"]);
    assert_eq!(all.files.len(), 2);
    let bert_alone = [of_bert.keys()[0].to_string()];
    let wrapped = keys.wrap(generated.id(), Some(&bert_alone)).unwrap();
    assert_eq!(wrapped.recipients, bert_alone);
    assert!(unwrap(&wrapped.files, &bert, generated.id()).is_ok());
    let again = keys
        .wrap(generated.id(), Some(&["passphrase".to_owned()]))
        .unwrap();
    let knows = Identities::of_passphrase(passphrase());
    assert!(unwrap(&again.files, &knows, generated.id()).is_ok());
}

#[test]
fn contract_violations_return_the_required_errors() {
    let (_, recipients) = person();
    let keys = keys(Identities::default(), recipients);
    let generated = keys.generate(lineage(1)).unwrap();
    let kind = |lines: &[&str]| {
        let lines: Vec<String> = lines.iter().map(|&line| line.to_owned()).collect();
        keys.wrap(generated.id(), Some(&lines)).unwrap_err().kind()
    };
    assert_eq!(kind(&[]), ErrorKind::Sealed);
    assert_eq!(kind(&["age1typo"]), ErrorKind::Invalid);
    assert_eq!(kind(&["passphrase"]), ErrorKind::Invalid);
    let stranger = crate::fixtures::key(9).id();
    assert_eq!(keys.wrap(stranger, None).unwrap_err().kind(), ErrorKind::Sealed);
    let wrapped = keys.wrap(generated.id(), None).unwrap();
    let refused = keys
        .unwrap(lineage(1), generated.id(), &wrapped.files)
        .unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Sealed);
    assert!(!format!("{keys:?}").contains("AGE-SECRET"));
}

#[test]
fn wrong_passphrase_is_tried_once_until_forgotten() {
    let mut recipients = Recipients::default();
    recipients.add_passphrase_with_work(passphrase(), CHEAP).unwrap();
    let writer = keys(Identities::default(), recipients);
    let id = writer.generate(lineage(1)).unwrap().id();
    let wrapped = writer.wrap(id, None).unwrap();
    let wrong = Identities::of_passphrase(Passphrase::new("battery staple").unwrap());
    let mut reader = keys(wrong, Recipients::default());
    let refused = |reader: &AgeKeys| {
        let error = reader.unwrap(lineage(1), id, &wrapped.files).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Sealed, "{error}");
    };
    refused(&reader);
    // With the right passphrase another attempt would succeed.
    reader.identities = Identities::of_passphrase(passphrase());
    refused(&reader);
    reader.forget_failures();
    reader.unwrap(lineage(1), id, &wrapped.files).unwrap();
    let opened = reader.identities.files_opened();
    reader.unwrap(lineage(2), id, &wrapped.files).unwrap();
    assert_eq!(reader.identities.files_opened(), opened, "opened once");
    // Other files are another attempt.
    assert!(reader.unwrap(lineage(1), id, &[]).is_err());
}
