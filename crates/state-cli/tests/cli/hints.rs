//! Commands in hints work when they are pasted: with the stack that the error is about, and with the user's store.

use crate::sandbox::{CommandOutput, Sandbox, fixture, run};
use std::process::Stdio;

/// The commands in backticks on the line of the hint.
pub(crate) fn commands(stderr: &str) -> Vec<String> {
    let hints = stderr.lines().filter(|line| line.starts_with("hint: "));
    let parts = hints.flat_map(|line| line.split('`').skip(1).step_by(2));
    parts
        .filter(|part| part.starts_with("statectl "))
        .map(str::to_owned)
        .collect()
}

/// Runs a command of a hint in a shell, and answers every question with yes.
pub(crate) fn paste(sandbox: &Sandbox, command: &str, policy: &str) -> CommandOutput {
    let prepared = sandbox.command(&[]);
    let binary = std::path::Path::new(env!("CARGO_BIN_EXE_statectl"));
    let path = format!(
        "{}:{}",
        binary.parent().unwrap().display(),
        std::env::var("PATH").unwrap()
    );
    let mut shell = std::process::Command::new("sh");
    shell
        .args(["-c", &format!("{command} --yes")])
        .current_dir(sandbox.path())
        .stdin(Stdio::null());
    for (name, value) in prepared.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    run(shell.env("STATECTL_POLICY", policy).env("PATH", path))
}

/// A store in a folder whose name needs quotes, with the stacks `default` and `shop/eu`.
fn two_stacks() -> (Sandbox, &'static str) {
    let (sandbox, store) = (Sandbox::new(), "my store");
    let file = fixture("shop.tfstate");
    for stack in ["default", "shop/eu"] {
        let arguments = [
            "--backend",
            store,
            "import",
            "--stack",
            stack,
            file.to_str().unwrap(),
        ];
        run(&mut sandbox.sealing(&arguments)).exits(0);
    }
    (sandbox, store)
}

/// The only command of the error's hint. It must name the store and the stack.
#[track_caller]
fn only_command(refused: &CommandOutput) -> String {
    let found = commands(&refused.stderr);
    let [only] = &*found else {
        panic!("one command in {refused:?}");
    };
    assert!(
        only.contains("--backend 'my store'") && only.contains("--stack shop/eu"),
        "{only}"
    );
    only.clone()
}

#[test]
fn hint_of_a_distrusted_stack_accepts_it_when_pasted() {
    let (sandbox, store) = two_stacks();
    let (folder, earlier) = (sandbox.path().join(store), sandbox.path().join("earlier"));
    let copied = |from: &std::path::Path, to: &std::path::Path| {
        let status = std::process::Command::new("cp")
            .arg("-a")
            .args([from, to])
            .status();
        assert!(status.unwrap().success());
    };
    copied(&folder, &earlier);
    let taint = [
        "--backend",
        store,
        "--stack",
        "shop/eu",
        "taint",
        "terraform_data.database",
        "--yes",
    ];
    sandbox.run(&taint).exits(0);
    std::fs::remove_dir_all(&folder).unwrap();
    copied(&earlier, &folder);
    let refused = sandbox.run(&taint).exits(12);
    paste(&sandbox, &only_command(&refused), "sensitive").exits(0);
    sandbox.run(&taint).exits(0);
}

#[test]
fn hint_of_unapproved_commands_approves_them_when_pasted() {
    let (sandbox, store) = (Sandbox::new(), "my store");
    sandbox.write("first.yaml", "name: first\nresources: {}\n");
    let job = "name: shop/eu\nresources:\n  a: { kind: command, inputs: { create: [echo, made], read: [echo, read] } }\n";
    sandbox.write("state.yaml", job);
    sandbox
        .run(&["--backend", store, "up", "first.yaml", "--yes"])
        .exits(0);
    sandbox
        .run(&["--backend", store, "stack", "new", "shop/eu"])
        .exits(0);
    sandbox
        .run(&["--backend", store, "up", "state.yaml", "--yes"])
        .exits(0);
    std::fs::remove_dir_all(sandbox.path().join("user-state")).unwrap();
    let refused = sandbox.run(&["--backend", store, "refresh", "--yes"]).exits(20);
    let found = commands(&refused.stderr);
    assert!(
        found[0].contains("--backend 'my store' trust commands --stack shop/eu"),
        "{found:?}"
    );
    paste(&sandbox, &found[0], "plaintext").exits(0);
    sandbox.run(&["--backend", store, "refresh", "--yes"]).exits(0);
}

#[test]
fn hints_of_recipients_work_when_pasted() {
    let (sandbox, store) = two_stacks();
    let age = |name: &str| {
        let mut command = sandbox.command(&["identity", "--new"]);
        let made = run(command.env("XDG_CONFIG_HOME", sandbox.path().join(name))).exits(0);
        made.stdout.trim().to_owned()
    };
    let (escrow, reader) = (age("escrow"), age("reader"));
    let on_stack = |arguments: &[&str]| {
        let all = [&["--backend", store, "--stack", "shop/eu"], arguments].concat();
        sandbox.run(&all)
    };
    on_stack(&["recipients", "add", "--escrow", &escrow]).exits(0);
    on_stack(&["recipients", "add", "--outputs", &reader]).exits(0);
    let refused = on_stack(&["recipients", "remove", &reader, "--yes"]).exits(10);
    let command = only_command(&refused);
    assert!(command.contains("remove --outputs"), "{command}");
    paste(&sandbox, &command, "sensitive").exits(0);
    let refused = on_stack(&["recipients", "remove", &escrow, "--yes"]).exits(4);
    paste(&sandbox, &only_command(&refused), "sensitive").exits(0);
    let left = on_stack(&["recipients", "list", "--json"])
        .exits(0)
        .data("recipients");
    assert_eq!(left["recipients"].as_array().unwrap().len(), 1, "{left}");
    assert_eq!(left["of-outputs"].as_array().unwrap().len(), 0, "{left}");
}

#[test]
fn commands_of_lock_reports_work_when_pasted() {
    let (sandbox, store) = two_stacks();
    let on_stack = |arguments: &[&str]| {
        let all = [&["--backend", store, "--stack", "shop/eu"], arguments].concat();
        sandbox.run(&all)
    };
    let locked = on_stack(&["lock", "acquire"]).exits(0).stdout;
    let release = locked.split('`').nth(3).unwrap();
    let warned = on_stack(&["lock", "break", "--yes"]).exits(0).stderr;
    // The holder's operation is quoted too.
    let by_id = warned
        .split('`')
        .find(|part| part.starts_with("statectl "))
        .unwrap();
    assert!(by_id.contains("lock break --id"), "{by_id}");
    paste(&sandbox, by_id, "sensitive").exits(0);
    let again = on_stack(&["lock", "acquire"]).exits(0).stdout;
    assert_ne!(release, again.split('`').nth(3).unwrap());
    paste(&sandbox, again.split('`').nth(3).unwrap(), "sensitive").exits(0);
    on_stack(&["lock", "acquire"]).exits(0);
    let refused = on_stack(&["taint", "terraform_data.database", "--yes"]).exits(11);
    for command in commands(&refused.stderr) {
        assert!(
            command.contains("--backend 'my store'") && command.contains("--stack shop/eu"),
            "{command}"
        );
    }
}

#[test]
fn foreign_encrypted_value_exits_12() {
    let sandbox = Sandbox::new();
    run(&mut sandbox.sealing(&["--backend", "s", "init"])).exits(0);
    for stack in ["one", "two"] {
        run(&mut sandbox.sealing(&["--backend", "s", "stack", "new", stack])).exits(0);
    }
    let secret = |arguments: &[&str], stack: &str, input: &str| {
        let file = sandbox.write("input", input);
        let all = [&["--backend", "s", "--stack", stack, "secret"], arguments].concat();
        let mut command = sandbox.sealing(&all);
        run(command.stdin(std::fs::File::open(file).unwrap()))
    };
    let sealed = secret(&["encrypt", "token"], "one", "hunter2").exits(0).stdout;
    let opened = secret(&["decrypt", "token"], "one", &sealed).exits(0);
    assert_eq!(opened.stdout, "hunter2");
    for (stack, name) in [("two", "token"), ("one", "other")] {
        let refused = secret(&["decrypt", name], stack, &sealed).exits(12);
        assert!(
            refused.stderr.contains("hint: decrypt the value under the name"),
            "{refused:?}"
        );
    }
    let batch = format!("{{\"token\": \"{}\"}}", sealed.trim());
    secret(&["decrypt", "--batch"], "two", &batch).exits(12);
    secret(&["decrypt", "token"], "one", "no value at all").exits(1);
}

#[test]
fn hint_of_a_plaintext_stack_encrypts_it_when_pasted() {
    let store = ["--backend", "my store", "--stack", "shop/eu"];
    let other = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p";
    for command in [
        &["secret", "encrypt", "token"][..],
        &["recipients", "add", other],
        &["rekey", "--yes"],
    ] {
        let sandbox = Sandbox::new();
        let file = fixture("shop.tfstate");
        sandbox.run(&["identity", "--new"]).exits(0);
        sandbox
            .run(&[&store, &["import", file.to_str().unwrap()][..]].concat())
            .exits(0);
        let ran = [&store, command].concat();
        let refused = sandbox.run(&ran);
        assert_ne!(refused.code, 0, "{refused:?}");
        let encrypt = only_command(&refused);
        paste(&sandbox, &encrypt, "sensitive").exits(0);
        sandbox.run(&ran).exits(0);
    }
}
