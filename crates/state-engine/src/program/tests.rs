//! Tests of the messages about invalid documents. Each message begins with the position of the problem.

mod readers;
mod settings;

use super::{Program, ProgramError};
use crate::provider::{
    CreateRequest, DeleteRequest, Diff, DiffRequest, Failure, Object, Provider, ReadRequest, ReadResult,
    UpdateRequest,
};
use crate::registry::Registry;
use std::sync::Arc;

fn parse(text: &str) -> Result<Program, ProgramError> {
    Program::parse("p", text.as_bytes())
}

/// Parses a document and returns the lines of its error. Empty for a valid document.
fn messages(text: &str) -> Vec<String> {
    match parse(text) {
        Ok(_) => Vec::new(),
        Err(error) => error.to_string().lines().map(str::to_owned).collect(),
    }
}

/// Asserts that each document has as many problems as expected, and that each message begins as expected.
fn all_say<const N: usize>(cases: [(&str, &[&str]); N]) {
    for (text, expected) in cases {
        let messages = messages(text);
        let fits = messages.len() == expected.len()
            && messages
                .iter()
                .zip(expected)
                .all(|(messages, begins)| messages.starts_with(begins));
        assert!(
            fits,
            "{text:?} says\n{}\nnot\n{}",
            messages.join("\n"),
            expected.join("\n")
        );
    }
}

#[test]
fn invalid_yaml_is_refused_with_line_and_column() {
    all_say([
        ("", &["p:1:1: the document is empty"]),
        ("# nothing\n", &["p:1:1: the document is empty"]),
        ("resources: [", &["p:2:1: syntax error: "]),
        (
            "resources:\n  a: b: c\n",
            &["p:2:7: syntax error: mapping values are not allowed"],
        ),
        ("resources:\n\ta: 1\n", &["p:2:2: syntax error: tabs"]),
        ("resources: 'a\n", &["p:1:12: syntax error: "]),
        (
            "resources: {}\n---\nresources: {}\n",
            &["p:2:1: a second document begins here"],
        ),
        (
            "{\"resources\": {},\n\"name\": \"a\" \"b\"}",
            &["p:2:13: syntax error: "],
        ),
        ("- a\n", &["p:1:1: it must be a mapping, not a list"]),
        (
            "resources: {}\nname: \"a\u{1}b\"\n",
            &["p:2:9: control character (U+0001) isn't allowed"],
        ),
        (
            "resources: {}\nname: \u{0}\n",
            &["p:2:7: control character (U+0000) isn't allowed"],
        ),
    ]);
    let latin = Program::parse("p", b"resources: {}\nname: caf\xe9\n").unwrap_err();
    assert_eq!(
        latin.to_string(),
        "p:2:10: this isn't UTF-8; save the document as UTF-8"
    );
    let marked = Program::parse("p", "\u{feff}nam: x\nresources: {}".as_bytes()).unwrap_err();
    assert_eq!(
        (marked.problems[0].line, marked.problems[0].column),
        (1, 1),
        "{marked}"
    );
}

#[test]
fn unquoted_reference_in_flow_syntax_gets_a_quoting_hint() {
    for text in [
        "resources: {a: {kind: ${b.c}}}\n",
        "resources: {}\noutputs: {a: ${b.c}/d}\n",
        "x: [${b.c}]\n",
    ] {
        let messages = messages(text);
        assert!(
            messages[0].ends_with("quote a string with a reference inside `{ }` and `[ ]`"),
            "{messages:?}"
        );
    }
}

#[test]
fn ambiguous_yaml_features_are_refused_by_name() {
    all_say([
        (
            "resources: &all {}\n",
            &["p:1:12: anchors and aliases aren't supported"],
        ),
        (
            "resources:\n  a: &x {kind: f}\n  b: *x\n",
            &["p:2:6: anchors and aliases aren't supported"],
        ),
        ("<<: {}\n", &["p:1:1: merge keys aren't supported"]),
        ("resources: !secret {}\n", &["p:1:12: unknown tag"]),
        ("resources: {}\nname: !secret x\n", &["p:2:7: unknown tag"]),
        (
            "resources: {}\nname: !!int x\n",
            &["p:2:7: this value isn't a valid `!!int`"],
        ),
        (
            "resources: {}\nname: .nan\n",
            &["p:2:7: a state can't hold numbers that aren't finite"],
        ),
        ("? [a]\n: b\n", &["p:1:3: a key must be a scalar"]),
    ]);
    let deep = |levels| {
        messages(&format!(
            "resources: {}{}\n",
            "[".repeat(levels),
            "]".repeat(levels)
        ))
    };
    assert_eq!(deep(64), ["p:1:75: it is nested deeper than 64 levels"]);
    assert_eq!(deep(100_000).len(), 1);
    let long = format!("resources: {{}}\n#{}", "x".repeat(16 << 20));
    assert_eq!(messages(&long), ["p:1:1: it is longer than 16 MiB"]);
    let many = format!("resources: [{}]\n", "1,".repeat(1_000_001));
    assert!(
        messages(&many)[0].ends_with("it has more than 1000000 values"),
        "{:?}",
        messages(&many)
    );
}

#[test]
fn core_schema_tags_are_accepted() {
    assert_eq!(
        messages("resources: !!map {}\nname: !!str 5\ndescription: ! 5\n"),
        [""; 0]
    );
    assert_eq!(messages("%YAML 1.2\n---\nresources: {}\n...\n"), [""; 0]);
}

#[test]
fn duplicate_names_are_reported_with_both_positions() {
    all_say([
        (
            "resources:\n  a: {kind: f}\n  a: {kind: f}\n",
            &["p:3:3: resources.a: duplicate name, first used at line 2, column 3"],
        ),
        (
            "{\"resources\": {\"a\": {\"kind\": \"f\"},\n  \"a\": {\"kind\": \"f\"}}}",
            &["p:2:3: resources.a: duplicate name, first used at line 1, column 16"],
        ),
        (
            "resources:\n  a: {kind: f, inputs: {x: [{y: 1, y: 2}]}}\n",
            &["p:2:36: resources.a.inputs.x[0].y: duplicate name, first used at line 2, column 30"],
        ),
    ]);
}

#[test]
fn unknown_members_and_wrong_types_are_reported() {
    let text = "\
resource:
  a: {kind: f}
resources:
  config: {kind: f}
  b:
    kind: 1
    input: {}
    options:
      protect: yes
      depends_on: b
      timeout: 5 lightyears
      import: x
      read: y
      sensitive_inputs: [contnet]
    inputs: {content: x}
  c d: {kind: f}
  e: {inputs: [1]}
outputs:
  x: {valeu: 1}
";
    all_say([(
        text,
        &[
            "p:1:1: resource: unknown member of a program; did you mean `resources`?",
            "p:4:3: resources.config: a resource can't be named `config`",
            "p:6:11: resources.b.kind: it must be a string, not a number",
            "p:7:5: resources.b.input: unknown member; did you mean `inputs`?",
            "p:9:16: resources.b.options.protect: it must be `true` or `false`, not a string",
            "p:10:19: resources.b.options.depends_on: it must be a list of strings, not a string",
            "p:11:16: resources.b.options.timeout: invalid duration",
            "p:13:13: resources.b.options.read: `import` and `read` can't be combined",
            "p:14:26: resources.b.options.sensitive_inputs[0]: there is no input `contnet`; did you mean `content`?",
            "p:16:3: resources[\"c d\"]: a name is 1 to 200 characters",
            "p:17:3: resources.e: `kind` is missing",
            "p:17:15: resources.e.inputs: it must be a mapping, not a list",
            "p:19:3: outputs.x: `value` is missing",
            "p:19:7: outputs.x.valeu: unknown member; did you mean `value`?",
        ],
    )]);
    // A document without `resources` may be truncated. If it were accepted as a program without resources, the next run
    // would delete all resources of the stack.
    all_say([
        ("name: x\n", &["p:1:1: `resources` is missing"]),
        (
            "resources:\n",
            &["p:1:10: resources: it must be a mapping, not nothing"],
        ),
    ]);
}

#[test]
fn unresolved_references_are_reported_with_positions() {
    let text = "\
config:
  directory: {}
resources:
  page:
    kind: f
    inputs:
      x: \"é ${pages.id} ${page} $${this.is.text} ${config.directroy}\"
      y: |
        text
        and ${config.directory} more ${absent.at.all[0]}
      z: ${config.directory
      u: ['${a[1]}', \"${a.b[x]}\", \"${.a}\", \"${a.b}c}\"]
      \"${config.directory}\": 1
    options: {depends_on: [page2, absent], import: \"${config.directory}\"}
outputs:
  o: ${pag.x}
";
    all_say([(
        text,
        &[
            "p:7:13: resources.page.inputs.x: there is no resource `pages`; did you mean `page`?",
            "p:7:25: resources.page.inputs.x: `page` is incomplete: add an output, as in `${page.id}`",
            "p:7:50: resources.page.inputs.x: `${config.directroy}` can't be resolved: there is no setting `directroy` under \
             `config`; did you mean `directory`?",
            "p:10:38: resources.page.inputs.y: there is no resource `absent`; expected one of: page",
            "p:11:10: resources.page.inputs.z: the reference to `config` has no closing `}`",
            "p:12:12: resources.page.inputs.u[0]: `a` is incomplete",
            "p:12:23: resources.page.inputs.u[1]: expected a number or a key in double quotes between `[` and `]`",
            "p:12:36: resources.page.inputs.u[2]: a reference must begin with the name of a resource, or with `config`",
            "p:12:45: resources.page.inputs.u[3]: there is no resource `a`",
            "p:13:7: resources.page.inputs[\"${config.directory}\"]: references are allowed in values only, not in names",
            "p:14:28: resources.page.options.depends_on[0]: there is no resource `page2`; did you mean `page`?",
            "p:14:35: resources.page.options.depends_on[1]: there is no resource `absent`",
            "p:14:53: resources.page.options.import: references are allowed in inputs and outputs only",
            "p:16:6: outputs.o: there is no resource `pag`; did you mean `page`?",
        ],
    )]);
}

#[test]
fn positions_are_right_for_all_line_endings_and_json() {
    for end in ["\n", "\r\n", "\r"] {
        let lines = [
            "resources:",
            "  é:",
            "  a:",
            "    kind: f",
            "    inputs:",
            "      x: >-",
            "        ü",
            "        ${b.c}",
        ];
        let messages = messages(&lines.join(end));
        assert_eq!(
            messages[0],
            "p:2:3: resources[\"é\"]: a name is 1 to 200 characters of A-Z, a-z, 0-9, `_` and `-`"
        );
        assert!(
            messages
                .last()
                .unwrap()
                .starts_with("p:8:9: resources.a.inputs.x: there is no resource `b`"),
            "{messages:?}"
        );
    }
    let json = "{\"resources\": {\"ab\": {\"kind\": \"f\",\r\n\t\"inputs\": {\"x\": [1, \"\\u00e9 é\\n ${bc.d}\"]}}}}";
    assert_eq!(
        messages(json),
        ["p:2:34: resources.ab.inputs.x[1]: there is no resource `bc`; expected one of: ab"]
    );
}

#[test]
fn cycles_are_reported_with_the_position_of_each_dependency() {
    let text = "\
resources:
  a: {kind: f, inputs: {x: \"${b.x}\"}}
  b: {kind: f, options: {depends_on: [c]}}
  c: {kind: f, options: {parent: a}}
  d: {kind: f, inputs: {l: [1, \"a ${d.id}\"]}}
  e: {kind: f, options: {replace_with: [a]}}
";
    let hint = "remove one of these dependencies";
    assert_eq!(
        messages(text),
        [
            format!(
                "p:2:3: resources.a: dependency cycle: a depends on b (line 2, column 29), b depends on c \
                 (line 3, column 39), c depends on a (line 4, column 34); {hint}"
            ),
            format!("p:5:3: resources.d: dependency cycle: d depends on d (line 5, column 35); {hint}"),
        ]
    );
}

/// A provider that is registered and never called.
#[derive(Debug)]
struct Idle;

#[async_trait::async_trait]
impl Provider for Idle {
    async fn diff(&self, _: DiffRequest) -> Result<Diff, Failure> {
        Ok(Diff::none())
    }

    async fn create(&self, _: CreateRequest) -> Result<Object, Failure> {
        Err(Failure::not_done("never"))
    }

    async fn read(&self, _: ReadRequest) -> Result<ReadResult, Failure> {
        Ok(ReadResult::Indeterminate)
    }

    async fn update(&self, _: UpdateRequest) -> Result<Object, Failure> {
        Err(Failure::not_done("never"))
    }

    async fn delete(&self, _: DeleteRequest) -> Result<(), Failure> {
        Ok(())
    }
}

#[test]
fn unknown_kinds_are_reported_with_the_nearest_name() {
    let program = parse("resources:\n  a: {kind: flie}\n  b: {kind: file}\n  c:\n    kind: cloud\n").unwrap();
    let mut registry = Registry::new();
    assert_eq!(program.check(&registry).unwrap_err().problems.len(), 3);
    registry.register("file", Arc::new(Idle));
    let error = program.check(&registry).unwrap_err();
    assert_eq!(
        error.to_string(),
        "p:2:13: resources.a.kind: unknown kind `flie`; did you mean `file`?\n\
         p:5:11: resources.c.kind: unknown kind `cloud`; expected one of: file"
    );
    registry.register("flie", Arc::new(Idle));
    registry.register("cloud", Arc::new(Idle));
    program.check(&registry).unwrap();
}
