//! Changes a sealed stack from the test process: failing steps, log lines of providers, and a step without an end.

use super::CANARY;
use state_core::{
    Dependency, Entry, Json, LogLevel, LogLine, Outcome, Properties, Timestamp, UpdateKind, UpdateResult,
};
use state_encrypt::{AgeKeys, Identities};
use state_manager::{Actor, Environment, Intent, LogQuery, Stack, Stacks, Update, UpdateRequest};
use std::path::Path;
use std::sync::Arc;

/// Opens the stack. Also returns the debug output of the keys, the store and the stack.
async fn opened(root: &Path, identity: &Path) -> (Stack, String) {
    let actor = Actor {
        who: "anna".to_owned(),
        host: "here".to_owned(),
        pid: 1,
    };
    let environment = Environment::system(actor);
    let text = std::fs::read_to_string(identity).unwrap();
    let identities = Identities::parse("identity", &text).unwrap();
    let recipients = identities.recipients().join("\n").parse().unwrap();
    let entropy = Arc::clone(&environment.entropy);
    let keys = Arc::new(AgeKeys::new(identities, recipients, entropy));
    let stacks = Stacks::open(&format!("file://{}", root.display()), environment)
        .unwrap()
        .with_keys(keys.clone());
    let stack = stacks.get(&"default".parse().unwrap()).await.unwrap().unwrap();
    let shown = format!("{keys:?} {stacks:?} {stack:?}");
    (stack, shown)
}

/// Returns a resource with the canary in a sensitive value, in an unmarked value, and in an error message.
fn entry(name: &str, size: usize) -> Entry {
    let value = serde_json::to_string(CANARY).unwrap();
    let filler = "x".repeat(size);
    let text = format!(r#"{{"copy":[{value}],"filler":"{filler}","password":{value}}}"#);
    let inputs = Properties::new(Json::parse(&text).unwrap());
    Entry {
        outputs: inputs.clone(),
        inputs,
        sensitive_inputs: vec!["password".to_owned()],
        init_errors: vec![format!("it said {CANARY}")],
        ..Entry::leaf(name.parse().unwrap(), "thing")
    }
}

/// Performs two steps of an update: one with this outcome, and one whose result violates a rule. Returns debug output.
async fn steps(update: &Update, round: usize, outcome: Outcome) -> String {
    let message = format!("the server said {CANARY}");
    let moment = Timestamp::new("2026-01-01T00:00:00Z");
    update.log(&LogLine::new(moment, LogLevel::Error, message));
    // Large enough to trigger a checkpoint.
    let made = entry(&format!("thing.{round}"), 700_000);
    let step = update.begin(Intent::create(made.clone())).await.unwrap();
    let mut shown = format!("{step:?} {update:?}");
    let reasons = vec![format!("half of it: {CANARY}")];
    step.end(outcome, Some(made), reasons).await.unwrap();
    // The operation stays pending with its refused result.
    let broken = entry(&format!("thing.broken-{round}"), 10);
    let step = update.begin(Intent::create(broken.clone())).await.unwrap();
    let nowhere = Entry {
        depends_on: vec![Dependency::Entry("thing.nowhere".parse().unwrap())],
        ..broken
    };
    let violations = step.succeed(Some(nowhere)).await;
    shown.push_str(&format!("{violations:?}"));
    shown
}

/// Performs all steps, and returns the debug output of the objects that were used.
pub(super) async fn work(root: &Path, identity: &Path) -> String {
    let (stack, mut shown) = opened(root, identity).await;
    for (round, outcome) in [Outcome::Partial, Outcome::Succeeded, Outcome::Succeeded]
        .into_iter()
        .enumerate()
    {
        let session = stack.lock("work").await.unwrap();
        let request = UpdateRequest::new(UpdateKind::Update);
        let update = session.start_update(request).await.unwrap();
        shown.push_str(&steps(&update, round, outcome).await);
        shown.push_str(&format!("{session:?}"));
        if round == 2 {
            // Leave the step, the update and the session open, as after a crash.
            let lost = Intent::create(entry("thing.lost", 10));
            shown.push_str(&format!("{:?}", update.begin(lost).await.unwrap()));
            break;
        }
        update.finish(UpdateResult::Failed).await.unwrap();
        session.close().await.unwrap();
    }
    let view = stack.tip().await.unwrap();
    let said = stack.logs(&LogQuery::default()).await.unwrap();
    shown.push_str(&format!("{view:?} {said:?}"));
    let open = stack.reveal(view.snapshot()).await.unwrap();
    let texts = open.entries.iter().filter_map(|entry| entry.inputs.as_ref());
    let opened = texts.filter(|inputs| inputs.json().as_str().contains("w4tch-7he"));
    assert!(opened.count() > 2, "the key must decrypt all values");
    // The debug output of a decrypted snapshot must contain no secret either.
    shown.push_str(&format!("{open:?}"));
    shown
}
