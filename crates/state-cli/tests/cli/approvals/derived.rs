//! Derived commands, which contain outputs of other resources, and hints about pending operations of files.

use super::*;

/// A program with a command that contains an output of another resource.
const DERIVED: &str = "\
resources:
  other:
    kind: command
    inputs: { create: [echo, harmless] }
  job:
    kind: command
    inputs:
      create: [sh, -c, 'echo create ${other.stdout} >> ran']
      update: [sh, -c, 'echo update ${other.stdout} >> ran']
      delete: [sh, -c, 'echo delete ${other.stdout} >> ran']
      stdin: a
";

/// Returns a sandbox in which the user has deployed [`DERIVED`]. The record of executed commands is empty.
fn deployed_derived() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("state.yaml", DERIVED);
    sandbox.run(&["up", "--yes"]).exits(0);
    sandbox.write("ran", "");
    sandbox
}

#[test]
fn derived_command_is_not_remembered_without_changes() {
    let sandbox = deployed_derived();
    elsewhere(&sandbox, &["up", "--yes"]).exits(0);
    let refused = elsewhere(&sandbox, &["destroy", "--yes"]).exits(20);
    assert!(refused.stderr.contains("delete of job"), "{refused:?}");
    assert_eq!(ran(&sandbox), "");
    sandbox.run(&["destroy", "--yes"]).exits(0);
    assert_eq!(ran(&sandbox), "delete harmless\n");
}

#[test]
fn derived_command_is_shown_in_full_before_confirmation() {
    let sandbox = deployed_derived();
    sandbox.write("state.yaml", DERIVED.replace("stdin: a", "stdin: b"));
    let shown = elsewhere(&sandbox, &["preview"]).exits(0).stdout;
    let command = r#"job: update ["sh", "-c", "echo update harmless >> ran"]"#;
    assert!(shown.contains(command), "the step changes only `stdin`: {shown}");
    let confirmed = elsewhere(&sandbox, &["up", "--yes"]).exits(0);
    assert!(confirmed.stderr.contains(command), "{confirmed:?}");
    assert_eq!(ran(&sandbox), "update harmless\n");
    let known = elsewhere(&sandbox, &["up", "--preview", "--replace", "job"]).exits(0);
    assert!(
        !known.stdout.contains("outputs of other"),
        "approved commands are not listed: {known:?}"
    );
}

#[test]
fn known_part_of_a_derived_command_is_shown() {
    let sandbox = deployed_derived();
    let program = DERIVED.replace("stdin: a", "stdin: b").replace(
        "echo update ${other.stdout}",
        "echo ${other.stdout} ${later.stdout}",
    );
    let program = format!("{program}  later: {{ kind: command, inputs: {{ create: [echo, later] }} }}\n");
    sandbox.write("state.yaml", program);
    let shown = sandbox.run(&["preview"]).exits(0).stdout;
    let command = r#"job: update ["sh", "-c", "echo harmless (known after apply) >> ran"]"#;
    assert!(shown.contains(command), "{shown}");
    sandbox.run(&["up", "--yes"]).exits(0);
    assert_eq!(ran(&sandbox), "harmless later\n");
}

#[test]
fn derived_command_of_a_crashed_create_is_remembered() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "state.yaml",
        "\
resources:
  other:
    kind: command
    inputs: { create: [echo, '66'] }
  job:
    kind: command
    inputs:
      create: [sh, -c, 'kill -9 $PPID']
      read: [sh, -c, 'exit ${other.stdout}']
",
    );
    let killed = sandbox.run(&["up", "--yes"]);
    assert_ne!(killed.code, 0, "{killed:?}");
    elsewhere(&sandbox, &["refresh", "--yes"]).exits(20);
    let settled = sandbox.run(&["refresh", "--yes"]).exits(0);
    assert!(
        settled.stdout.contains("the object wasn't created"),
        "{settled:?}"
    );
}

#[test]
fn invisible_characters_of_a_command_are_shown() {
    let sandbox = Sandbox::new();
    let program = PROGRAM.replace("echo delete", "echo\u{200b} del\u{202e}ete\u{feff}");
    sandbox.write("state.yaml", program.replace("create >>", "create\u{3164} >>"));
    sandbox.run(&["up", "--yes"]).exits(0);
    let asked = elsewhere(&sandbox, &["trust", "commands"]).exits(4);
    let escaped = r"echo\u200b del\u202eete\ufeff >> ran";
    assert!(asked.stderr.contains(escaped), "{asked:?}");
    assert!(asked.stderr.contains(r"create\u3164 >> ran"), "{asked:?}");
}

#[test]
fn hint_about_pending_operations_names_the_next_step() {
    let sandbox = Sandbox::new();
    let program = "\
resources:
  page: { kind: file, inputs: { path: page, content: x } }
  job:
    kind: command
    inputs: { create: [sh, -c, 'kill -9 $PPID'] }
    options: { depends_on: [page] }
";
    sandbox.write("state.yaml", program);
    let killed = sandbox.run(&["up", "--yes"]);
    assert_ne!(killed.code, 0, "{killed:?}");
    let unconfirmed = sandbox.run(&["refresh"]).exits(18);
    assert!(
        unconfirmed.stdout.contains("run `statectl refresh --yes`"),
        "{unconfirmed:?}"
    );
    let asked = sandbox.run(&["refresh", "--yes"]).exits(18).stdout;
    assert!(!asked.contains("statectl refresh"), "{asked}");
    let hint = asked.lines().find(|line| line.starts_with("hint: ")).unwrap();
    let resolve = hint.split('`').nth(1).unwrap().trim_start_matches("statectl ");
    let arguments: Vec<&str> = resolve.split(' ').collect();
    sandbox.run(&arguments).exits(0);
    sandbox.run(&["refresh", "--yes"]).exits(0);
}

#[test]
fn given_path_of_a_pending_file_needs_no_approval() {
    let sandbox = Sandbox::new();
    let program = "resources: { page: { kind: file, inputs: { path: page, content: x } } }\n";
    sandbox.write("state.yaml", program);
    sandbox.run(&["up", "--yes"]).exits(0);
    sandbox.on_stack(async |stack| {
        let recorded = stack.tip().await.unwrap().state;
        let mut entry = state_core::Entry::clone(recorded.entries().next().unwrap());
        entry.address = "lost".parse().unwrap();
        entry.uid = state_core::Entry::leaf(entry.address.clone(), "file").uid;
        entry.id = None;
        let session = stack.lock("test").await.unwrap();
        let request = state_manager::UpdateRequest::new(state_core::UpdateKind::Update);
        let update = session.start_update(request).await.unwrap();
        drop(update.begin(state_manager::Intent::create(entry)).await.unwrap());
        drop(update);
        session.close().await.unwrap();
    });
    let mine = sandbox.write("mine", "y");
    let given = format!("lost={}", mine.display());
    elsewhere(&sandbox, &["trust", "commands", "--yes"]).exits(0);
    elsewhere(&sandbox, &["refresh", "--yes", "--import-pending", &given]).exits(0);
    let shown = sandbox.run(&["show", "lost", "--json"]).exits(0).data("show");
    assert_eq!(shown["entries"][0]["id"], mine.to_str().unwrap(), "{shown}");
}

#[test]
fn named_program_declares_its_commands_without_outputs() {
    let program = |input: &str| {
        format!(
            "\
resources:
  other: {{ kind: command, inputs: {{ create: [echo, '.'] }} }}
  job:
    kind: command
    inputs:
      create: ['true']
      read: [sh, -c, 'echo read >> ran']
      {input}: '${{other.stdout}}'
"
        )
    };
    for (input, code) in [("triggers", 0), ("stdin", 0), ("dir", 20)] {
        let sandbox = Sandbox::new();
        sandbox.write("state.yaml", program(input));
        sandbox.run(&["up", "--yes"]).exits(0);
        sandbox.write("ran", "");
        elsewhere(&sandbox, &["refresh", "state.yaml", "--yes"]).exits(code);
        assert_eq!(ran(&sandbox).is_empty(), code != 0, "{input}");
    }
}
