//! Sensitive values are printed only with `--show-secrets`, and in exports.

use crate::sandbox::{Sandbox, fixture, run};

const SECRET: &str = "correct horse battery staple";

#[test]
fn no_command_shows_a_secret_without_the_flag() {
    let sandbox = Sandbox::new();
    let shop = fixture("shop.tfstate");
    let instance = r#"module.service["web"].terraform_data.instance[0]"#;
    let commands: [&[&str]; 8] = [
        &["import", shop.to_str().unwrap()],
        &["list", "--long"],
        &["show", "terraform_data.database"],
        &["show", instance],
        &["outputs"],
        &["outputs", "password", "--raw"],
        &["history"],
        &["verify"],
    ];
    for arguments in commands {
        for json in [&[][..], &["--json"]] {
            let ran = sandbox.run(&[arguments, json].concat()).exits(0);
            assert!(
                !ran.stdout.contains(SECRET) && !ran.stderr.contains(SECRET),
                "{arguments:?}"
            );
        }
    }
}

#[test]
fn hidden_values_are_marked_as_sensitive() {
    let sandbox = Sandbox::with_shop();
    let shown = sandbox.run(&["show", "terraform_data.database"]).exits(0);
    assert!(shown.stdout.contains(r#""password": "(sensitive)""#), "{shown:?}");
    let outputs = sandbox.run(&["outputs", "--json"]).data("outputs");
    assert_eq!(outputs["outputs"]["password"]["value"], "(sensitive)");
    assert_eq!(outputs["outputs"]["password"]["sensitive"], true);
    assert_eq!(outputs["outputs"]["mixed"]["sensitive"], false);
}

#[test]
fn show_secrets_prints_secrets() {
    let sandbox = Sandbox::with_shop();
    let shown = sandbox
        .run(&["show", "terraform_data.database", "--show-secrets"])
        .exits(0);
    assert!(shown.stdout.contains(SECRET));
    let raw = sandbox
        .run(&["--show-secrets", "outputs", "password", "--raw"])
        .exits(0);
    assert_eq!(raw.stdout, format!("{SECRET}\n"));
}

#[test]
fn malformed_file_error_has_position_and_no_content() {
    let sandbox = Sandbox::new();
    let text = std::fs::read_to_string(fixture("shop.tfstate")).unwrap();
    let broken = text.replace(&format!("\"{SECRET}\""), &format!("\"{SECRET}\" oops"));
    let file = sandbox.write("broken.tfstate", broken);
    let refused = sandbox.run(&["import", file.to_str().unwrap()]).exits(1);
    assert!(
        refused.stderr.contains("line") && refused.stderr.contains("broken.tfstate"),
        "{refused:?}"
    );
    assert!(!refused.stderr.contains(SECRET));
    assert!(
        !sandbox.path().join(".state").exists(),
        "an invalid file creates no store"
    );
}

#[test]
fn secret_encrypt_without_a_stack_hints_at_stack_new() {
    let sandbox = Sandbox::new();
    let text = sandbox.run(&["secret", "encrypt", "token"]).exits(10).stderr;
    let hint = text.lines().find(|line| line.starts_with("hint: ")).unwrap();
    assert!(
        hint.contains("`statectl init` and `statectl stack new NAME`"),
        "{text}"
    );
    sandbox.run(&["init"]).exits(0);
    let text = sandbox.run(&["secret", "encrypt", "token"]).exits(10).stderr;
    assert!(text.contains("`statectl stack new NAME`"), "{text}");
    run(&mut sandbox.sealing(&["stack", "new", "default"])).exits(0);
    run(&mut sandbox.sealing(&["secret", "encrypt", "token"])).exits(0);
}
