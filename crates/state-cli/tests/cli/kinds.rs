//! `kinds`: the kinds of resources that a program can declare.

use crate::sandbox::Sandbox;
use serde_json::json;

#[test]
fn kinds_are_listed_and_described_without_a_store() {
    let sandbox = Sandbox::new();
    let listed = sandbox.run(&["kinds"]).exits(0).stdout;
    let names = ["command", "directory", "file", "random:id", "random:password"];
    for name in names {
        assert!(listed.lines().any(|line| line.starts_with(name)), "{listed}");
    }
    let all = sandbox.run(&["kinds", "--json"]).exits(0).data("kinds");
    let text: Vec<_> = all.as_array().unwrap().iter().map(|kind| &kind["kind"]).collect();
    assert_eq!(text, names);
    let password = sandbox.run(&["kinds", "random:password", "--json"]).exits(0);
    let password = &password.data("kinds")[0];
    let named = |side: &str, name: &str| {
        let mut all = password[side].as_array().unwrap().iter();
        all.find(|one| one["name"] == name).unwrap()
    };
    let length = named("inputs", "length");
    assert_eq!(
        (&length["default"], &length["required"]),
        (&json!(24), &json!(false))
    );
    assert_eq!(named("outputs", "result")["sensitive"], true);
    let page = sandbox.run(&["kinds", "random:password"]).exits(0).stdout;
    let line = |name: &str| page.lines().find(|line| line.starts_with(name)).unwrap();
    assert!(line("length").contains("24"), "{page}");
    assert!(line("result").contains("yes"), "{page}");
    let command = sandbox.run(&["kinds", "command"]).exits(0).stdout;
    let create = command.lines().find(|line| line.starts_with("create"));
    assert!(create.unwrap().contains("(required)"), "{command}");
    assert!(command.contains("other outputs of the resource"), "{command}");
    assert_eq!(std::fs::read_dir(sandbox.path()).unwrap().count(), 0);
}

#[test]
fn unknown_kind_exits_10_and_suggests_the_nearest_kind() {
    let sandbox = Sandbox::new();
    let unknown = sandbox.run(&["kinds", "flie"]).exits(10);
    assert!(unknown.stderr.contains("did you mean `file`?"), "{unknown:?}");
    sandbox.write("state.yaml", "resources:\n  a: { kind: cloud, inputs: {} }");
    let up = sandbox.run(&["up", "--yes"]).exits(1);
    assert!(
        up.stderr.contains("hint: list all kinds with `statectl kinds`"),
        "{up:?}"
    );
}
