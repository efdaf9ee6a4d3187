//! Each rule finds its violations, and accepts correct files.

use super::rules::{applies_to, findings, lines_of_code};

const GOOD: &str = "//! What it is for.\n\nfn work() {}\n";

fn said(path: &str, text: &str) -> Vec<String> {
    findings(path, text).iter().map(ToString::to_string).collect()
}

#[test]
fn correct_file_has_no_finding() {
    assert_eq!(said("crates/a/src/b/c/d.rs", GOOD), Vec::<String>::new());
}

#[test]
fn file_without_module_docs_is_found() {
    for text in ["", "fn work() {}\n", "//!\n//! Late.\n", "// No docs.\n"] {
        let said = said("crates/a/src/b.rs", text);
        assert_eq!(said.len(), 1, "{text:?}: {said:?}");
        assert!(said[0].starts_with("crates/a/src/b.rs:1: "), "{said:?}");
    }
}

#[test]
fn file_has_at_most_four_hundred_lines_of_code() {
    let lines = |count: usize| {
        format!(
            "//! A file of many lines.\n{}",
            "const X: u8 = 1;\n".repeat(count)
        )
    };
    assert!(said("tests/suite/a.rs", &lines(400)).is_empty());
    assert!(said("tests/suite/a.rs", &lines(401))[0].contains("401 lines"));
}

#[test]
fn blank_lines_comments_and_tests_are_no_code() {
    let text = "\
//! Documents what the file contains.

/// Documents what the function does.
fn one() {
    // Why.

    /* A
       block. */
    two();
}

#[cfg(test)]
mod tests {
    fn not_counted() {
    }
}

fn three() {}
";
    assert_eq!(lines_of_code(text), 4);
    assert_eq!(lines_of_code("#[cfg(test)]\nmod tests;\nfn one() {}\n"), 2);
    assert_eq!(
        lines_of_code("#[cfg(test)]\n#[path = \"x\"]\nmod tests {\n}\nfn one() {}\n"),
        1
    );
}

#[test]
fn names_must_describe_the_content() {
    // Split, because these names are forbidden in this file as well.
    for banned in ["uti-ls", "hel-pers", "com-mon", "ty-pes", "im-p"] {
        let name = banned.replace('-', "");
        assert_eq!(said(&format!("crates/a/src/{name}.rs"), GOOD).len(), 1);
        assert_eq!(said(&format!("crates/a/src/{name}/b.rs"), GOOD).len(), 1);
        let inside = format!("{GOOD}pub(crate) mod {name};\n");
        assert_eq!(
            said("crates/a/src/b.rs", &inside),
            [format!(
                "crates/a/src/b.rs:4: `mod {name}` does not say what the module contains"
            )]
        );
    }
    assert_eq!(said("crates/a/src/b/mod.rs", GOOD).len(), 1);
    assert!(said("crates/a/src/prototypes.rs", GOOD).is_empty());
}

#[test]
fn files_lie_at_most_two_folders_deep() {
    let said = said("crates/a/src/b/c/d/e.rs", GOOD);
    assert!(said[0].contains("3 folders deep"), "{said:?}");
}

#[test]
fn silenced_lint_requires_a_reason() {
    let silent = format!("{GOOD}#[allow(dead_code)]\nfn a() {{}}\n#![expect(\n    clippy::x\n)]\n");
    assert_eq!(said("crates/a/src/b.rs", &silent).len(), 2);
    let says = format!("{GOOD}#[expect(\n    clippy::x,\n    reason = \"why\"\n)]\nfn a() {{}}\n");
    assert!(said("crates/a/src/b.rs", &says).is_empty());
}

#[test]
fn paths_of_a_machine_are_refused() {
    let path = ["", "home", "ana", "x"].join("/");
    assert_eq!(
        said("README.md", &format!("a\nsee {path}\n")),
        ["README.md:2: a path on a developer's machine"]
    );
    assert!(said("README.md", "see ~/x and /dev/null\n").is_empty());
}

#[test]
fn rules_apply_to_sources_manifests_and_docs() {
    assert!(applies_to("a/b.rs") && applies_to("Cargo.toml") && applies_to("README.md"));
    assert!(!applies_to("a/b.json"));
}

#[test]
fn every_file_of_the_tree_keeps_the_rules() {
    super::check().expect("every file keeps the rules");
}

#[test]
fn manager_file_that_reads_a_raw_head_is_refused_unless_listed() {
    let text = format!("{GOOD}\nfn read() {{ backend{}lineage); }}\n", ".read_head(");
    let manager = "crates/state-manager/src/";
    assert!(said(&format!("{manager}gc/survey.rs"), &text)[0].contains("read::open"));
    assert!(said(&format!("{manager}read/stored.rs"), &text).is_empty());
    assert!(said("crates/state-core/src/memory.rs", &text).is_empty());
}
