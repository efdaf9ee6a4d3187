//! Settings from the files of the user and the project.

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
fn project_file_in_a_parent_folder_names_store_and_stack() {
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
fn flags_override_environment_which_overrides_files() {
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
        "the stack of the file must not be used in another store"
    );
    let mut both = sandbox.command(&show);
    let shown = run(both.args(["--backend", "/flag"]).env("STATECTL_BACKEND", "/env")).data("config");
    assert_eq!(setting(&shown, "backend")["origin"], "flag");
    assert_eq!(setting(&shown, "backend")["source"], "--backend");
    let text = sandbox.run(&["config", "show", "--origin"]).exits(0);
    assert!(
        text.stdout.contains("statectl.toml") && text.stdout.contains("not set"),
        "{text:?}"
    );
}

#[test]
fn user_settings_apply_where_the_project_sets_none() {
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
        "the selected profile must take precedence"
    );
}

#[test]
fn error_names_file_and_line_of_an_invalid_setting() {
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
    assert_eq!(unknown["error"]["hint"], "existing profiles: production");
}
