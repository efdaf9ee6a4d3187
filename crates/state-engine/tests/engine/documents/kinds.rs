//! Tests of the check that compares a document with the descriptions of the built-in kinds before a run.

use crate::harness::environment;
use state_engine::builtin;
use state_engine::program::Program;

/// Checks a document and returns one line for each problem.
fn problems(document: &str) -> Vec<String> {
    let registry = builtin::registry(&environment(1), "/srv".as_ref());
    let program = Program::parse("p.yaml", document.as_bytes()).unwrap();
    match program.check(&registry) {
        Ok(()) => Vec::new(),
        Err(error) => error.to_string().lines().map(str::to_owned).collect(),
    }
}

const WRONG: &str = r#"
config: { size: { type: number, default: 9 } }
resources:
  password:
    kind: random:password
    inputs: { length: "long", digts: true }
  id: { kind: random:id, inputs: { bytes: "x${config.size}" } }
  page:
    kind: file
    inputs:
      mode: 0644
      content: ${password.reslt}
  script:
    kind: command
    inputs: { create: [echo, "${page.contents}"], environment: ["${id.hex}"] }
  other: { kind: fiel }
outputs:
  size: { value: "${page.size}" }
  length: ${password.length}
"#;

#[test]
fn all_wrong_inputs_and_unknown_outputs_are_reported() {
    let expected = [
        "p.yaml:6:23: resources.password.inputs.length: `length` must be a whole number from 8 to 1024, not a string",
        "p.yaml:6:38: resources.password.inputs.digts: `random:password` has no input `digts`; did you mean `digits`?",
        "p.yaml:7:43: resources.id.inputs.bytes: `bytes` must be a whole number from 1 to 1024, not a string",
        "p.yaml:8:3: resources.page.inputs: `path` is missing; it must be a string",
        "p.yaml:11:13: resources.page.inputs.mode: `mode` must be a string of three or four octal digits, not a number: quote it, because 0644 without quotes is a number",
        "p.yaml:12:16: resources.page.inputs.content: `${password.reslt}` can't be resolved: a `random:password` has no output `reslt`; did you mean `result`?",
        "p.yaml:15:31: resources.script.inputs.create[1]: `${page.contents}` can't be resolved: a `file` has no output `contents`; expected one of: digest, mode, path, size, id",
        "p.yaml:16:18: resources.other.kind: unknown kind `fiel`; did you mean `file`?",
        "p.yaml:19:11: outputs.length: `${password.length}` can't be resolved: a `random:password` has no output `length`; expected one of: result, id",
    ];
    assert_eq!(problems(WRONG), expected);
}

#[test]
fn inputs_that_cannot_be_checked_before_a_run_pass() {
    let fine = r#"
config: { mode: { type: string, default: "0600" } }
resources:
  made: { kind: command, inputs: { create: [cat], environment: { A: "${found.path}" } } }
  page: { kind: file, inputs: { path: "${made.path}", content: "${made.deep[0].text}", mode: "${config.mode}" } }
  joined: { kind: command, inputs: { create: "echo ${page.size}", shell: true } }
  found: { kind: file, options: { read: /etc/hostname } }
  as_it_was: { kind: file, inputs: { content: x, mode: 7 }, options: { ignore_changes: [path, mode] } }
outputs:
  id: ${page.id}
  any: ${made.whatever}
"#;
    assert_eq!(problems(fine), Vec::<String>::new());
}
