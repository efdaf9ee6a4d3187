//! How Pulumi states are mapped to the model, and how changed snapshots are exported.

use super::support::{AWS, AWS_ID, SECRET, SIGNATURE, STACK, export, import, shop, text_of, urn, value};
use super::text::{compact, exported};
use crate::support::{check_import, entry, export_as, stored, try_import_as, with_resources};
use serde_json::json;
use state_core::entry::Provider;
use state_core::{Dependency, EntryType, Json, Snapshot};
use state_formats::{Error, ImportVerdict, Refusal};
use std::sync::Arc;

fn database() -> String {
    urn("aws:rds/instance:Instance", "db")
}

#[test]
fn state_is_mapped_field_by_field() {
    let imported = import(&text_of(&shop()));
    let snapshot = &imported.snapshot;
    let names: Vec<_> = snapshot
        .entries
        .iter()
        .map(|entry| entry.address.to_string())
        .collect();
    let expected = [
        STACK.to_owned(),
        AWS.to_owned(),
        urn("aws:ec2/vpc:Vpc", "net"),
        database(),
    ];
    assert_eq!(names, expected, "the order is kept");
    let foreign = imported.foreign.expect("a Pulumi lineage and serial");
    assert_eq!(
        (foreign.system, &*foreign.lineage, foreign.serial),
        ("pulumi", "shop/dev", 0)
    );

    let root = entry(snapshot, STACK);
    assert_eq!(root.entry_type, EntryType::LibraryCall);
    assert_eq!(root.library.as_deref(), Some("pulumi"));
    assert_eq!(root.library_type.as_deref(), Some("pulumi:pulumi:Stack"));
    assert_eq!(root.outputs, None, "its outputs were moved to the stack");
    assert_eq!(snapshot.outputs["url"].as_str(), "\"https://shop.example\"");
    assert_eq!(snapshot.sensitive_outputs, ["/token"]);

    let entry = entry(snapshot, &database());
    assert_eq!(entry.entry_type, EntryType::Leaf);
    assert_eq!(entry.kind.as_deref(), Some("aws:rds/instance:Instance"));
    assert_eq!(entry.id.as_deref(), Some("db-1"));
    assert_eq!(entry.parent.as_ref().map(|parent| parent.as_str()), Some(STACK));
    assert!(entry.protect);
    let provider = Provider {
        address: AWS.parse().expect("an address"),
        id: Some(AWS_ID.to_owned()),
    };
    assert_eq!(entry.provider, Some(provider));
    let net = Dependency::Entry(urn("aws:ec2/vpc:Vpc", "net").parse().expect("an address"));
    assert_eq!(entry.depends_on, std::slice::from_ref(&net));
    assert_eq!(entry.property_dependencies["password"], []);
    assert_eq!(entry.property_dependencies["size"], [net]);
    assert_eq!(entry.sensitive_inputs, ["/password"]);
    assert_eq!(entry.sensitive_outputs, ["/password"]);
    assert_eq!(
        entry.created.as_ref().map(|at| at.as_str()),
        Some("2026-01-02T03:04:05Z")
    );
    let aliases = entry.extensions["pulumi"].view().pointer("/fields/aliases/0");
    assert!(aliases.is_some(), "{:?}", entry.extensions);
}

#[test]
fn additional_secret_outputs_are_sensitive() {
    let mut list = shop();
    list[3]["outputs"]["password"] = "hunter2-hunter2".into();
    let snapshot = import(&text_of(&list)).snapshot;
    assert_eq!(entry(&snapshot, &database()).sensitive_outputs, ["/password"]);
    assert_eq!(export(&stored(&snapshot)), text_of(&list));
}

#[test]
fn changed_fields_are_exported_and_all_others_kept() {
    let mut snapshot = stored(&import(&text_of(&shop())).snapshot);
    let changed = Arc::make_mut(&mut snapshot.entries[3]);
    changed.protect = false;
    changed.retain_on_delete = true;
    changed.depends_on.clear();
    *changed.deleted_with = Some(STACK.parse().expect("an address"));
    changed.inputs = state_core::Properties::new(Json::parse(r#"{"size":21}"#).expect("JSON"));
    snapshot
        .outputs
        .insert("url".to_owned(), Json::from_string("https://new.example"));
    let mut list = shop();
    list[0]["outputs"]["url"] = "https://new.example".into();
    let database = list[3].as_object_mut().expect("an object");
    for key in ["protect", "dependencies"] {
        database.remove(key);
    }
    database.insert("retainOnDelete".to_owned(), true.into());
    database.insert("deletedWith".to_owned(), STACK.into());
    database.insert("inputs".to_owned(), json!({"size": 21}));
    assert_eq!(export(&snapshot), text_of(&list));
}

#[test]
fn resources_pending_deletion_have_distinct_stable_keys() {
    let mut list = shop();
    for id in ["db-old", "db-older", "db-old"] {
        let mut tombstone = list[3].clone();
        tombstone["delete"] = true.into();
        tombstone["id"] = id.into();
        list.push(tombstone);
    }
    let text = text_of(&list);
    let snapshot = import(&text).snapshot;
    assert!(state_core::verify::verify(&snapshot).is_valid());
    let keys = |snapshot: &Snapshot| -> Vec<(Option<String>, String)> {
        let deposed = snapshot.entries.iter().filter(|entry| !entry.is_live());
        deposed
            .map(|entry| {
                (
                    entry.id.clone(),
                    entry.deposed.as_ref().expect("deposed").to_string(),
                )
            })
            .collect()
    };
    let all = keys(&snapshot);
    assert_eq!(all.len(), 3);
    assert_eq!(all[2].1, format!("{}-2", all[0].1));
    assert_eq!(export(&stored(&snapshot)), text);
    list.remove(4);
    list.pop();
    let fewer = keys(&import(&text_of(&list)).snapshot);
    assert_eq!(
        fewer,
        [all[1].clone()],
        "the key doesn't depend on resources with other ids"
    );
}

#[test]
fn pending_replacement_may_name_a_missing_provider() {
    let mut list = shop();
    list.remove(1);
    list.remove(1);
    list[1].as_object_mut().expect("an object").remove("dependencies");
    list[1]["propertyDependencies"] = json!({});
    let broken = import(&text_of(&list)).snapshot;
    assert!(!state_core::verify::verify(&broken).is_valid());
    list[1]["pendingReplacement"] = true.into();
    for external in [false, true] {
        if external {
            list[1]["external"] = true.into();
        }
        let snapshot = import(&text_of(&list)).snapshot;
        assert!(state_core::verify::verify(&snapshot).is_valid());
        assert_eq!(export(&stored(&snapshot)), text_of(&list));
    }
}

#[test]
fn newly_used_feature_is_declared() {
    let mut snapshot = import(&text_of(&shop())).snapshot;
    Arc::make_mut(&mut snapshot.entries[3]).tainted = true;
    let document = value(&export(&snapshot));
    assert_eq!(
        (&document["version"], &document["features"]),
        (&json!(4), &json!(["taint"]))
    );
    Arc::make_mut(&mut snapshot.entries[3]).replace_with = vec![STACK.parse().expect("an address")].into();
    let document = value(&export(&snapshot));
    assert_eq!(document["features"], json!(["replaceWith", "taint"]));
    assert_eq!(value(&export(&import(&export(&snapshot)).snapshot)), document);

    let old = export(&snapshot).replace("\"version\": 4", "\"version\": 1");
    let old = old.replacen("\"taint\": true", "\"taint\": false", 1);
    let mut old = import(&old).snapshot;
    Arc::make_mut(&mut old.entries[3]).tainted = true;
    assert_eq!(
        value(&export(&old))["version"],
        1,
        "`features` already declares `taint`, so the version stays"
    );
    let mut plain = import(&text_of(&shop()).replace("\"version\": 3", "\"version\": 1")).snapshot;
    Arc::make_mut(&mut plain.entries[3]).tainted = true;
    let error = export_as(&plain, "pulumi").expect_err("version 1 has no features");
    assert!(error.to_string().contains("taint"), "{error}");
}

#[test]
fn stack_without_resources_accepts_entries() {
    let entries = import(&text_of(&shop())).snapshot.entries;
    let forms = [
        "{\n    \"version\": 3,\n    \"checkpoint\": {\n        \"stack\": \"dev\"\n    }\n}\n",
        r#"{"version":3,"checkpoint":{"stack":"dev","latest":null}}"#,
        r#"{"version":3,"checkpoint":{}}"#,
        r#"{"stack":"dev","latest":{}}"#,
        r#"{"version":3,"deployment":{"manifest":{"time":"","magic":"","version":""},"resources":null}}"#,
    ];
    for text in forms {
        let mut snapshot = import(text).snapshot;
        assert_eq!(export(&stored(&snapshot)), text);
        snapshot.entries.clone_from(&entries);
        let again = import(&export(&snapshot)).snapshot;
        assert_eq!(again.entries.len(), entries.len(), "{text}");
    }
}

#[test]
fn export_as_another_system_is_refused() {
    let pulumi = import(&text_of(&shop())).snapshot;
    for format in ["terraform", "unobin"] {
        let error = export_as(&pulumi, format)
            .expect_err("another system")
            .to_string();
        assert!(error.contains("it is a Pulumi state"), "{error}");
    }
    let terraform = crate::support::import(&with_resources("[]")).snapshot;
    let error = export_as(&terraform, "pulumi").expect_err("another system");
    assert!(error.to_string().contains("it is a Terraform state"), "{error}");
    let native = export_as(&pulumi, "native").expect("always possible");
    let again = try_import_as(&native, "native").expect("ours").snapshot;
    assert_eq!(export(&again), text_of(&shop()));
    let none = Snapshot::new(
        state_core::FactoryInfo::default(),
        "s",
        state_core::Timestamp::new(""),
    );
    let error = export_as(&none, "pulumi").expect_err("not imported from Pulumi");
    assert!(matches!(error, Error::NotExportable { .. }));
}

#[test]
fn unrepresentable_entry_error_gives_the_reason() {
    let refused = |change: fn(&mut state_core::Entry), part: &str| {
        let mut snapshot = import(&text_of(&shop())).snapshot;
        change(Arc::make_mut(&mut snapshot.entries[3]));
        let error = export_as(&snapshot, "pulumi").expect_err(part).to_string();
        assert!(error.contains(part), "{error}");
    };
    refused(
        |entry| entry.address = "plain".parse().expect("an address"),
        "isn't a URN",
    );
    refused(|entry| entry.entry_type = EntryType::Action, "no actions");
    refused(
        |entry| entry.depends_on = vec![Dependency::Group("g".parse().expect("an address"))],
        "depends on a group",
    );
    refused(
        |entry| entry.provider.as_mut().expect("it has one").id = None,
        "has no id",
    );
    let mut snapshot = import(&text_of(&shop())).snapshot;
    snapshot.entries.remove(0);
    let error = export_as(&snapshot, "pulumi").expect_err("no root").to_string();
    assert!(error.contains("no root stack resource"), "{error}");
}

#[test]
fn import_over_another_or_changed_stack_is_refused() {
    let mut existing = import(&text_of(&shop())).snapshot;
    let new = import(&text_of(&shop()[..3]));
    let verdict = |existing: &Snapshot, new| check_import(Some(existing), new).expect("readable");
    assert_eq!(verdict(&existing, &new), ImportVerdict::Accepted);
    let other = import(&text_of(&shop()).replace(":dev::", ":prod::"));
    let refusal = Refusal::Unrelated {
        existing: "shop/dev".to_owned(),
        new: "shop/prod".to_owned(),
    };
    assert_eq!(verdict(&existing, &other), ImportVerdict::Refused(refusal));
    let empty = import(&text_of(&[]));
    let refusal = Refusal::LineageLost {
        existing: "shop/dev".to_owned(),
    };
    assert_eq!(verdict(&existing, &empty), ImportVerdict::Refused(refusal));
    existing.serial = Some(state_core::Serial(9));
    assert_eq!(
        verdict(&existing, &new),
        ImportVerdict::Refused(Refusal::ChangedHere)
    );
    let terraform = crate::support::import(&with_resources("[]"));
    assert_eq!(
        verdict(&existing, &terraform),
        ImportVerdict::Refused(Refusal::OtherSystem)
    );
}

#[test]
fn plain_secrets_stay_in_their_envelopes() {
    let mut list = shop();
    list[3]["inputs"]["password"] = json!({SIGNATURE: SECRET, "plaintext": "\"hunter2-hunter2\""});
    let snapshot = import(&text_of(&list)).snapshot;
    assert_eq!(entry(&snapshot, &database()).sensitive_inputs, ["/password"]);
    assert_eq!(export(&stored(&snapshot)), text_of(&list));
    let document = super::support::deployment(&list);
    assert_eq!(export(&import(&compact(&document)).snapshot), compact(&document));
    assert_eq!(exported(&document), text_of(&list));
}
