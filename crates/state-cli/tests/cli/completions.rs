//! Tests the completion scripts in their shells.

use crate::sandbox::{Sandbox, run};
use state_core::testkit::run::skip;

#[test]
fn completion_script_of_each_shell_lists_the_commands() {
    let sandbox = Sandbox::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = sandbox.run(&["completions", shell]).exits(0).stdout;
        for word in ["statectl", "rollback", "profile", "pending"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
        let json = sandbox
            .run(&["completions", shell, "--json"])
            .exits(0)
            .data("completions");
        assert_eq!(json["script"], script.as_str());
    }
    sandbox.run(&["completions", "tcsh"]).exits(2);
}

/// Returns the completions that a shell offers for the last of these words; `None` if the shell isn't installed.
fn offered_by(shell: &str, script: &str, sandbox: &Sandbox, words: &[&str]) -> Option<Vec<String>> {
    let binary = std::path::Path::new(env!("CARGO_BIN_EXE_statectl"));
    let path = std::env::join_paths(std::iter::once(binary.parent().unwrap().to_owned()).chain(
        std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()),
    ));
    let bare: &[&str] = match shell {
        "bash" => &["--norc"],
        "zsh" => &["-f"],
        _ => &["--no-config"],
    };
    let mut command = std::process::Command::new(shell);
    command
        .args(bare)
        .args(["-c", script])
        .arg(if shell == "fish" { "--" } else { shell })
        .args(words)
        .current_dir(sandbox.path())
        .env("PATH", path.unwrap());
    if std::process::Command::new(shell)
        .arg("--version")
        .output()
        .is_err()
    {
        skip(shell, "completion of a command line");
        return None;
    }
    let lines = run(&mut command).exits(0).stdout;
    Some(lines.lines().map(str::to_owned).collect())
}

/// Returns the completions that Bash offers for the last of these words.
fn offered(sandbox: &Sandbox, words: &[&str]) -> Vec<String> {
    let script = r#"
        source <(statectl completions bash)
        COMP_WORDS=(statectl "$@"); COMP_CWORD=$#
        _statectl_words statectl "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
        printf '%s\n' "${COMPREPLY[@]}"
    "#;
    offered_by("bash", script, sandbox, words).expect("bash is installed")
}

#[test]
fn zsh_and_fish_complete_names_and_never_execute_them() {
    let sandbox = Sandbox::with_shop();
    let zsh = r#"
        autoload -U compinit && compinit -u -D
        source <(statectl completions zsh)
        words=(statectl "${(@q)@}"); CURRENT=${#words}; PREFIX="${@[-1]}"
        compadd() { shift; print -rl -- "$@" }
        _statectl() { print static }
        _statectl_words
    "#;
    let fish = r#"
        statectl completions fish | source
        complete -C "statectl "(string join ' ' -- $argv) | string split -f 1 \t; true
    "#;
    for (shell, script) in [("zsh", zsh), ("fish", fish)] {
        let offer = |words: &[&str]| offered_by(shell, script, &sandbox, words);
        let Some(addresses) = offer(&["show", ""]) else {
            continue;
        };
        let database = "terraform_data.database".to_owned();
        assert!(addresses.contains(&database), "{shell}: {addresses:?}");
        assert!(
            offer(&["rm", database.as_str(), ""]).unwrap().contains(&database),
            "{shell}"
        );
        let stacks = offer(&["--backend=file://.state", "list", "--stack", ""]).unwrap();
        assert!(stacks.contains(&"default".to_owned()), "{shell}: {stacks:?}");
        assert_eq!(offer(&["rollback", ""]).unwrap().len(), 1, "{shell}");
        let commands = offer(&[""]).unwrap().concat();
        assert!(
            commands.contains("static") || commands.contains("history"),
            "{shell}: {commands}"
        );
    }
}

#[test]
fn bash_completes_stacks_addresses_and_revisions_from_the_store() {
    let sandbox = Sandbox::with_shop();
    sandbox.run(&["stack", "new", "net/prod"]).exits(0);
    assert_eq!(
        offered(&sandbox, &["list", "--stack", ""]),
        ["default", "net/prod"]
    );
    assert_eq!(offered(&sandbox, &["list", "--stack", "n"]), ["net/prod"]);
    assert_eq!(offered(&sandbox, &["stack", "rm", "d"]), ["default"]);
    let addresses = offered(&sandbox, &["--stack", "default", "show", "terraform_data.d"]);
    assert!(
        addresses.contains(&"terraform_data.database".to_owned()),
        "{addresses:?}"
    );
    let revisions = offered(&sandbox, &["--stack", "default", "rollback", ""]);
    assert_eq!(revisions.len(), 1, "{revisions:?}");
    assert!(offered(&sandbox, &["hist"]).contains(&"history".to_owned()));
    let elsewhere = Sandbox::new();
    assert_eq!(
        offered(&elsewhere, &["show", ""]).concat(),
        "",
        "without a store, the completion must offer and print nothing"
    );
}

#[test]
fn bash_never_executes_code_in_a_name() {
    let sandbox = Sandbox::new();
    let state = std::fs::read_to_string(crate::sandbox::fixture("shop.tfstate")).unwrap();
    let hostile = state.replacen(
        "\"index_key\": \"",
        "\"index_key\": \"$(touch ran)`touch ran`;touch ran ",
        1,
    );
    assert_ne!(state, hostile);
    sandbox.write("hostile.tfstate", hostile);
    sandbox.run(&["import", "hostile.tfstate"]).exits(0);
    let all = offered(&sandbox, &["show", ""]);
    assert!(all.iter().any(|word| word.contains("touch")), "{all:?}");
    assert!(!sandbox.path().join("ran").exists());
}
