//! Files that people import by mistake are recognised, and a byte order mark is kept.

use crate::support::{detect, export, export_as, import, stored, try_import_as, with_instance};
use state_core::SharedEntry;

#[test]
fn file_that_is_no_state_is_named_with_the_right_command() {
    for (file, name, command) in [
        ("<!DOCTYPE html>\n<html>", "a web page", "with credentials"),
        ("  <HTML><body>", "a web page", "with credentials"),
        ("<?xml version=\"1.0\"?><Error/>", "XML", "with credentials"),
        ("PK\u{3}\u{4}rest", "a zip archive", "`terraform state pull"),
        ("---\nresources: {}\n", "YAML", "`statectl up FILE`"),
        (
            "# a program\nname: site\nresources:\n",
            "YAML",
            "`statectl up FILE`",
        ),
        ("terraform {\n}\n", "a configuration", "`terraform state pull"),
        (
            "# main.tf\nresource \"t\" \"a\" {}\n",
            "a configuration",
            "`terraform state pull",
        ),
        (
            r#"{"format_version":"1.0","terraform_version":"1.11.4","values":{"root_module":{}}}"#,
            "`terraform show -json`",
            "`terraform state pull",
        ),
        (
            r#"{"format_version":"1.0","terraform_version":"1.11.4"}"#,
            "`terraform show -json`",
            "`terraform state pull",
        ),
        (
            r#"{"format_version":"1.2","planned_values":{},"resource_changes":[]}"#,
            "a plan as JSON",
            "`terraform state pull",
        ),
        (
            r#"{"ID":"x","Operation":"apply","Who":"a@b"}"#,
            "lock information",
            ".lock.info",
        ),
    ] {
        let error = detect(file.as_bytes()).expect_err("no state").to_string();
        assert!(error.contains(name) && error.contains(command), "{file}: {error}");
    }
    for file in ["{\"a\": 1}", "invalid", "[1]", "x = 1"] {
        let error = detect(file.as_bytes()).expect_err("no state").to_string();
        assert!(!error.contains("this is"), "{file}: {error}");
    }
}

#[test]
fn byte_order_mark_is_kept_and_restored() {
    let text = format!("\u{feff}{}", with_instance(r#"{"attributes": {"id": "i-1"}}"#));
    let mut snapshot = stored(&import(&text).snapshot);
    assert_eq!(detect(text.as_bytes()).expect("a state"), "terraform");
    assert_eq!(export(&snapshot), text);
    let mut changed = state_core::Entry::clone(&snapshot.entries[0]);
    changed.tainted = true;
    snapshot.entries[0] = SharedEntry::new(changed);
    let edited = export(&snapshot);
    assert!(
        edited.starts_with('\u{feff}') && edited.contains("tainted"),
        "{edited}"
    );
    assert!(!export(&import(&text[3..]).snapshot).starts_with('\u{feff}'));

    let text = "\u{feff}{\"version\":3,\"deployment\":{\"resources\":[]}}";
    let snapshot = try_import_as(text.as_bytes(), "pulumi")
        .expect("a state")
        .snapshot;
    assert_eq!(export_as(&snapshot, "pulumi").expect("a state"), text.as_bytes());
}
