//! Tests of the providers of random values: a value is drawn once, reused by later runs, and marked as secret if it is
//! a password.

use super::{ProviderHarness, goal, ops, refusals};
use state_engine::{Goal, StepOp};

fn password(inputs: &str) -> Goal {
    goal("password", "random:password", inputs)
}

#[tokio::test]
async fn password_is_drawn_once_and_is_secret() {
    let harness = ProviderHarness::new().await;
    harness.done(&[password("{}")]).await;
    let first = harness.output("password", "result").await.unwrap();
    assert_eq!(first.trim_matches('"').chars().count(), 24);
    assert!(!harness.done(&[password("{}")]).await.has_changes());
    assert!(!harness.refresh().await.has_changes());
    let entry = harness.entry("password").await.unwrap();
    assert_eq!(entry.sensitive_outputs, ["result"]);
    assert!(!entry.id.as_ref().unwrap().contains(first.trim_matches('"')));
    let report = harness.done(&[password(r#"{"keepers":{"year":2}}"#)]).await;
    assert!(ops(&report).contains(&StepOp::CreateReplacement), "{report:?}");
    let second = harness.output("password", "result").await.unwrap();
    assert_ne!(first, second);
    let messages = harness.messages().join("\n");
    for result in [first, second] {
        assert!(!messages.contains(result.trim_matches('"')), "{messages}");
    }
    assert!(harness.destroy().await.succeeded());
}

#[tokio::test]
async fn password_has_the_requested_characters() {
    let harness = ProviderHarness::new().await;
    let inputs = r#"{"length":40,"upper":false,"min_digits":30,"min_special":5,"special_characters":"-_"}"#;
    harness.done(&[password(inputs)]).await;
    let result = harness.output("password", "result").await.unwrap();
    let result = result.trim_matches('"');
    let count = |is: fn(char) -> bool| result.chars().filter(|c| is(*c)).count();
    assert_eq!(result.len(), 40);
    assert!(count(|c| c.is_ascii_digit()) >= 30, "{result}");
    assert!(count(|c| c == '-' || c == '_') >= 5, "{result}");
    assert_eq!(count(|c| c.is_ascii_uppercase()), 0, "{result}");
    let nonsense = r#"{"length":8,"lower":false,"min_lower":1,"min_digits":8,"special_characters":"aa"}"#;
    let messages = refusals(&harness.up(&[password(nonsense)]).await);
    for part in [
        "`min_lower` contradicts",
        "`length` is less than the 9",
        "`special_characters` must",
    ] {
        assert!(messages.contains(part), "{messages}");
    }
    let none = r#"{"lower":false,"upper":false,"digits":false,"special":false}"#;
    assert!(refusals(&harness.up(&[password(none)]).await).contains("can't all be false"));
    assert!(
        refusals(&harness.up(&[password(r#"{"length":7}"#)]).await).contains("whole number from 8 to 1024")
    );
}

#[tokio::test]
async fn random_id_has_its_prefix_and_two_encodings() {
    let harness = ProviderHarness::new().await;
    let inputs = r#"{"bytes":3,"prefix":"web-"}"#;
    let goals = [
        goal("a", "random:id", inputs),
        goal("b", "random:id", r#"{"bytes":1}"#),
    ];
    harness.done(&goals).await;
    let hex = harness.output("a", "hex").await.unwrap();
    let base64 = harness.output("a", "base64url").await.unwrap();
    assert_eq!(
        (hex.len(), base64.len()),
        (2 + 4 + 6, 2 + 4 + 4),
        "{hex} {base64}"
    );
    assert!(hex.starts_with("\"web-") && base64.starts_with("\"web-"));
    let (a, b) = (
        harness.entry("a").await.unwrap(),
        harness.entry("b").await.unwrap(),
    );
    assert_ne!(a.id, b.id);
    assert_eq!(
        b.id.as_ref().unwrap().len(),
        32,
        "the resource id is longer than the random value, which could collide"
    );
}
