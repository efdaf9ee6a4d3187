//! Settings from files, and the scripts that complete the command line.

use crate::sandbox::{Sandbox, run};
use serde_json::Value;

const CONFIG: &str = "\
backend = \"stores/dev\"
[profiles.production]
backend = \"file://stores/prod\"
stack = \"shop/production\"
";

fn setting(shown: &Value, key: &str) -> Value {
    let all = shown["settings"].as_array().unwrap();
    all.iter().find(|setting| setting["key"] == key).unwrap().clone()
}

#[test]
fn a_file_upward_names_store_and_stack_relative_to_itself() {
    let sandbox = Sandbox::new();
    sandbox.write("statectl.toml", CONFIG);
    let deep = sandbox.path().join("a/b");
    std::fs::create_dir_all(&deep).unwrap();
    run(sandbox.command(&["init"]).current_dir(&deep)).exits(0);
    assert!(sandbox.path().join("stores/dev/format").is_file());
    run(sandbox
        .command(&["init", "--profile", "production"])
        .current_dir(&deep))
    .exits(0);
    assert!(sandbox.path().join("stores/prod/format").is_file());
    let missing = run(sandbox.command(&["list"]).env("STATECTL_PROFILE", "production")).exits(10);
    assert!(missing.stderr.contains("shop/production"), "{missing:?}");
}

#[test]
fn flags_win_over_the_environment_and_that_over_files() {
    let sandbox = Sandbox::new();
    sandbox.write("statectl.toml", CONFIG);
    let show = ["config", "show", "--json", "--profile", "production"];
    let shown = sandbox.run(&show).exits(0).data("config");
    let backend = setting(&shown, "backend");
    assert_eq!(backend["origin"], "file");
    assert_eq!(backend["profile"], "production");
    assert!(
        backend["value"].as_str().unwrap().ends_with("/stores/prod"),
        "{backend}"
    );
    assert_eq!(setting(&shown, "profile")["origin"], "flag");
    assert_eq!(setting(&shown, "stack")["value"], "shop/production");
    let shown = run(sandbox.command(&show).env("STATECTL_BACKEND", "/env")).data("config");
    assert_eq!(setting(&shown, "backend")["origin"], "environment");
    assert_eq!(setting(&shown, "backend")["value"], "/env");
    assert_eq!(
        setting(&shown, "stack")["value"],
        Value::Null,
        "it is of another store"
    );
    let mut both = sandbox.command(&show);
    let shown = run(both.args(["--backend", "/flag"]).env("STATECTL_BACKEND", "/env")).data("config");
    assert_eq!(setting(&shown, "backend")["origin"], "flag");
    assert_eq!(setting(&shown, "backend")["source"], "--backend");
    let told = sandbox.run(&["config", "show", "--origin"]).exits(0);
    assert!(
        told.stdout.contains("statectl.toml") && told.stdout.contains("nobody set it"),
        "{told:?}"
    );
}

#[test]
fn the_file_of_the_user_counts_where_that_of_the_project_is_silent() {
    let sandbox = Sandbox::new();
    sandbox.write("statectl.toml", "backend = \"stores/dev\"\n");
    std::fs::create_dir_all(sandbox.path().join("user-config/statectl")).unwrap();
    sandbox.write(
        "user-config/statectl/config.toml",
        "backend = \"/user\"\nstack = \"mine\"\n[profiles.p]\nbackend = \"/user-p\"\n",
    );
    let shown = sandbox.run(&["config", "show", "--json"]).exits(0).data("config");
    assert!(
        setting(&shown, "backend")["value"]
            .as_str()
            .unwrap()
            .ends_with("stores/dev")
    );
    assert_eq!(setting(&shown, "stack")["value"], "mine");
    assert_eq!(shown["files"].as_array().unwrap().len(), 2);
    let shown = sandbox
        .run(&["config", "show", "--json", "--profile", "p"])
        .data("config");
    assert_eq!(
        setting(&shown, "backend")["value"],
        "file:///user-p",
        "a profile was asked for"
    );
}

#[test]
fn a_file_that_is_not_understood_says_where() {
    let sandbox = Sandbox::new();
    for (text, part) in [
        ("\nstak = \"x\"\n", "statectl.toml:2"),
        ("backend = 5\n", "statectl.toml:1"),
        ("a\n", "statectl.toml:1"),
        ("stack = \"a/b/c\"\n", "statectl.toml"),
        ("profile = \"none\"\n", "profile none"),
    ] {
        sandbox.write("statectl.toml", text);
        let broken = sandbox.run(&["config", "show"]).exits(2);
        assert!(broken.stderr.contains(part), "{text}: {broken:?}");
    }
    sandbox.write("statectl.toml", CONFIG);
    let unknown = sandbox
        .run(&["list", "--profile", "prod", "--json"])
        .exits(2)
        .json();
    assert_eq!(unknown["error"]["hint"], "the profiles are: production");
}

#[test]
fn each_shell_has_a_script_that_knows_the_commands() {
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

/// What Bash would offer at the end of these words.
fn offered(sandbox: &Sandbox, words: &[&str]) -> Vec<String> {
    let script = r#"
        source <(statectl completions bash)
        COMP_WORDS=(statectl "$@"); COMP_CWORD=$#
        _statectl_words statectl "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
        printf '%s\n' "${COMPREPLY[@]}"
    "#;
    let binary = std::path::Path::new(env!("CARGO_BIN_EXE_statectl"));
    let path = std::env::join_paths(std::iter::once(binary.parent().unwrap().to_owned()).chain(
        std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()),
    ));
    let mut bash = std::process::Command::new("bash");
    bash.args(["--norc", "-c", script, "bash"])
        .args(words)
        .current_dir(sandbox.path())
        .env("PATH", path.unwrap());
    run(&mut bash)
        .exits(0)
        .stdout
        .lines()
        .map(str::to_owned)
        .collect()
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
        "nothing there, nothing said"
    );
}

#[test]
fn bash_runs_nothing_that_a_name_holds() {
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
