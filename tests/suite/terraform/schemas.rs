//! Compares the table of known secret attributes with the schemas of real providers.

use super::cli::{TerraformCli, copy};
use super::providers::{PROVIDERS, configuration};
use serde_json::Value;
use state_tests::clients;
use std::collections::BTreeSet;

/// The table of attributes that an import seals, as text.
const TABLE: &str = include_str!("../../../crates/state-formats/src/secrets/attributes.txt");
const UNTESTED: &str = "known secret attributes in the schemas of real providers";

#[test]
fn table_holds_every_attribute_that_schemas_mark_sensitive() {
    let Some(mirror) = clients::provider_mirror(&PROVIDERS, UNTESTED) else {
        return;
    };
    let table: BTreeSet<&str> = TABLE.lines().filter(|line| !line.starts_with('#')).collect();
    for terraform in TerraformCli::all_for(UNTESTED) {
        terraform.use_mirror(&mirror);
        let work = tempfile::tempdir().expect("a folder");
        copy(&configuration(), work.path());
        terraform.init(work.path());
        let rows = sensitive_attributes(&terraform.provider_schemas(work.path()));
        assert!(
            rows.contains("random_password /result") && rows.contains("tls_private_key /private_key_pem"),
            "{terraform}: the schemas must be read: {rows:?}"
        );
        let missing: Vec<_> = rows.iter().filter(|row| !is_covered(&table, row)).collect();
        assert!(
            missing.is_empty(),
            "{terraform}: add these rows to the table: {missing:#?}"
        );
    }
}

#[test]
fn sensitive_attributes_within_blocks_have_their_path() {
    let secret = serde_json::json!({"attributes": {"password": {"sensitive": true}, "name": {}}});
    let nested = |mode: &str| serde_json::json!({"nesting_mode": mode, "attributes": secret["attributes"]});
    let block = |mode: &str| serde_json::json!({"nesting_mode": mode, "block": secret});
    let resource = serde_json::json!({"block": {
        "attributes": {
            "token": {"sensitive": true},
            "token_wo": {"sensitive": true, "write_only": true},
            "users": {"nested_type": nested("list")},
            "owner": {"nested_type": nested("single")},
        },
        "block_types": {"login": block("set"), "timeouts": block("single")},
    }});
    let schemas = serde_json::json!({"provider_schemas": {"shop": {
        "resource_schemas": {"shop_order": resource},
        "data_source_schemas": {"shop_price": resource},
    }}});
    let expected = [
        "shop_order /login/*/password",
        "shop_order /owner/password",
        "shop_order /timeouts/password",
        "shop_order /token",
        "shop_order /users/*/password",
    ];
    assert_eq!(sensitive_attributes(&schemas), expected.map(str::to_owned).into());
    assert!(is_covered(
        &["shop_order /login"].into(),
        "shop_order /login/*/password"
    ));
    assert!(!is_covered(
        &["shop_order /log"].into(),
        "shop_order /login/*/password"
    ));
}

/// Returns whether the table has this row, or a row for an attribute that contains the attribute.
fn is_covered(table: &BTreeSet<&str>, row: &str) -> bool {
    let ends = row.match_indices('/').map(|(end, _)| end).skip(1);
    ends.chain([row.len()]).any(|end| table.contains(&row[..end]))
}

/// Returns the attributes of managed resources that the schemas mark as sensitive, as rows of the table. Write-only
/// attributes are left out, because no state contains them.
fn sensitive_attributes(schemas: &Value) -> BTreeSet<String> {
    let mut rows = BTreeSet::new();
    for (_, provider) in members(&schemas["provider_schemas"]) {
        for (kind, resource) in members(&provider["resource_schemas"]) {
            collect(&format!("{kind} "), &resource["block"], &mut rows);
        }
    }
    rows
}

/// Adds the sensitive attributes of a block or of a nested type. `path` ends with the path of the block.
fn collect(path: &str, block: &Value, rows: &mut BTreeSet<String>) {
    for (name, attribute) in members(&block["attributes"]) {
        let path = format!("{path}/{name}");
        let nested = &attribute["nested_type"];
        collect(&elements(&path, nested), nested, rows);
        if attribute["sensitive"] == true && attribute["write_only"] != true {
            rows.insert(path);
        }
    }
    for (name, nested) in members(&block["block_types"]) {
        let path = elements(&format!("{path}/{name}"), nested);
        collect(&path, &nested["block"], rows);
    }
}

/// Returns the path of the objects of a nested block or type: a single one is stored as an object, others as elements
/// of a list or members of a map.
fn elements(path: &str, nested: &Value) -> String {
    match nested["nesting_mode"].as_str() {
        Some("list" | "set" | "map") => format!("{path}/*"),
        _ => path.to_owned(),
    }
}

fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}
