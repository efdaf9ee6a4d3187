//! Programs that are documents, deployed: order, secrets, previews, and what goes wrong at run time.

mod echo;
mod kinds;
mod laws;
mod spliced;

use crate::stage::Stage;
use echo::Echo;
use state_core::mutation::StackOutputs;
use state_core::{Crypter, Json};
use state_engine::program::{Program, ProgramError};
use state_engine::{ListSource, Operation, Registry, Report, Run};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A document as a source.
async fn source(
    text: &str,
    given: &[(&str, &str)],
    crypter: Option<&dyn Crypter>,
) -> Result<ListSource, ProgramError> {
    let given = given
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let program = Program::parse("p.yaml", text.as_bytes())?;
    program.configure(given.collect(), crypter).await?.into_source()
}

/// An update to a document that needs nothing.
async fn update(text: &str) -> Operation {
    Operation::Update(Box::new(source(text, &[], None).await.unwrap()))
}

/// A run with a provider that gives back what it is given.
fn run(stage: &Stage, echo: &Echo) -> Run {
    let mut registry: Registry = stage.world.registry();
    registry.register("echo", Arc::new(echo.clone()));
    let mut run = stage.usual();
    run.registry = registry;
    run
}

fn told(report: &Report) -> Vec<String> {
    let steps = report.steps.iter().filter(|step| step.is_change());
    steps
        .map(|step| format!("{} {}", step.op, step.key.address))
        .collect()
}

/// The outputs of the stack, open.
async fn outputs(stage: &Stage) -> StackOutputs {
    let snapshot = stage.stack.current().await.unwrap();
    let open = stage.stack.reveal(snapshot).await.unwrap();
    StackOutputs {
        values: open.outputs,
        sensitive: open.sensitive_outputs,
    }
}

fn json(pairs: &[(&str, &str)]) -> BTreeMap<String, Json> {
    let pairs = pairs
        .iter()
        .map(|(name, value)| ((*name).to_owned(), Json::parse(value).unwrap()));
    pairs.collect()
}

const SECRETS: &str = r#"
config:
  salt: { secret: true }
resources:
  source:
    kind: echo
    inputs:
      open: in the open
      token: the very token
      nested: { password: the password, user: anna }
    options: { sensitive_outputs: [token, /nested/password] }
  user:
    kind: echo
    inputs:
      header: "Bearer ${source.token}"
      list: ["${source.open}", "${source.token}", 7]
      deep: { a/b: { c: "${source.nested}" } }
      name: ${source.nested.user}
      salted: ${config.salt}
      said: by me alone
      id: ${source.id}
    options: { sensitive_inputs: [said] }
outputs:
  open: ${source.open}
  token: ${source.token}
  nested: { value: { inside: "${source.nested}" } }
  marked: { value: "${source.open}", sensitive: true }
  carried: { value: "${config.salt}", sensitive: false }
"#;

#[tokio::test]
async fn what_is_made_of_a_secret_is_one_at_its_exact_place_and_resolves_on_a_sealed_stack() {
    let stage = Stage::sealed(1).await;
    let echo = Echo::default();
    let secrets = || async {
        let source = source(SECRETS, &[("salt", "pepper")], None).await.unwrap();
        Operation::Update(Box::new(source))
    };
    let report = stage.run(secrets().await, run(&stage, &echo)).await;
    assert_eq!(told(&report), ["create source", "create user"], "{report:?}");

    // The provider got what the secrets say.
    let got = echo.inputs("user");
    assert_eq!(
        got.json().as_str(),
        r#"{"deep":{"a/b":{"c":{"password":"the password","user":"anna"}}},"header":"Bearer the very token","id":"e-source",
"list":["in the open","the very token",7],"name":"anna","said":"by me alone","salted":"pepper"}"#
            .replace('\n', "")
    );

    // The record has none of them, and marks them.
    let entry = stage.entry("user").unwrap();
    let stored = format!(
        "{}{}",
        entry.inputs.clone().unwrap().json().as_str(),
        entry.outputs.clone().unwrap().json().as_str()
    );
    for secret in ["the very token", "the password", "pepper", "by me alone"] {
        assert!(
            !stored.contains(secret),
            "{secret} stands in the record: {stored}"
        );
    }
    for open in ["in the open", "anna", "e-source"] {
        assert!(stored.contains(open), "{open} isn't secret: {stored}");
    }
    let mut marks = entry.sensitive_inputs.clone();
    marks.sort();
    assert_eq!(
        marks,
        ["/deep/a~1b/c/password", "/header", "/list/1", "/salted", "said"]
    );

    let found = outputs(&stage).await;
    let expected = [
        ("open", r#""in the open""#),
        ("token", r#""the very token""#),
        (
            "nested",
            r#"{"inside":{"password":"the password","user":"anna"}}"#,
        ),
        ("marked", r#""in the open""#),
        ("carried", r#""pepper""#),
    ];
    assert_eq!(found.values, json(&expected));
    assert_eq!(
        found.sensitive,
        ["token", "/nested/inside/password", "marked", "carried"]
    );

    // A second run reads them out of the sealed record, and has nothing to do.
    let again = stage.run(secrets().await, run(&stage, &echo)).await;
    assert!(again.succeeded() && !again.has_changes(), "{again:?}");
    assert_eq!(stage.complaints(), Vec::<String>::new());
}

#[tokio::test]
async fn a_sealed_setting_is_opened_by_the_key_of_the_stack_under_its_own_name() {
    let stage = Stage::sealed(2).await;
    stage.lock().await.close().await.unwrap();
    let crypter = stage.stacks.crypter(&stage.name).await.unwrap();
    let sealed = crypter.encrypt("salt", b"pepper from the sea").unwrap();
    let text = |name: &str| {
        format!(
            "config:\n  {name}: {{ sealed: \"{sealed}\" }}\nresources:\n  a: {{ kind: echo, inputs: {{ x: \"${{config.{name}}}\" }} }}\n"
        )
    };
    let echo = Echo::default();
    let right = source(&text("salt"), &[], Some(&*crypter)).await.unwrap();
    stage
        .run(Operation::Update(Box::new(right)), run(&stage, &echo))
        .await;
    assert_eq!(echo.inputs("a").json().as_str(), r#"{"x":"pepper from the sea"}"#);
    assert_eq!(stage.entry("a").unwrap().sensitive_inputs, ["/x"]);
    let error = source(&text("pepper"), &[], Some(&*crypter))
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("p.yaml:2:21: config.pepper: it can't be decrypted: "),
        "{error}"
    );
    assert!(!error.contains("from the sea"), "{error}");
}

#[tokio::test]
async fn an_output_that_lacks_at_run_time_is_told_with_its_place_and_the_names_that_there_are() {
    let stage = Stage::new(3).await;
    let echo = Echo::default();
    let text = "\
resources:
  a: { kind: echo, inputs: { content: secret, mode: x } }
  b:
    kind: echo
    inputs:
      x: fine
      y: a ${a.contnet}
";
    let report = stage.run(update(text).await, run(&stage, &echo)).await;
    assert_eq!(told(&report), ["create a"]);
    assert_eq!(
        report.source_error.as_deref(),
        Some(
            "p.yaml:7:12: resources.b.inputs.y: `a` has no output `contnet`; did you mean `content`? available: content, mode, id"
        )
    );
    let deeper = text.replace("contnet", "mode.nothing[0]");
    let report = stage.run(update(&deeper).await, run(&stage, &echo)).await;
    assert_eq!(
        report.source_error.as_deref(),
        Some(
            "p.yaml:7:12: resources.b.inputs.y: `${a.mode.nothing[0]}` can't be resolved: a value of type string has no \
             `.nothing`"
        )
    );
    let outputs = "resources:\n  a: { kind: echo }\noutputs:\n  x: ${a.y}\n  z: ${a.id}\n";
    let report = stage.run(update(outputs).await, run(&stage, &echo)).await;
    assert_eq!(
        report.source_error.as_deref(),
        Some("p.yaml:4:6: outputs.x: `a` has no output `y`; available: id")
    );
    assert!(!report.succeeded());
}

#[tokio::test]
async fn in_a_preview_an_input_that_is_not_known_is_left_out_whole_and_outputs_stay_as_they_are() {
    let stage = Stage::new(4).await;
    let echo = Echo::default();
    let text = |x: &str| {
        format!(
            "resources:\n  a: {{ kind: echo, inputs: {{ x: {x}, token: hidden }}, options: {{ sensitive_outputs: [token] }} }}\n\
             \x20 b: {{ kind: echo, inputs: {{ known: 1, list: [1, \"${{a.x}}\", \"${{a.token}}\"] }}, options: {{ \
             sensitive_inputs: [list] }} }}\n\
             outputs:\n  x: ${{a.x}}\n  y: 1\n  token: ${{a.token}}\n"
        )
    };
    let said = stage.preview(update(&text("1")).await, run(&stage, &echo)).await;
    assert!(said.succeeded(), "{said:?}");
    assert_eq!(told(&said), ["create a", "create b"]);
    let b = said.steps[1].new.clone().unwrap();
    assert_eq!(b.inputs.clone().unwrap().json().as_str(), r#"{"known":1}"#);
    assert_eq!(
        b.sensitive_inputs, [""; 0],
        "a mark that leads nowhere would hide what is known"
    );
    assert_eq!(said.steps[1].unknown, ["list"]);
    let (_, after) = said.outputs.unwrap();
    assert_eq!(after.values, json(&[("y", "1")]));
    let unknown = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    assert_eq!(said.unknown_outputs, unknown(&["token", "x"]));

    stage.run(update(&text("1")).await, run(&stage, &echo)).await;
    let before = outputs(&stage).await;
    assert_eq!(
        before.values,
        json(&[("x", "1"), ("y", "1"), ("token", r#""hidden""#)])
    );
    let said = stage.preview(update(&text("2")).await, run(&stage, &echo)).await;
    assert_eq!(told(&said), ["update a", "update b"]);
    assert!(
        said.outputs.is_none(),
        "what isn't known stays as it is: {:?}",
        said.outputs
    );
    assert_eq!(said.unknown_outputs, unknown(&["x"]));
    let done = stage.run(update(&text("2")).await, run(&stage, &echo)).await;
    assert_eq!(told(&done), ["update a", "update b"]);
    assert_eq!(outputs(&stage).await.values["x"], Json::parse("2").unwrap());

    // Outputs that leave the document leave the stack.
    stage
        .run(update("resources: {}\n").await, run(&stage, &echo))
        .await;
    assert_eq!(outputs(&stage).await, StackOutputs::default());
}

#[tokio::test]
async fn options_are_those_of_goals() {
    let stage = Stage::new(5).await;
    let echo = Echo::default();
    let text = r#"
resources:
  a: { kind: echo, inputs: { x: 1 } }
  b:
    kind: echo
    inputs: { x: "${a.x}", y: 0644, z: 1.50 }
    options:
      depends_on: [c]
      parent: a
      deleted_with: a
      replace_with: [c]
      protect: true
      retain_on_delete: true
      delete_before_replace: true
      replace_on_changes: [x]
      ignore_changes: [y]
      aliases: [older]
      timeout: 1h 30m
  c: { kind: echo, options: { read: e-foreign } }
"#;
    stage.run(update(text).await, run(&stage, &echo)).await;
    let b = stage.entry("b").unwrap();
    assert_eq!(
        b.inputs.clone().unwrap().json().as_str(),
        r#"{"x":1,"y":644,"z":1.50}"#
    );
    let references: Vec<String> = b
        .references()
        .map(|reference| format!("{:?} {}", reference.field, reference.to))
        .collect();
    let expected = [
        "Parent a",
        "DependsOn c",
        "DependsOn a",
        "PropertyDependencies a",
        "DeletedWith a",
        "ReplaceWith c",
    ];
    assert_eq!(references, expected);
    assert!(b.protect && b.retain_on_delete);
    let c = stage.entry("c").unwrap();
    assert!(c.external && c.id.as_deref() == Some("e-foreign"));
    let changed = text.replace("y: 0644", "y: 755").replace("x: 1 }", "x: 2 }");
    let said = stage.run(update(&changed).await, run(&stage, &echo)).await;
    let failed: Vec<&str> = said
        .failures
        .iter()
        .map(|failure| failure.key.address.as_str())
        .collect();
    assert_eq!(
        failed,
        ["b"],
        "a change of x replaces it, and it is protected: {said:?}"
    );
}
