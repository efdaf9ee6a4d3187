//! Exports of changed Terraform states: written as Terraform would write them, without losing unchanged data.

use crate::support::{
    assert_topological, entry, export, export_as, extension, import, stored, with_instance, with_resources,
};
use state_core::{Dependency, Entry, Json, Properties, Serial, SharedEntry, Snapshot};

/// Changes the live entry with this address.
fn edit(snapshot: &mut Snapshot, address: &str, change: impl FnOnce(&mut Entry)) {
    let mut entry = entry(snapshot, address).clone();
    change(&mut entry);
    let place = snapshot
        .entries
        .iter_mut()
        .find(|old| old.key() == entry.key())
        .expect("found above");
    *place = SharedEntry::new(entry);
}

fn chain(name: &str, dependencies: &str) -> String {
    format!(
        r#"{{"mode": "managed", "type": "t", "name": "{name}", "provider": "provider.t", "instances": [{{"attributes": {{}}, "dependencies": [{dependencies}]}}]}}"#
    )
}

fn names(entry: &Entry) -> Vec<&str> {
    entry.depends_on.iter().map(|to| to.address().as_str()).collect()
}

#[test]
fn unusual_layout_is_kept_until_the_state_changes() {
    let text =
        with_instance("{\"x_unknown\": [1.0, {\"b\": 1, \"a\": 2}], \"attributes\": {\"b\": 1, \"a\": 2}}");
    let mut snapshot = stored(&import(&text).snapshot);
    assert!(extension(&snapshot).view().pointer("/original").is_some());
    assert_eq!(export(&snapshot), text);
    edit(&mut snapshot, "terraform_data.a", |entry| entry.tainted = true);
    let changed = export(&snapshot);
    assert!(changed.contains("\"status\": \"tainted\""), "{changed}");
    assert_eq!(export(&import(&changed).snapshot), changed);
    let value = Json::parse(&changed).expect("JSON");
    let unknown = value
        .view()
        .pointer("/resources/0/instances/0/x_unknown/1/b")
        .expect("kept");
    assert_eq!(unknown.number(), Some("1"));
}

#[test]
fn compact_state_stays_compact_after_a_change() {
    let text = r#"{"version":4,"terraform_version":"1.11.4","serial":7,"lineage":"l","outputs":{},"resources":[],"check_results":null}"#;
    for ending in ["", "\n"] {
        let mut snapshot = import(&format!("{text}{ending}")).snapshot;
        assert!(extension(&snapshot).view().get("original").is_none());
        snapshot.serial = Some(Serial(1));
        let bumped = text.replace("\"serial\":7", "\"serial\":8");
        assert_eq!(export(&snapshot), format!("{bumped}{ending}"));
    }
}

#[test]
fn serial_increases_with_revisions_and_lineage_is_kept() {
    let mut snapshot = import(&with_instance("{}")).snapshot;
    snapshot.serial = Some(Serial(3));
    let text = export(&snapshot);
    assert!(text.contains("\"serial\": 10,\n  \"lineage\": \"l\","), "{text}");
}

#[test]
fn ancestor_list_is_reduced_and_expanded_again() {
    let resources = [
        chain("a", r#""t.b", "t.c", "t.d""#),
        chain("b", r#""t.c", "t.d""#),
        chain("c", r#""t.d""#),
        chain("d", "").replace(r#", "dependencies": []"#, ""),
    ];
    let snapshot = import(&with_resources(&format!("[{}]", resources.join(",")))).snapshot;
    assert_topological(&snapshot);
    assert_eq!(names(entry(&snapshot, "t.a")), ["t.b"]);
    assert_eq!(names(entry(&snapshot, "t.b")), ["t.c"]);
    assert!(
        entry(&snapshot, "t.a").extensions["terraform"]
            .view()
            .get("dependencies")
            .is_none()
    );
    let text = export(&snapshot);
    let value = Json::parse(&text).expect("JSON");
    let listed = value
        .view()
        .pointer("/resources/0/instances/0/dependencies")
        .expect("a list");
    assert_eq!(Json::from_view(listed).as_str(), r#"["t.b","t.c","t.d"]"#);
}

#[test]
fn irreducible_list_is_kept_until_the_entry_changes() {
    for odd in [
        r#""t.c", "t.b""#,
        r#""t.b""#,
        r#""t.a", "t.b", "t.c""#,
        r#""gone.x", "t.c", "t.c""#,
        "",
    ] {
        let resources = [chain("a", odd), chain("b", r#""t.c""#), chain("c", "")];
        let mut snapshot = import(&with_resources(&format!("[{}]", resources.join(",")))).snapshot;
        edit(&mut snapshot, "t.c", |entry| entry.tainted = true);
        let value = Json::parse(&export(&snapshot)).expect("JSON");
        let listed = value
            .view()
            .pointer("/resources/0/instances/0/dependencies")
            .expect("a list");
        let expected = Json::parse(&format!("[{odd}]")).expect("JSON");
        assert_eq!(Json::from_view(listed).as_str(), expected.as_str());
        edit(&mut snapshot, "t.a", |entry| {
            entry.depends_on = vec![Dependency::Group("t.c".parse().expect("an address"))];
        });
        let value = Json::parse(&export(&snapshot)).expect("JSON");
        let listed = value
            .view()
            .pointer("/resources/0/instances/0/dependencies")
            .expect("a list");
        assert_eq!(Json::from_view(listed).as_str(), r#"["t.c"]"#);
    }
}

#[test]
fn new_instance_gets_the_provider_of_its_resource() {
    let mut snapshot = import(&with_instance("{\"index_key\": 0}")).snapshot;
    let mut sibling = Entry::leaf(
        r#"terraform_data.a["x"]"#.parse().expect("an address"),
        "terraform_data",
    );
    sibling.outputs = Properties::new(Json::parse(r#"{"id": "new"}"#).expect("JSON"));
    snapshot.entries.insert(0, sibling.into());
    let value = Json::parse(&export(&snapshot)).expect("JSON");
    let keys = |at: usize| {
        value
            .view()
            .pointer(&format!("/resources/0/instances/{at}/index_key"))
            .map(|key| key.text())
    };
    assert_eq!((keys(0), keys(1)), (Some("0"), Some("\"x\"")));
}

#[test]
fn entry_without_terraform_data_cannot_be_exported() {
    let mut snapshot = import(&with_instance("{}")).snapshot;
    for (address, reason) in [
        ("terraform_data.new", "no provider is recorded"),
        ("urn:pulumi:dev::x", "isn't a Terraform address"),
    ] {
        let mut broken = snapshot.clone();
        broken
            .entries
            .push(Entry::leaf(address.parse().expect("an address"), "k").into());
        let error = export_as(&broken, "terraform").expect_err(address).to_string();
        assert!(error.contains(address) && error.contains(reason), "{error}");
    }
    snapshot.extensions.clear();
    let error = export_as(&snapshot, "terraform")
        .expect_err("no lineage")
        .to_string();
    assert!(
        error.contains("wasn't imported from a Terraform state"),
        "{error}"
    );
    snapshot = import(&with_instance("{}")).snapshot;
    snapshot.foreign_serials.clear();
    assert!(export_as(&snapshot, "terraform").is_err());
}

#[test]
fn removed_entry_removes_only_its_instance() {
    let mut snapshot = import(&with_instance(
        "{\"index_key\": 1}, {\"index_key\": 0}, {\"index_key\": 2}, {\"index_key\": \"1\"}",
    ))
    .snapshot;
    snapshot
        .entries
        .retain(|entry| entry.address.as_str() != "terraform_data.a[1]");
    let value = Json::parse(&export(&snapshot)).expect("JSON");
    let instances = value.view().pointer("/resources/0/instances").expect("instances");
    let keys: Vec<_> = instances
        .elements()
        .expect("an array")
        .filter_map(|one| one.get("index_key"))
        .collect();
    let keys: Vec<_> = keys.iter().map(|key| key.text()).collect();
    assert_eq!(keys, ["0", "2", "\"1\""]);
}

#[test]
fn sensitive_paths_with_an_index_are_kept_beside_new_ones() {
    let path = r#"[{"type": "get_attr", "value": "list"}, {"type": "index", "value": {"value": 0, "type": "number"}}]"#;
    let fields = format!("{{\"attributes\": {{\"list\": [1]}}, \"sensitive_attributes\": [{path}]}}");
    let mut snapshot = import(&with_instance(&fields)).snapshot;
    assert_eq!(
        entry(&snapshot, "terraform_data.a").sensitive_outputs,
        ["/list/0"]
    );
    edit(&mut snapshot, "terraform_data.a", |entry| {
        entry.sensitive_outputs.insert(0, "token".to_owned());
    });
    let value = Json::parse(&export(&snapshot)).expect("JSON");
    let paths = value
        .view()
        .pointer("/resources/0/instances/0/sensitive_attributes")
        .expect("paths");
    let expected = Json::parse(&format!(
        "[[{{\"type\": \"get_attr\", \"value\": \"token\"}}], {path}]"
    ))
    .expect("JSON");
    assert_eq!(Json::from_view(paths), expected);
}

#[test]
fn check_results_distinguish_absent_null_and_empty() {
    for (given, expected) in [
        ("", None),
        (r#", "check_results": null"#, Some("null")),
        (r#", "check_results": []"#, Some("[]")),
    ] {
        let mut snapshot =
            stored(&import(&format!("{{\"version\": 4, \"lineage\": \"l\"{given}}}")).snapshot);
        snapshot.serial = Some(Serial(1));
        let value = Json::parse(&export(&snapshot)).expect("JSON");
        assert_eq!(
            value.view().get("check_results").map(|found| found.text()),
            expected
        );
    }
}

#[test]
fn lone_deposed_object_keeps_its_dependency_list() {
    let deposed =
        chain("a", r#""t.b""#).replace("{\"attributes\"", "{\"deposed\": \"00000001\", \"attributes\"");
    let resources = [deposed, chain("b", r#""t.c""#), chain("c", "")];
    let mut snapshot = import(&with_resources(&format!("[{}]", resources.join(",")))).snapshot;
    assert_topological(&snapshot);
    edit(&mut snapshot, "t.c", |entry| entry.tainted = true);
    let value = Json::parse(&export(&snapshot)).expect("JSON");
    let listed = value
        .view()
        .pointer("/resources/0/instances/0/dependencies")
        .expect("a list");
    assert_eq!(Json::from_view(listed).as_str(), r#"["t.b"]"#);
}
