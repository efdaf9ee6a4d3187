//! States that real tools wrote are exported byte for byte.

use crate::support::{
    assert_topological, detect, entry, export, export_as, extension, import, shared_states, stored,
    try_import, try_import_as,
};
use state_core::Dependency;
use state_formats::Formats;

#[test]
fn terraform_fixtures_are_rendered_without_original_text() {
    for (path, text) in shared_states("terraform").unwrap_or_default() {
        let imported = import(&text);
        assert!(
            extension(&imported.snapshot).view().get("original").is_none(),
            "{} needed its original text",
            path.display()
        );
        assert!(export(&imported.snapshot) == text, "{}", path.display());
        assert!(
            export(&stored(&imported.snapshot)) == text,
            "{} after being stored",
            path.display()
        );
        assert_eq!(detect(text.as_bytes()).expect("a state"), "terraform");
        assert_topological(&imported.snapshot);
    }
}

#[test]
fn opentofu_fixtures_roundtrip_without_duplicate_keys() {
    for (path, text) in shared_states("opentofu").unwrap_or_default() {
        let text = if path.to_string_lossy().contains("modules") {
            refuse_for_its_duplicate_key(&text);
            without_the_first_list(&text)
        } else {
            text
        };
        let imported = import(&text);
        assert!(export(&stored(&imported.snapshot)) == text, "{}", path.display());
        assert_topological(&imported.snapshot);
    }
}

/// Four of the fixtures have `dependencies` twice in one instance. Go's encoder can't write duplicate keys, so these
/// files were edited by hand. Go's decoder silently uses the last list. We refuse the file, because either list may be
/// the valid one.
fn refuse_for_its_duplicate_key(text: &str) {
    let error = try_import(text).expect_err("duplicate keys").to_string();
    assert!(error.contains("duplicate key at line "), "{error}");
    assert!(
        error.contains("($.resources[2].instances[0].dependencies)"),
        "{error}"
    );
}

/// Removes the first list, which Go's decoder ignores.
fn without_the_first_list(text: &str) -> String {
    let second = text.rfind("\"dependencies\"").expect("the second list");
    let first = text[..second].rfind("\"dependencies\"").expect("the first list");
    let (before, after) = (&text[..first], &text[second..]);
    format!("{before}{after}")
}

#[test]
fn shop_fixture_is_mapped_field_by_field() {
    let Some(states) = shared_states("terraform") else {
        return;
    };
    let (_, text) = states
        .iter()
        .find(|(path, _)| path.ends_with("shop.tfstate"))
        .expect("the shop");
    let imported = import(text);
    let snapshot = &imported.snapshot;
    assert_eq!(snapshot.entries.len(), 29);
    assert_eq!(snapshot.factory.name, "terraform");
    assert_eq!(snapshot.factory.version, "1.11.4");
    assert_eq!(snapshot.sensitive_outputs, ["password"]);
    let foreign = imported.foreign.expect("of Terraform");
    assert_eq!((foreign.system, foreign.serial), ("terraform", 30));
    assert_eq!(foreign.lineage, "309bbbba-b36a-d32b-70d2-033492089d50");

    let database = entry(snapshot, "terraform_data.database");
    assert_eq!(database.sensitive_outputs, ["/input/password"]);
    assert_eq!(
        database.id.as_deref(),
        Some("b9ad8678-433e-e556-352d-304d460cccd0")
    );
    assert_eq!(database.kind.as_deref(), Some("terraform_data"));
    let dns = entry(
        snapshot,
        r#"module.service["web"].terraform_data.dns["host-0.web"]"#,
    );
    assert_eq!(
        dns.group.as_ref().map(|group| group.as_str()),
        Some("module.service.terraform_data.dns")
    );

    // Two of the four ancestors imply the others: dns depends on instance, and instance on network.
    let migration = entry(snapshot, "terraform_data.migration");
    let names: Vec<_> = migration.depends_on.iter().map(Dependency::to_string).collect();
    assert_eq!(
        names,
        [
            "group module.service.terraform_data.dns",
            "group terraform_data.database"
        ]
    );
    assert!(
        migration.extensions["terraform"]
            .view()
            .get("dependencies")
            .is_none()
    );
}

#[test]
fn native_roundtrip_preserves_terraform_extension() {
    for (_, text) in shared_states("terraform").unwrap_or_default() {
        let snapshot = import(&text).snapshot;
        let native = export_as(&snapshot, "native").expect("always possible");
        assert_eq!(detect(&native).expect("ours"), "native");
        let again = try_import_as(&native, "native").expect("a snapshot");
        assert_eq!(again.foreign, None);
        assert!(again.snapshot == snapshot);
        assert!(export(&again.snapshot) == text);
    }
}

#[test]
fn formats_are_found_by_name() {
    let formats = Formats::standard();
    for format in formats.iter() {
        assert_eq!(
            formats.named(format.name()).expect("a name").name(),
            format.name()
        );
    }
    let error = formats.named("auto").expect_err("for `detect`").to_string();
    assert_eq!(
        error,
        "format `auto`: unknown; the formats are native, terraform, pulumi, unobin"
    );
}
