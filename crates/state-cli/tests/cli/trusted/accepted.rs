//! What a client remembers after `trust --accept`, what it is shown before, and stacks that are hidden by their names.

use super::*;

/// Moves the content of a folder of the store away.
fn take(sandbox: &Sandbox, part: &str) -> std::path::PathBuf {
    let (from, to) = (
        sandbox.path().join(".state").join(part),
        sandbox.path().join("taken"),
    );
    copy(&from, &to);
    std::fs::remove_dir_all(from).unwrap();
    to
}

/// Replaces the whole store by a copy.
fn restore(sandbox: &Sandbox, copied: &Path) {
    let store = sandbox.path().join(".state");
    std::fs::remove_dir_all(&store).unwrap();
    copy(copied, &store);
}

fn trust(sandbox: &Sandbox, who: &str) -> serde_json::Value {
    as_user(sandbox, who, &["trust", "--json"]).exits(0).data("trust")
}

#[test]
fn renamed_stack_cannot_be_hidden_by_its_new_name() {
    let sandbox = sealed_shop();
    let anna = |arguments: &[&str]| as_user(&sandbox, "anna", arguments);
    let bob = |arguments: &[&str]| as_user(&sandbox, "bob", arguments);
    anna(&["recipients", "add", &identity(&sandbox, "bob")]).exits(0);
    bob(&["list"]).exits(0);
    anna(&["stack", "rename", "default", "store"]).exits(0);
    std::fs::remove_file(sandbox.path().join(".state/names/default/store.json")).unwrap();
    for hidden in [
        &["stack", "ls"][..],
        &["list"],
        &["list", "--stack", "default"],
        &["list", "--stack", "store"],
        &["stack", "new", "default"],
        &["stack", "new", "store"],
    ] {
        let refused = bob(hidden).exits(12);
        let hint = "restore the name's file below `names/`";
        assert!(
            refused.stderr.contains("deleted or exchanged") && refused.stderr.contains(hint),
            "{refused:?}"
        );
    }
    // Another name may be that of the hidden stack, too.
    bob(&["stack", "new", "other"]).exits(12);
    bob(&["trust", "--accept", "--stack", "default", "--yes"]).exits(0);
    bob(&["stack", "new", "other"]).exits(0);
}

/// The old pointer is authentic and leads to the known stack, whose head has another name. No retry changes that.
#[test]
fn stale_pointer_of_a_renamed_stack_exits_12() {
    let sandbox = sealed_shop();
    let anna = |arguments: &[&str]| as_user(&sandbox, "anna", arguments);
    let bob = |arguments: &[&str]| as_user(&sandbox, "bob", arguments);
    anna(&["recipients", "add", &identity(&sandbox, "bob")]).exits(0);
    bob(&["list"]).exits(0);
    let pointer = |name: &str| sandbox.path().join(format!(".state/names/default/{name}.json"));
    let stale = std::fs::read(pointer("default")).unwrap();
    anna(&["stack", "rename", "default", "store"]).exits(0);
    std::fs::write(pointer("default"), stale).unwrap();
    std::fs::remove_file(pointer("store")).unwrap();
    for hidden in [
        &["list", "--stack", "default"][..],
        &["stack", "ls"],
        &["stack", "new", "default"],
    ] {
        let refused = bob(hidden).exits(12);
        assert!(refused.stderr.contains("restore the name's file"), "{refused:?}");
    }
}

#[test]
fn accepting_without_the_key_keeps_the_key_remembered() {
    let sandbox = sealed_shop();
    let anna = |arguments: &[&str]| as_user(&sandbox, "anna", arguments);
    let eve = identity(&sandbox, "eve");
    anna(&["recipients", "add", &eve]).exits(0);
    let earlier = sandbox.path().join("earlier");
    copy(&sandbox.path().join(".state"), &earlier);
    anna(&["recipients", "remove", &eve, "--yes"]).exits(0);
    let lineage = trust(&sandbox, "anna")["lineage"].as_str().unwrap().to_owned();
    let keys = take(&sandbox, &format!("stacks/{lineage}/keys"));
    anna(&["list"]).exits(12);
    let accepted = anna(&["trust", "--accept", "--yes"]).exits(0);
    assert!(accepted.stdout.contains("it remembers the key"), "{accepted:?}");
    assert!(
        anna(&["list"])
            .exits(0)
            .stderr
            .contains("authenticity not checked")
    );
    // With the key files of the accepted state, the stack is authenticated again.
    copy(
        &keys,
        &sandbox.path().join(format!(".state/stacks/{lineage}/keys")),
    );
    assert!(!anna(&["list"]).exits(0).stderr.contains("not checked"));
    std::fs::remove_dir_all(sandbox.path().join(format!(".state/stacks/{lineage}/keys"))).unwrap();
    anna(&["trust", "--accept", "--yes"]).exits(0);
    // The state from before eve was removed, to which she could have written.
    restore(&sandbox, &earlier);
    let refused = anna(&["list"]).exits(12);
    assert!(refused.stderr.contains("its data key is"), "{refused:?}");
    anna(&["taint", "terraform_data.database", "--yes"]).exits(12);
}

#[test]
fn reader_of_outputs_accepts_the_key_that_was_shown() {
    let sandbox = sealed_shop();
    let anna = |arguments: &[&str]| as_user(&sandbox, "anna", arguments);
    let carl = |arguments: &[&str]| as_user(&sandbox, "carl", arguments);
    anna(&["recipients", "add", "--outputs", &identity(&sandbox, "carl")]).exits(0);
    carl(&["outputs"]).exits(0);
    let former = sandbox.path().join("former");
    copy(&sandbox.path().join(".state/outputs"), &former);
    anna(&["rekey", "--yes"]).exits(0);
    carl(&["outputs"]).exits(12);
    // Both see the key that they compare.
    let (hers, his) = (trust(&sandbox, "anna"), trust(&sandbox, "carl"));
    let key = hers["found"]["outputs-key"]
        .as_str()
        .expect("she derives the key");
    assert_eq!(his["found"]["outputs-key"], key);
    assert_ne!(his["seen"]["outputs"]["key"], key);
    let shown = carl(&["trust"]).exits(0).stdout;
    assert!(
        shown.contains(&format!("in the store: outputs with key {key}")),
        "{shown}"
    );
    carl(&["trust", "--accept", "--yes"]).exits(0);
    let accepted = take(&sandbox, "outputs");
    // A former recipient of the outputs knows the former key.
    copy(&former, &sandbox.path().join(".state/outputs"));
    carl(&["outputs"]).exits(12);
    std::fs::remove_dir_all(sandbox.path().join(".state/outputs")).unwrap();
    // Without outputs, he can accept that there are none. Later ones must have the key that he compared.
    carl(&["outputs"]).exits(12);
    carl(&["trust", "--accept", "--yes"]).exits(0);
    assert_ne!(carl(&["outputs"]).code, 12);
    copy(&former, &sandbox.path().join(".state/outputs"));
    carl(&["outputs"]).exits(12);
    std::fs::remove_dir_all(sandbox.path().join(".state/outputs")).unwrap();
    copy(&accepted, &sandbox.path().join(".state/outputs"));
    carl(&["outputs"]).exits(0);
}

#[test]
fn change_of_key_and_name_is_shown_once() {
    let sandbox = sealed_shop();
    let anna = |arguments: &[&str]| as_user(&sandbox, "anna", arguments);
    let bob = |arguments: &[&str]| as_user(&sandbox, "bob", arguments);
    anna(&["recipients", "add", &identity(&sandbox, "bob")]).exits(0);
    bob(&["list"]).exits(0);
    anna(&["rekey", "--yes"]).exits(0);
    let shown = bob(&["list"]).exits(0).stderr;
    assert!(
        shown.contains("notice: stack default: data key changed by") && shown.contains("in revision 3 from")
    );
    anna(&["stack", "rename", "default", "store"]).exits(0);
    let shown = bob(&["list", "--stack", "store"]).exits(0).stderr;
    assert!(shown.contains("renamed from default to store"), "{shown}");
    for who in ["bob", "anna"] {
        let again = as_user(&sandbox, who, &["list", "--stack", "store"]).exits(0);
        assert!(!again.stderr.contains("notice:"), "{who}: {again:?}");
    }
}
