//! Well-formed Terraform states that violate integrity rules: all violations are reported, and a repair fixes them.

use crate::support::{assert_topological, export, import, import_broken, try_import, with_resources};
use state_core::repair::{self, RepairResult};
use state_core::verify::{Rule, Violation};
use state_core::{Error as Core, Json};
use state_formats::Error;

/// A resource with `instances` instances that depend on the resources `to`.
fn resource(name: &str, instances: usize, to: &[&str]) -> String {
    let to: Vec<_> = to.iter().map(|to| format!("\"t.{to}\"")).collect();
    let one = |index| format!(r#"{{"index_key": {index}, "dependencies": [{}]}}"#, to.join(", "));
    let all: Vec<_> = (0..instances).map(one).collect();
    format!(
        r#"{{"mode": "managed", "type": "t", "name": "{name}", "provider": "provider.t", "instances": [{}]}}"#,
        all.join(", ")
    )
}

fn state(resources: &[String]) -> String {
    with_resources(&format!("[{}]", resources.join(",\n")))
}

fn violations(text: &str) -> Vec<Violation> {
    match try_import(text) {
        Err(Error::Core(Core::Integrity { violations, .. })) => violations,
        other => panic!("{other:?}"),
    }
}

fn repaired(text: &str) -> RepairResult {
    let repaired = repair::repair(&import_broken(text).snapshot);
    assert!(repaired.is_valid(), "{:?}", repaired.remaining);
    assert_topological(&repaired.snapshot);
    repaired
}

fn steps(repaired: &RepairResult) -> Vec<String> {
    repaired.steps.iter().map(ToString::to_string).collect()
}

#[test]
fn every_cycle_and_every_duplicate_is_reported() {
    let text = state(&[
        resource("a", 1, &["b"]),
        resource("b", 1, &["a"]),
        resource("c", 1, &["d"]),
        resource("d", 1, &["e"]),
        resource("e", 1, &["c", "a"]),
        resource("f", 1, &[]),
        resource("f", 1, &[]),
    ]);
    let violations = violations(&text);
    let rules: Vec<_> = violations.iter().map(|violation| violation.rule).collect();
    assert_eq!(rules, [Rule::UniqueKey, Rule::Acyclic, Rule::Acyclic]);
    let messages: Vec<_> = violations.iter().map(ToString::to_string).collect();
    assert!(
        messages[0].contains("t.f[0]: a duplicate instance at line 7, column "),
        "{messages:?}"
    );
    assert!(
        messages[0].contains("($.resources[6].instances[0])"),
        "{messages:?}"
    );
    assert!(messages[1].contains("t.a[0] -> t.b[0] -> t.a[0]"), "{messages:?}");
    assert!(
        messages[2].contains("t.c[0] -> t.d[0] -> t.e[0] -> t.c[0]"),
        "{messages:?}"
    );
}

#[test]
fn repair_drops_one_dependency_of_a_cycle() {
    let text = state(&[
        resource("a", 1, &["z"]),
        resource("b", 1, &["c"]),
        resource("c", 1, &["b"]),
        resource("z", 1, &[]),
    ]);
    let mended = repaired(&text);
    assert_eq!(
        steps(&mended),
        ["t.b[0]: drop depends-on group t.c, which closes the cycle t.b[0] -> t.c[0] -> t.b[0]"]
    );
    let exported = export(&mended.snapshot);
    let value = Json::parse(&exported).expect("JSON");
    let listed = |at: usize| {
        let pointer = format!("/resources/{at}/instances/0/dependencies");
        value
            .view()
            .pointer(&pointer)
            .map(|list| Json::from_view(list).as_str().to_owned())
    };
    assert_eq!(
        [listed(0), listed(1), listed(2)],
        [Some("[\"t.z\"]".into()), None, Some("[\"t.b\"]".into())]
    );
    assert_topological(&import(&exported).snapshot);
}

#[test]
fn repair_breaks_a_cycle_of_groups_in_all_members_of_one_group() {
    let mended = repaired(&state(&[resource("a", 20, &["b"]), resource("b", 30, &["a"])]));
    // The 20 instances of `t.a` lose their dependency on `t.b`; the 30 instances of `t.b` keep theirs.
    assert_eq!(mended.steps.len(), 20, "{:?}", steps(&mended));
    assert_topological(&import(&export(&mended.snapshot)).snapshot);
}

#[test]
fn repair_drops_the_copy_of_a_duplicate_instance() {
    let mended = repaired(&state(&[resource("a", 1, &[]), resource("a", 1, &[])]));
    assert_eq!(
        steps(&mended),
        ["t.a[0]: occurs twice for the same object; drop one copy"]
    );
    let again = import(&export(&mended.snapshot)).snapshot;
    assert_eq!(
        again.entries.len(),
        1,
        "a deposed copy would destroy the live object"
    );
}

#[test]
fn valid_state_is_unchanged_by_a_repair() {
    // Dependencies of Terraform name groups, and a group without members, such as `gone`, is no violation.
    let text = state(&[resource("a", 3, &["b"]), resource("b", 2, &["gone"])]);
    let imported = import_broken(&text);
    assert_eq!(imported, import(&text));
    assert_eq!(repaired(&text).steps, []);
}

#[test]
fn repair_of_many_cycles_terminates() {
    let names: Vec<_> = (0..40).map(|index| format!("r{index:02}")).collect();
    let all: Vec<_> = names.iter().map(String::as_str).collect();
    let tangle: Vec<_> = names.iter().map(|name| resource(name, 3, &all)).collect();
    let text = state(&tangle);
    assert!(violations(&text).len() >= 20);
    repaired(&text);
}
