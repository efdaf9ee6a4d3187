//! `--json`: every command prints documents with a kind and a format version on stdout. An error is such a document
//! too.

use crate::sandbox::{Sandbox, fixture};
use serde_json::Value;

const READING: [(&[&str], &str); 14] = [
    (&["diff"], "diff"),
    (&["blame", "terraform_data.database"], "blame"),
    (&["find", "database"], "find"),
    (&["graph"], "graph"),
    (&["stack", "ls"], "stack-list"),
    (&["list"], "list"),
    (&["show", "terraform_data.database"], "show"),
    (&["outputs"], "outputs"),
    (&["outputs", "mixed"], "outputs"),
    (&["history"], "history"),
    (&["verify"], "verify"),
    (&["export"], "export"),
    (&["pending", "list"], "pending-list"),
    (&["lock", "status"], "lock-status"),
];

fn with_json<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    [arguments, &["--json"]].concat()
}

#[test]
fn json_of_each_reading_command_has_its_kind() {
    let sandbox = Sandbox::with_shop();
    for (arguments, kind) in READING {
        let data = sandbox.run(&with_json(arguments)).exits(0).data(kind);
        assert!(data.is_object() || data.is_array(), "{arguments:?}");
    }
}

#[test]
fn json_of_each_changing_command_has_its_kind() {
    let sandbox = Sandbox::new();
    let (shop, successor) = (fixture("shop.tfstate"), fixture("successor.tfstate"));
    let commands: [(&[&str], &str); 9] = [
        (&["init"], "init"),
        (&["import", shop.to_str().unwrap()], "import"),
        (&["import", successor.to_str().unwrap()], "import"),
        (&["rollback", "1", "--yes"], "rollback"),
        (&["export", "-o", "out"], "export"),
        (&["lock", "break", "--yes"], "lock-break"),
        (&["stack", "new", "other"], "stack-new"),
        (&["stack", "rename", "other", "another"], "stack-rename"),
        (&["stack", "rm", "another"], "stack-remove"),
    ];
    for (arguments, kind) in commands {
        sandbox.run(&with_json(arguments)).exits(0).data(kind);
    }
}

#[test]
fn errors_are_json_on_every_command() {
    let sandbox = Sandbox::new();
    let changing: [&[&str]; 7] = [
        &["rollback", "1"],
        &["pending", "resolve", "1", "--not-done"],
        &["lock", "break"],
        &["stack", "new", "x"],
        &["stack", "rm", "x"],
        &["stack", "rename", "x", "y"],
        &["show", "x"],
    ];
    let reading = READING.iter().map(|(arguments, _)| *arguments);
    for arguments in changing.into_iter().chain(reading) {
        let document = sandbox.run(&with_json(arguments)).exits(10).json();
        assert_eq!(document["kind"], "error", "{arguments:?}");
        assert_eq!(document["format-version"], 1);
        let error = &document["error"];
        assert_eq!(error["code"], "not-found");
        assert_eq!(error["exit-code"], 10);
        for field in ["message", "object", "hint"] {
            assert!(
                error[field].as_str().is_some_and(|text| !text.is_empty()),
                "{arguments:?}: {field}"
            );
        }
    }
    let error = sandbox.run(&["import", "not-there", "--json"]).exits(1).json();
    assert_eq!(error["error"]["object"], "not-there");
    let usage = sandbox.run(&["list", "--nonsense", "--json"]).exits(2).json();
    assert_eq!(usage["error"]["code"], "usage");
    let file = sandbox.write("plain", "");
    let unreachable = sandbox
        .run(&["init", "--json", "--backend", file.to_str().unwrap()])
        .json();
    assert_eq!(unreachable["kind"], "error");
}

#[test]
fn warnings_are_part_of_the_json_document() {
    let sandbox = Sandbox::new();
    let shop = fixture("shop.tfstate");
    let document = sandbox
        .run(&["import", "--json", shop.to_str().unwrap()])
        .exits(0)
        .json();
    let warning = document["warnings"][0].as_str().unwrap();
    assert!(warning.contains("plaintext"), "{document}");
    assert_eq!(document["data"]["sensitive-values"], 27);
    assert_eq!(document["data"]["foreign-serial"], 30);
    assert_eq!(document["data"]["changed"], true);
}

#[test]
fn json_export_contains_the_document_byte_for_byte() {
    let sandbox = Sandbox::with_shop();
    let data = sandbox.run(&["export", "--json"]).exits(0).data("export");
    let shop = std::fs::read_to_string(fixture("shop.tfstate")).unwrap();
    assert_eq!(data["document"].as_str(), Some(&*shop));
    assert_eq!(data["format"], "terraform");
    assert_eq!(data["reliable"], true);
}

#[test]
fn numbers_keep_their_digits_in_json() {
    let sandbox = Sandbox::with_shop();
    let shown = sandbox
        .run(&["show", "terraform_data.database", "--json"])
        .exits(0);
    assert!(shown.stdout.contains("12345678901234567890"), "{shown:?}");
}

#[test]
fn show_prints_type_and_hides_extension_data() {
    let sandbox = Sandbox::with_shop();
    let data = sandbox
        .run(&["show", "terraform_data.migration", "--json"])
        .exits(0)
        .data("show");
    let entry = &data["entries"][0];
    assert_eq!(entry["type"], "leaf");
    assert_eq!(entry["kind"], "terraform_data");
    assert!(entry["depends-on"].as_array().is_some_and(|all| !all.is_empty()));
    assert_eq!(
        entry["extensions"]["terraform"],
        Value::Null,
        "its values may be secret"
    );
}
