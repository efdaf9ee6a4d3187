//! Tests that deploy program documents: order, secrets, previews, and errors that occur only during a run.

mod echo;
mod kinds;
mod laws;
mod spliced;

use crate::harness::Harness;
use echo::Echo;
use state_core::mutation::StackOutputs;
use state_core::{Crypter, Json};
use state_engine::program::{Program, ProgramError};
use state_engine::{ListSource, Operation, Registry, Report, Run};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Parses a document into a source. `given` contains the values of settings that the user passes.
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

/// An update operation with a document that has no settings.
async fn update(text: &str) -> Operation {
    Operation::Update(Box::new(source(text, &[], None).await.unwrap()))
}

/// A run whose registry contains the simulated cloud and, under the kind `echo`, the provider `echo`.
fn run(harness: &Harness, echo: &Echo) -> Run {
    let mut registry: Registry = harness.cloud.registry();
    registry.register("echo", Arc::new(echo.clone()));
    let mut run = harness.default_run();
    run.registry = registry;
    run
}

fn changed_steps(report: &Report) -> Vec<String> {
    let steps = report.steps.iter().filter(|step| step.is_change());
    steps
        .map(|step| format!("{} {}", step.op, step.key.address))
        .collect()
}

/// The decrypted outputs of the stack.
async fn outputs(harness: &Harness) -> StackOutputs {
    let snapshot = harness.stack.current().await.unwrap();
    let open = harness.stack.reveal(snapshot).await.unwrap();
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
async fn value_derived_from_a_secret_is_secret_at_its_path() {
    let harness = Harness::sealed(1).await;
    let echo = Echo::default();
    let secrets = || async {
        let source = source(SECRETS, &[("salt", "pepper")], None).await.unwrap();
        Operation::Update(Box::new(source))
    };
    let report = harness.run(secrets().await, run(&harness, &echo)).await;
    assert_eq!(
        changed_steps(&report),
        ["create source", "create user"],
        "{report:?}"
    );

    // The provider received the secrets in plain text.
    let got = echo.inputs("user");
    assert_eq!(
        got.json().as_str(),
        r#"{"deep":{"a/b":{"c":{"password":"the password","user":"anna"}}},"header":"Bearer the very token","id":"e-source",
"list":["in the open","the very token",7],"name":"anna","said":"by me alone","salted":"pepper"}"#
            .replace('\n', "")
    );

    // The stored entry contains no secret, and marks the paths of the secrets.
    let entry = harness.entry("user").unwrap();
    let stored = format!(
        "{}{}",
        entry.inputs.clone().unwrap().json().as_str(),
        entry.outputs.clone().unwrap().json().as_str()
    );
    for secret in ["the very token", "the password", "pepper", "by me alone"] {
        assert!(
            !stored.contains(secret),
            "{secret} is stored in plain text: {stored}"
        );
    }
    for open in ["in the open", "anna", "e-source"] {
        assert!(
            stored.contains(open),
            "{open} isn't secret, and must stay readable: {stored}"
        );
    }
    let mut marks = entry.sensitive_inputs.clone();
    marks.sort();
    assert_eq!(
        marks,
        ["/deep/a~1b/c/password", "/header", "/list/1", "/salted", "said"]
    );

    let found = outputs(&harness).await;
    let nested = r#"{"inside":{"password":"the password","user":"anna"}}"#;
    let expected = [
        ("open", r#""in the open""#),
        ("token", r#""the very token""#),
        ("nested", nested),
        ("marked", r#""in the open""#),
        ("carried", r#""pepper""#),
    ];
    assert_eq!(found.values, json(&expected));
    assert_eq!(
        found.sensitive,
        ["token", "/nested/inside/password", "marked", "carried"]
    );

    // A second run decrypts the stored values and changes nothing.
    let again = harness.run(secrets().await, run(&harness, &echo)).await;
    assert!(again.succeeded() && !again.has_changes(), "{again:?}");
    assert_eq!(harness.complaints(), Vec::<String>::new());
}

#[tokio::test]
async fn sealed_setting_decrypts_only_under_its_own_name() {
    let harness = Harness::sealed(2).await;
    harness.lock().await.close().await.unwrap();
    let crypter = harness.stacks.crypter(&harness.name).await.unwrap();
    let sealed = crypter.encrypt("salt", b"pepper from the sea").unwrap();
    let text = |name: &str| {
        format!(
            "config:\n  {name}: {{ sealed: \"{sealed}\" }}\nresources:\n  a: {{ kind: echo, inputs: {{ x: \"${{config.{name}}}\" }} }}\n"
        )
    };
    let echo = Echo::default();
    let right = source(&text("salt"), &[], Some(&*crypter)).await.unwrap();
    harness
        .run(Operation::Update(Box::new(right)), run(&harness, &echo))
        .await;
    assert_eq!(echo.inputs("a").json().as_str(), r#"{"x":"pepper from the sea"}"#);
    assert_eq!(harness.entry("a").unwrap().sensitive_inputs, ["/x"]);
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
async fn missing_output_is_reported_with_position_and_known_names() {
    let harness = Harness::new(3).await;
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
    let report = harness.run(update(text).await, run(&harness, &echo)).await;
    assert_eq!(changed_steps(&report), ["create a"]);
    assert_eq!(
        report.source_error.as_deref(),
        Some(
            "p.yaml:7:12: resources.b.inputs.y: `a` has no output `contnet`; did you mean `content`? available: content, mode, id"
        )
    );
    let deeper = text.replace("contnet", "mode.nothing[0]");
    let report = harness.run(update(&deeper).await, run(&harness, &echo)).await;
    assert_eq!(
        report.source_error.as_deref(),
        Some(
            "p.yaml:7:12: resources.b.inputs.y: `${a.mode.nothing[0]}` can't be resolved: a value of type string has no \
             `.nothing`"
        )
    );
    let outputs = "resources:\n  a: { kind: echo }\noutputs:\n  x: ${a.y}\n  z: ${a.id}\n";
    let report = harness.run(update(outputs).await, run(&harness, &echo)).await;
    assert_eq!(
        report.source_error.as_deref(),
        Some("p.yaml:4:6: outputs.x: `a` has no output `y`; available: id")
    );
    assert!(!report.succeeded());
}

#[tokio::test]
async fn preview_omits_unknown_inputs_and_keeps_old_outputs() {
    let harness = Harness::new(4).await;
    let echo = Echo::default();
    let text = |x: &str| {
        format!(
            "resources:\n  a: {{ kind: echo, inputs: {{ x: {x}, token: hidden }}, options: {{ sensitive_outputs: [token] }} }}\n\
             \x20 b: {{ kind: echo, inputs: {{ known: 1, list: [1, \"${{a.x}}\", \"${{a.token}}\"] }}, options: {{ \
             sensitive_inputs: [list] }} }}\n\
             outputs:\n  x: ${{a.x}}\n  y: 1\n  token: ${{a.token}}\n"
        )
    };
    let report = harness
        .preview(update(&text("1")).await, run(&harness, &echo))
        .await;
    assert!(report.succeeded(), "{report:?}");
    assert_eq!(changed_steps(&report), ["create a", "create b"]);
    let b = report.steps[1].new.clone().unwrap();
    assert_eq!(b.inputs.clone().unwrap().json().as_str(), r#"{"known":1}"#);
    assert_eq!(
        b.sensitive_inputs, [""; 0],
        "a mark of a missing input would hide known values"
    );
    assert_eq!(report.steps[1].unknown, ["list"]);
    let (_, after) = report.outputs.unwrap();
    assert_eq!(after.values, json(&[("y", "1")]));
    let unknown = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    assert_eq!(report.unknown_outputs, unknown(&["token", "x"]));

    harness.run(update(&text("1")).await, run(&harness, &echo)).await;
    let before = outputs(&harness).await;
    assert_eq!(
        before.values,
        json(&[("x", "1"), ("y", "1"), ("token", r#""hidden""#)])
    );
    let report = harness
        .preview(update(&text("2")).await, run(&harness, &echo))
        .await;
    assert_eq!(changed_steps(&report), ["update a", "update b"]);
    assert!(
        report.outputs.is_none(),
        "unknown outputs keep their values: {:?}",
        report.outputs
    );
    assert_eq!(report.unknown_outputs, unknown(&["x"]));
    let done = harness.run(update(&text("2")).await, run(&harness, &echo)).await;
    assert_eq!(changed_steps(&done), ["update a", "update b"]);
    assert_eq!(outputs(&harness).await.values["x"], Json::parse("2").unwrap());

    // Outputs that the document no longer contains are removed from the stack.
    harness
        .run(update("resources: {}\n").await, run(&harness, &echo))
        .await;
    assert_eq!(outputs(&harness).await, StackOutputs::default());
}

#[tokio::test]
async fn document_options_become_goal_options() {
    let harness = Harness::new(5).await;
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
    harness.run(update(text).await, run(&harness, &echo)).await;
    let b = harness.entry("b").unwrap();
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
    let c = harness.entry("c").unwrap();
    assert!(c.external && c.id.as_deref() == Some("e-foreign"));
    let changed = text.replace("y: 0644", "y: 755").replace("x: 1 }", "x: 2 }");
    let report = harness.run(update(&changed).await, run(&harness, &echo)).await;
    let failed: Vec<&str> = report
        .failures
        .iter()
        .map(|failure| failure.key.address.as_str())
        .collect();
    assert_eq!(
        failed,
        ["b"],
        "the change of x requires a replacement, which the protection refuses: {report:?}"
    );
}
