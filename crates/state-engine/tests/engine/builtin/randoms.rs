//! Random values: drawn once, kept, secret where they are.

use super::{ProviderHarness, goal, ops, refusals};
use state_engine::{Goal, StepOp};

fn password(inputs: &str) -> Goal {
    goal("password", "random:password", inputs)
}

#[tokio::test]
async fn password_is_drawn_once_and_is_secret() {
    let bench = ProviderHarness::new().await;
    bench.done(&[password("{}")]).await;
    let first = bench.output("password", "result").await.unwrap();
    assert_eq!(first.trim_matches('"').chars().count(), 24);
    assert!(!bench.done(&[password("{}")]).await.has_changes());
    assert!(!bench.refresh().await.has_changes());
    let entry = bench.entry("password").await.unwrap();
    assert_eq!(entry.sensitive_outputs, ["result"]);
    assert!(!entry.id.as_ref().unwrap().contains(first.trim_matches('"')));
    let report = bench.done(&[password(r#"{"keepers":{"year":2}}"#)]).await;
    assert!(ops(&report).contains(&StepOp::CreateReplacement), "{report:?}");
    let second = bench.output("password", "result").await.unwrap();
    assert_ne!(first, second);
    let messages = bench.messages().join("\n");
    for result in [first, second] {
        assert!(!messages.contains(result.trim_matches('"')), "{messages}");
    }
    assert!(bench.destroy().await.succeeded());
}

#[tokio::test]
async fn password_has_the_requested_characters() {
    let bench = ProviderHarness::new().await;
    let inputs = r#"{"length":40,"upper":false,"min_digits":30,"min_special":5,"special_characters":"-_"}"#;
    bench.done(&[password(inputs)]).await;
    let result = bench.output("password", "result").await.unwrap();
    let result = result.trim_matches('"');
    let count = |is: fn(char) -> bool| result.chars().filter(|c| is(*c)).count();
    assert_eq!(result.len(), 40);
    assert!(count(|c| c.is_ascii_digit()) >= 30, "{result}");
    assert!(count(|c| c == '-' || c == '_') >= 5, "{result}");
    assert_eq!(count(|c| c.is_ascii_uppercase()), 0, "{result}");
    let nonsense = r#"{"length":8,"lower":false,"min_lower":1,"min_digits":8,"special_characters":"aa"}"#;
    let messages = refusals(&bench.up(&[password(nonsense)]).await);
    for part in [
        "`min_lower` contradicts",
        "`length` is less than the 9",
        "`special_characters` must",
    ] {
        assert!(messages.contains(part), "{messages}");
    }
    let none = r#"{"lower":false,"upper":false,"digits":false,"special":false}"#;
    assert!(refusals(&bench.up(&[password(none)]).await).contains("can't all be false"));
    assert!(
        refusals(&bench.up(&[password(r#"{"length":7}"#)]).await).contains("whole number from 8 to 1024")
    );
}

#[tokio::test]
async fn random_id_has_two_encodings_after_its_prefix() {
    let bench = ProviderHarness::new().await;
    let inputs = r#"{"bytes":3,"prefix":"web-"}"#;
    let goals = [
        goal("a", "random:id", inputs),
        goal("b", "random:id", r#"{"bytes":1}"#),
    ];
    bench.done(&goals).await;
    let hex = bench.output("a", "hex").await.unwrap();
    let base64 = bench.output("a", "base64url").await.unwrap();
    assert_eq!(
        (hex.len(), base64.len()),
        (2 + 4 + 6, 2 + 4 + 4),
        "{hex} {base64}"
    );
    assert!(hex.starts_with("\"web-") && base64.starts_with("\"web-"));
    let (a, b) = (bench.entry("a").await.unwrap(), bench.entry("b").await.unwrap());
    assert_ne!(a.id, b.id);
    assert_eq!(
        b.id.as_ref().unwrap().len(),
        32,
        "an id of one byte would soon be another's"
    );
}
