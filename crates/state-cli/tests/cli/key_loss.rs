//! Loss of keys: warnings about stacks with one recipient, and escrow keys.

use crate::sandbox::{Sandbox, as_user, sealed_shop};

/// The recipient of a new identity of this user.
fn recipient(sandbox: &Sandbox, who: &str) -> String {
    let made = as_user(sandbox, who, &["identity", "--new"]).exits(0);
    made.stdout.trim().to_owned()
}

#[test]
fn doctor_warns_about_a_single_recipient() {
    let sandbox = sealed_shop();
    let warnings = |who: &str| {
        let text = as_user(&sandbox, who, &["doctor"]).exits(0).stderr;
        let lines = text.lines().filter(|line| line.starts_with("warning: "));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let found = warnings("anna");
    let [new, alone] = &*found else {
        panic!("{found:?}");
    };
    assert!(new.contains("new stacks are encrypted for 1 recipient"), "{new}");
    assert!(alone.contains("stack default has only 1 recipient"), "{alone}");
    for command in [
        "`statectl recipients add --stack default RECIPIENT`",
        "`statectl recipients add --stack default --escrow RECIPIENT`",
    ] {
        assert!(alone.contains(command), "{alone}");
    }
    // Everyone sees the recipients, also without an identity.
    let about_recipients = |who: &str| {
        let mut found = warnings(who);
        found.retain(|line| line.contains("recipient"));
        found
    };
    assert_eq!(about_recipients("stranger").len(), 1);
    let escrow = recipient(&sandbox, "escrow");
    let added = as_user(&sandbox, "anna", &["recipients", "add", "--escrow", &escrow]).exits(0);
    assert!(added.stderr.contains("besides its escrow key"), "{added:?}");
    assert!(about_recipients("stranger")[0].contains("besides its escrow key"));
    let bob = recipient(&sandbox, "bob");
    as_user(&sandbox, "anna", &["recipients", "add", &bob]).exits(0);
    assert_eq!(about_recipients("stranger"), [""; 0]);
    let json = as_user(&sandbox, "anna", &["doctor", "--json"]).exits(0).json();
    assert_eq!(json["warnings"].as_array().unwrap().len(), 1, "{json}");
}

#[test]
fn escrow_key_is_kept_and_removed_only_explicitly() {
    let sandbox = sealed_shop();
    let anna = |arguments: &[&str]| as_user(&sandbox, "anna", arguments);
    let (escrow, bob) = (recipient(&sandbox, "escrow"), recipient(&sandbox, "bob"));
    anna(&["recipients", "add", "--escrow", &escrow]).exits(0);
    anna(&["recipients", "add", &bob]).exits(0);
    anna(&["rekey", "--yes"]).exits(0);
    anna(&["recipients", "remove", &bob, "--yes"]).exits(0);
    let listed = anna(&["recipients", "list"]).exits(0).stdout;
    assert!(listed.contains(&format!("{escrow}  escrow")), "{listed}");
    let renamed = anna(&["recipients", "add", "--name", "safe", &escrow]).exits(13);
    assert!(renamed.stderr.contains("is an escrow key"), "{renamed:?}");
    let refused = anna(&["recipients", "remove", &escrow, "--yes"]).exits(4);
    assert!(refused.stderr.contains("it is an escrow key"), "{refused:?}");
    as_user(
        &sandbox,
        "escrow",
        &["show", "terraform_data.database", "--show-secrets"],
    )
    .exits(0);

    let second = recipient(&sandbox, "second");
    anna(&["recipients", "add", "--escrow", &second]).exits(0);
    anna(&["recipients", "remove", "escrow", "--yes"]).exits(2);
    anna(&["recipients", "remove", "--escrow", &second, "--yes"]).exits(0);
    anna(&["recipients", "remove", "escrow", "--yes"]).exits(0);
    let listed = anna(&["recipients", "list"]).exits(0).stdout;
    assert!(!listed.contains("escrow"), "{listed}");
}

#[test]
fn own_identity_and_plain_names_are_no_escrow_keys() {
    let sandbox = sealed_shop();
    let anna = |arguments: &[&str]| as_user(&sandbox, "anna", arguments);
    let hers = anna(&["identity"]).exits(0).stdout;
    let refused = anna(&["recipients", "add", "--escrow", hers.trim()]).exits(4);
    assert!(refused.stderr.contains("your own identity"), "{refused:?}");
    let bob = recipient(&sandbox, "bob");
    let refused = anna(&["recipients", "add", "--name", "escrow", &bob]).exits(2);
    assert!(refused.stderr.contains("--escrow"), "{refused:?}");
    anna(&["recipients", "add", "--escrow", "--outputs", &bob]).exits(2);
    anna(&["recipients", "add", "--escrow", &bob, hers.trim()]).exits(2);
}
