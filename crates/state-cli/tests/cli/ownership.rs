//! Selection of the stack of a program: a program changes its own stack, and no other stack without `--adopt`, even if
//! the store has no other stack.

use crate::sandbox::{CommandOutput, Sandbox, fixture};

/// Returns a program with this name and one file.
fn program(name: &str) -> String {
    let file = if name.is_empty() { "file" } else { name };
    let head = match name {
        "" => String::new(),
        name => format!("name: {name}\n"),
    };
    format!("{head}resources:\n  {file}: {{ kind: file, inputs: {{ path: {file}.txt, content: x }} }}\n")
}

fn up(sandbox: &Sandbox, name: &str, more: &[&str]) -> CommandOutput {
    sandbox.write("state.yaml", program(name));
    sandbox.run(&[&["up", "--yes"][..], more].concat())
}

/// Returns the addresses of the resources of a stack.
fn addresses(sandbox: &Sandbox, stack: &str) -> Vec<String> {
    let listed = sandbox.run(&["list", "--stack", stack]).exits(0).stdout;
    listed.lines().map(str::to_owned).collect()
}

#[test]
fn up_refuses_the_only_stack_if_it_is_not_its_own() {
    let sandbox = Sandbox::new();
    let shop = fixture("shop.tfstate");
    sandbox
        .run(&["import", "--stack", "production", shop.to_str().unwrap()])
        .exits(0);
    let before = addresses(&sandbox, "production");
    assert!(before.len() > 5, "{before:?}");
    for (name, own) in [("e", "stack e"), ("", "stack default")] {
        for arguments in [&["up", "--yes"][..], &["up", "--preview"], &["preview"]] {
            sandbox.write("state.yaml", program(name));
            let refused = sandbox.run(arguments).exits(10);
            assert!(
                refused.stderr.contains(own) && refused.stderr.contains("--stack production"),
                "{refused:?}"
            );
        }
    }
    assert_eq!(addresses(&sandbox, "production"), before);
    let listed = sandbox.run(&["stack", "ls"]).exits(0).stdout;
    assert_eq!(
        listed.lines().count(),
        2,
        "a refused run must create no stack: {listed}"
    );
}

#[test]
fn destroy_refuses_the_only_stack_if_it_is_not_its_programs() {
    let sandbox = Sandbox::new();
    sandbox.write("state.yaml", program(""));
    sandbox.run(&["up", "--yes", "--stack", "prod"]).exits(0);
    sandbox.write("state.yaml", program("other"));
    for command in ["destroy", "refresh"] {
        let refused = sandbox.run(&[command, "--yes"]).exits(10);
        assert!(refused.stderr.contains("--stack prod"), "{refused:?}");
    }
    assert_eq!(addresses(&sandbox, "prod"), ["file"]);
}

#[test]
fn up_selects_the_stack_with_the_name_of_its_program() {
    let sandbox = Sandbox::new();
    up(&sandbox, "site", &[]).exits(0);
    assert_eq!(addresses(&sandbox, "site"), ["site"]);
    sandbox.run(&["stack", "new", "other"]).exits(0);
    up(&sandbox, "site", &["--detailed-exitcode"]).exits(0);
    up(&sandbox, "other", &[]).exits(0);
    assert_eq!(addresses(&sandbox, "other"), ["other"]);
    // `destroy` without `--stack` also selects the stack by the program in the folder.
    sandbox.run(&["destroy", "--yes"]).exits(0);
    assert_eq!(addresses(&sandbox, "other"), [""; 0]);
    assert_eq!(addresses(&sandbox, "site"), ["site"]);
}

#[test]
fn up_selects_the_only_stack_if_its_program_created_it() {
    let sandbox = Sandbox::new();
    up(&sandbox, "site", &["--stack", "prod"]).exits(0);
    up(&sandbox, "site", &["--detailed-exitcode"]).exits(0);
    up(&sandbox, "e", &[]).exits(10);
    // A program name that isn't a valid stack name still identifies the program.
    let sandbox = Sandbox::new();
    let spaced = "name: My site\nresources:\n  a: { kind: file, inputs: { path: a, content: x } }\n";
    sandbox.write("state.yaml", spaced);
    sandbox.run(&["up", "--yes", "--stack", "prod"]).exits(0);
    sandbox.run(&["up", "--yes", "--detailed-exitcode"]).exits(0);
    assert_eq!(addresses(&sandbox, "prod"), ["a"]);
}

#[test]
fn stack_of_another_program_needs_adopt() {
    let sandbox = Sandbox::new();
    up(&sandbox, "one", &["--stack", "prod"]).exits(0);
    for more in [&["--stack", "prod"][..], &["--stack", "prod", "--preview"]] {
        let refused = up(&sandbox, "two", more).exits(4);
        assert!(
            refused.stderr.contains("program `one`")
                && refused.stderr.contains("program `two`")
                && refused.stderr.contains("--adopt"),
            "{refused:?}"
        );
    }
    for command in ["refresh", "destroy"] {
        let refused = sandbox.run(&[command, "--yes", "--stack", "prod"]).exits(4);
        assert!(refused.stderr.contains("stack prod"), "{refused:?}");
    }
    up(&sandbox, "", &["--stack", "prod"]).exits(4);
    assert_eq!(addresses(&sandbox, "prod"), ["one"]);
    up(&sandbox, "two", &["--stack", "prod", "--adopt"]).exits(0);
    assert_eq!(addresses(&sandbox, "prod"), ["two"]);
    up(&sandbox, "two", &["--stack", "prod"]).exits(0);
    up(&sandbox, "one", &["--stack", "prod"]).exits(4);
    // An empty stack has no owner.
    up(&sandbox, "two", &["--stack", "prod"]).exits(0);
    sandbox.run(&["destroy", "--yes", "--stack", "prod"]).exits(0);
    up(&sandbox, "one", &["--stack", "prod"]).exits(0);
}

#[test]
fn destroy_without_a_program_accepts_any_program_made_stack() {
    let sandbox = Sandbox::new();
    up(&sandbox, "site", &[]).exits(0);
    std::fs::remove_file(sandbox.path().join("state.yaml")).unwrap();
    sandbox.run(&["destroy", "--yes"]).exits(0);
    assert!(!sandbox.path().join("site.txt").exists());
}

#[test]
fn imported_program_name_needs_stack_or_adopt() {
    let sandbox = Sandbox::new();
    up(&sandbox, "site", &[]).exits(0);
    let exported = sandbox.run(&["export", "--stack", "site"]).exits(0).stdout;
    let other = Sandbox::new();
    let file = other.write("site.json", exported);
    other
        .run(&["import", "--stack", "production", file.to_str().unwrap()])
        .exits(0);
    other.write("state.yaml", program("site"));
    for command in [&["destroy", "--yes"][..], &["up", "--yes"], &["refresh", "--yes"]] {
        let refused = other.run(command).exits(10);
        assert!(refused.stderr.contains("--stack production"), "{refused:?}");
    }
    assert_eq!(addresses(&other, "production"), ["site"]);
    other.run(&["destroy", "--preview", "--adopt"]).exits(0);
    other
        .run(&["destroy", "--preview", "--stack", "production"])
        .exits(0);
}

#[test]
fn imported_state_of_another_tool_needs_adopt() {
    let sandbox = Sandbox::with_shop();
    let before = addresses(&sandbox, "default");
    let commands: [&[&str]; 6] = [
        &["up", "--yes"],
        &["preview"],
        &["refresh", "--yes"],
        &["refresh", "--preview"],
        &["destroy", "--yes"],
        &["destroy", "--preview"],
    ];
    for with_program in [true, false] {
        for arguments in commands {
            match with_program {
                true => drop(sandbox.write("state.yaml", program(""))),
                false if arguments[0].contains('p') => continue,
                false => drop(std::fs::remove_file(sandbox.path().join("state.yaml"))),
            }
            let refused = sandbox.run(arguments).exits(4);
            assert!(
                refused.stderr.contains("stack default")
                    && refused.stderr.contains("terraform")
                    && refused.stderr.contains("--adopt"),
                "{refused:?}"
            );
        }
    }
    assert_eq!(addresses(&sandbox, "default"), before);
    let adopted = sandbox.run(&["destroy", "--preview", "--adopt"]);
    assert!(!adopted.stderr.contains("another tool"), "{adopted:?}");
}

#[test]
fn adoption_without_changes_records_the_program() {
    let sandbox = Sandbox::new();
    up(&sandbox, "app", &[]).exits(0);
    // The same resources.
    sandbox.write("state.yaml", program("app").replace("name: app", "name: other"));
    let up_other = |more: &[&str]| sandbox.run(&[&["up", "--yes", "--stack", "app"], more].concat());
    up_other(&[]).exits(4);
    up_other(&["--adopt"]).exits(0);
    up_other(&[]).exits(0);
    up(&sandbox, "app", &[]).exits(4);
    assert_eq!(addresses(&sandbox, "app").len(), 1);
}
