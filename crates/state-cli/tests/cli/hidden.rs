//! What commands print in the place of values that they hide.

use crate::sandbox::{Sandbox, fixture, run};

#[test]
fn placeholder_printed_for_a_script_is_warned_of() {
    let sandbox = Sandbox::with_shop();
    let hidden = sandbox.run(&["outputs", "password", "--raw"]).exits(0);
    assert!(hidden.stderr.contains("a placeholder is printed"), "{hidden:?}");
    for shown in [
        &["outputs", "password", "--raw", "--show-secrets"][..],
        &["outputs", "mixed", "--raw"],
        &["outputs", "password"],
    ] {
        let shown = sandbox.run(shown).exits(0);
        assert!(!shown.stderr.contains("placeholder"), "{shown:?}");
    }
}

#[test]
fn diff_hides_all_sealed_values_under_the_policy_all() {
    let sandbox = Sandbox::new();
    let shop = std::fs::read_to_string(fixture("shop.tfstate")).unwrap();
    let file = sandbox.path().join("state.json");
    let import = |text: &str| {
        std::fs::write(&file, text).unwrap();
        let mut command = sandbox.command(&["import", file.to_str().unwrap()]);
        run(command.env("STATECTL_POLICY", "all")).exits(0);
    };
    import(&shop);
    let (value, other) = ("\"postgres\"", "\"mysql\"");
    assert!(shop.contains(value), "the fixture has an unmarked value");
    import(
        &shop
            .replace(value, other)
            .replace("\"serial\": 30", "\"serial\": 31"),
    );
    for arguments in [&["diff"][..], &["diff", "--json"]] {
        let hidden = sandbox.run(arguments).exits(0);
        assert!(hidden.stdout.contains("sensitive"), "{hidden:?}");
        for value in ["postgres", "mysql"] {
            assert!(!hidden.stdout.contains(value), "{hidden:?}");
        }
    }
    let shown = sandbox.run(&["diff", "--show-secrets"]).exits(0);
    assert!(shown.stdout.contains(other), "{shown:?}");
}
