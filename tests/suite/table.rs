//! Checks that every test named in `tests/README.md` and in the threat model exists.

use std::path::Path;

#[test]
fn every_test_named_in_the_readme_exists() {
    every_named_test_exists("tests/README.md");
}

#[test]
fn every_test_named_in_the_threat_model_exists() {
    every_named_test_exists("docs/threat-model.md");
}

fn every_named_test_exists(document: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let table = std::fs::read_to_string(root.join(document)).expect("the document is readable");
    let named: Vec<_> = table
        .split('`')
        .skip(1)
        .step_by(2)
        .filter_map(|word| word.split_once(".rs#"))
        .collect();
    assert!(
        named.len() > 40,
        "too few tests were found in the tables: {}",
        named.len()
    );
    let missing: Vec<_> = named
        .into_iter()
        .filter(|(file, test)| {
            let source = std::fs::read_to_string(root.join(format!("{file}.rs"))).unwrap_or_default();
            !source.contains(&format!("fn {test}("))
        })
        .collect();
    assert_eq!(missing, []);
}
