//! The layer rules on small workspaces, in the format of `cargo metadata`.

use serde_json::{Value, json};

use super::*;

/// A dependency: from, to, kind (`null` is normal), optional.
type Edge<'a> = (&'a str, &'a str, Value, bool);

fn normal<'a>(from: &'a str, to: &'a str) -> Edge<'a> {
    (from, to, Value::Null, false)
}

/// Returns the violations in a workspace with these members, other packages and dependencies.
fn judge(members: &[&str], foreign: &[&str], edges: &[Edge<'_>]) -> Vec<String> {
    let names = || members.iter().chain(foreign).copied();
    let from = |name: &str| {
        edges
            .iter()
            .filter(move |edge| edge.0 == name)
            .cloned()
            .collect::<Vec<_>>()
    };
    let packages = names().map(|name| {
        let dependencies = from(name).into_iter().map(
            |(_, to, kind, optional)| json!({"name": to, "kind": kind, "optional": optional, "source": null}),
        );
        json!({"id": format!("id-{name}"), "name": name, "dependencies": dependencies.collect::<Vec<_>>()})
    });
    let nodes = names().map(|name| {
        let deps = from(name)
            .into_iter()
            .map(|(_, to, kind, _)| json!({"pkg": format!("id-{to}"), "dep_kinds": [{"kind": kind}]}));
        json!({"id": format!("id-{name}"), "deps": deps.collect::<Vec<_>>()})
    });
    let metadata = json!({
        "packages": packages.collect::<Vec<_>>(),
        "workspace_members": members.iter().map(|name| format!("id-{name}")).collect::<Vec<_>>(),
        "resolve": {"nodes": nodes.collect::<Vec<_>>()},
    });
    violations(&Workspace::parse(metadata.to_string().as_bytes()).expect("the metadata is well-formed"))
}

#[test]
fn allowed_dependency_is_accepted() {
    let members = ["state-core", "state-formats", "state-cli"];
    let edges = [
        normal("state-formats", "state-core"),
        normal("state-cli", "state-core"),
        normal("state-cli", "state-formats"),
    ];
    assert_eq!(judge(&members, &[], &edges), Vec::<String>::new());
}

#[test]
fn forbidden_normal_and_build_dependencies_are_found() {
    for kind in [Value::Null, json!("build")] {
        let edges = [("state-backend-fs", "state-manager", kind, false)];
        let found = judge(&["state-backend-fs", "state-manager"], &[], &edges);
        assert_eq!(found, ["`state-backend-fs` may not depend on `state-manager`"]);
    }
}

#[test]
fn forbidden_optional_dependency_is_found() {
    let edges = [("state-core", "state-manager", Value::Null, true)];
    let found = judge(&["state-core", "state-manager"], &[], &edges);
    assert_eq!(found, ["`state-core` may not depend on `state-manager`"]);
}

#[test]
fn dependency_allowed_behind_a_feature_must_be_optional() {
    let members = ["state-manager", "state-backend-fs"];
    let optional = [("state-manager", "state-backend-fs", Value::Null, true)];
    assert_eq!(judge(&members, &[], &optional), Vec::<String>::new());
    let found = judge(&members, &[], &[normal("state-manager", "state-backend-fs")]);
    assert_eq!(
        found,
        ["`state-manager` may depend on `state-backend-fs` only behind a feature: make it optional"]
    );
}

#[test]
fn tests_may_use_any_crate_except_in_core_and_xtask() {
    let members = ["state-core", "state-backend-fs", "state-manager", "xtask"];
    let dev = |from| judge(&members, &[], &[(from, "state-manager", json!("dev"), false)]);
    assert_eq!(dev("state-backend-fs"), Vec::<String>::new());
    assert_eq!(
        dev("state-core"),
        ["`state-core` may not use `state-manager`, not even in its tests"]
    );
    assert_eq!(
        dev("xtask"),
        ["`xtask` may not use `state-manager`, not even in its tests"]
    );
}

#[test]
fn xtask_uses_no_crate_of_the_workspace() {
    let found = judge(&["xtask", "state-core"], &[], &[normal("xtask", "state-core")]);
    assert_eq!(found, ["`xtask` may not depend on `state-core`"]);
}

#[test]
fn crate_missing_from_the_table_is_found() {
    let found = judge(&["state-core", "state-new"], &[], &[]);
    assert_eq!(
        found,
        ["`state-new` is in no layer: add it to the table, with what it may use"]
    );
}

#[test]
fn runtime_deep_below_core_is_found_with_its_path() {
    let edges = [normal("state-core", "helper"), normal("helper", "tokio")];
    let found = judge(&["state-core"], &["helper", "tokio"], &edges);
    assert_eq!(
        found,
        ["`state-core` must not build `tokio`, but does: state-core -> helper -> tokio"]
    );
}

#[test]
fn runtime_in_the_tests_of_core_is_allowed() {
    let edges = [("state-core", "tokio", json!("dev"), false)];
    assert_eq!(judge(&["state-core"], &["tokio"], &edges), Vec::<String>::new());
}

#[test]
fn network_or_cipher_below_local_crates_is_found() {
    for &(package, banned) in NEVER_BUILT {
        let found = judge(&[package], &[banned], &[normal(package, banned)]);
        let expected = format!("`{package}` must not build `{banned}`, but does: {package} -> {banned}");
        assert_eq!(found, [expected]);
    }
    for pair in [
        ("state-backend-fs", "reqwest"),
        ("state-backend-fs", "age"),
        ("state-manager", "age"),
    ] {
        assert!(NEVER_BUILT.contains(&pair), "{pair:?}");
    }
}

#[test]
fn dependency_cycle_ends_the_search() {
    let edges = [normal("state-core", "a"), normal("a", "b"), normal("b", "a")];
    assert_eq!(judge(&["state-core"], &["a", "b"], &edges), Vec::<String>::new());
}

#[test]
fn unknown_metadata_format_is_an_error() {
    for text in ["", "{}", r#"{"workspace_members": [], "packages": []}"#] {
        assert!(
            Workspace::parse(text.as_bytes()).is_err(),
            "{text:?} was accepted"
        );
    }
}

#[test]
fn table_names_only_crates_with_a_layer() {
    for layer in LAYERS {
        for name in layer.may_use.iter().chain(layer.as_feature) {
            assert!(
                LAYERS.iter().any(|known| known.name == *name),
                "{name} has no layer"
            );
        }
    }
}

#[test]
fn default_build_is_checked_in_the_tree_of_the_package() {
    let tree = "state-manager v0.1.0 (crates)\nreqwest-like v1.0.0\nreqwest v0.13.5 (*)\n";
    assert!(built_by_default(tree, "state-manager", "reqwest").is_some());
    assert!(built_by_default(tree, "state-manager", "tokio").is_none());
    let without = "state-manager v0.1.0 (crates)\nreqwest-like v1.0.0\n";
    assert!(built_by_default(without, "state-manager", "reqwest").is_none());
}
