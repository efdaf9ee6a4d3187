//! Each rule finds its violations, and accepts correct files.

use super::rules::{findings, lines_of_code, speak_of};

const GOOD: &str = "//! What it is for.\n\nfn work() {}\n";

fn said(path: &str, text: &str) -> Vec<String> {
    findings(path, text).iter().map(ToString::to_string).collect()
}

#[test]
fn a_file_in_shape_has_no_finding() {
    assert_eq!(said("crates/a/src/b/c/d.rs", GOOD), Vec::<String>::new());
}

#[test]
fn a_file_begins_with_what_it_is_for() {
    for text in ["", "fn work() {}\n", "//!\n//! Late.\n", "// No docs.\n"] {
        let said = said("crates/a/src/b.rs", text);
        assert_eq!(said.len(), 1, "{text:?}: {said:?}");
        assert!(said[0].starts_with("crates/a/src/b.rs:1: "), "{said:?}");
    }
}

#[test]
fn file_has_at_most_four_hundred_lines_of_code() {
    let lines = |count: usize| format!("//! Long.\n{}", "const X: u8 = 1;\n".repeat(count));
    assert!(said("tests/suite/a.rs", &lines(400)).is_empty());
    assert!(said("tests/suite/a.rs", &lines(401))[0].contains("401 lines"));
}

#[test]
fn blank_lines_comments_and_tests_are_no_code() {
    let text = "\
//! Docs.

/// More docs.
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
fn names_say_what_is_inside() {
    // Split, because these names are forbidden in this file as well.
    for banned in ["uti-ls", "hel-pers", "com-mon", "ty-pes", "im-p"] {
        let name = banned.replace('-', "");
        assert_eq!(said(&format!("crates/a/src/{name}.rs"), GOOD).len(), 1);
        assert_eq!(said(&format!("crates/a/src/{name}/b.rs"), GOOD).len(), 1);
        let inside = format!("{GOOD}pub(crate) mod {name};\n");
        assert_eq!(
            said("crates/a/src/b.rs", &inside),
            [format!(
                "crates/a/src/b.rs:4: `mod {name}` says nothing of what is inside"
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
fn who_silences_a_lint_says_why() {
    let silent = format!("{GOOD}#[allow(dead_code)]\nfn a() {{}}\n#![expect(\n    clippy::x\n)]\n");
    assert_eq!(said("crates/a/src/b.rs", &silent).len(), 2);
    let says = format!("{GOOD}#[expect(\n    clippy::x,\n    reason = \"why\"\n)]\nfn a() {{}}\n");
    assert!(said("crates/a/src/b.rs", &says).is_empty());
}

#[test]
fn no_path_on_a_machine_is_told() {
    let path = ["", "home", "ana", "x"].join("/");
    assert_eq!(
        said("README.md", &format!("a\nsee {path}\n")),
        ["README.md:2: a path on a developer's machine"]
    );
    assert!(said("README.md", "see ~/x and /dev/null\n").is_empty());
}

#[test]
fn rules_apply_to_sources_manifests_and_docs() {
    assert!(speak_of("a/b.rs") && speak_of("Cargo.toml") && speak_of("README.md"));
    assert!(!speak_of("a/b.json"));
}

#[test]
fn the_tree_is_in_shape() {
    super::check().expect("every file keeps the rules");
}
