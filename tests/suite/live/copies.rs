//! Tests the main workflow on each server, and copies a stack from files to each server and back to files.

use super::{run, servers, statectl, unique_url};
use std::path::{Path, PathBuf};

/// Returns the path of a file in `tests/fixtures`.
fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name)
}

#[test]
fn main_workflow_works_on_each_server() {
    for server in servers() {
        let url = unique_url(&server);
        let on = |arguments: &[&str]| run(&mut statectl(&[&["--backend", &url], arguments].concat()));
        let shop = fixture("shop.tfstate");
        let newer = fixture("successor.tfstate");
        on(&["import", shop.to_str().expect("UTF-8")]).exits(0);
        assert_eq!(on(&["list"]).exits(0).out.lines().count(), 29);
        on(&["import", newer.to_str().expect("UTF-8")]).exits(0);
        assert_eq!(on(&["history", "--json"]).exits(0).out.lines().count(), 2);
        on(&["diff"]).exits(0);
        on(&["rollback", "1", "--yes"]).exits(0);
        on(&["verify", "--deep"]).exits(0);
        let lock = on(&["lock", "status"]).exits(0);
        assert!(!lock.out.contains("locked by"), "{lock:?}");
        let exported = on(&["export", "--show-secrets"]).exits(0).out;
        assert!(exported.contains("terraform_data"), "{exported}");
    }
}

#[test]
fn copied_stack_is_identical_after_a_round_trip() {
    let folder = tempfile::tempdir().expect("a folder");
    let files = format!("file://{}", folder.path().join("first").display());
    let shop = fixture("shop.tfstate");
    run(&mut statectl(&[
        "--backend",
        &files,
        "import",
        shop.to_str().expect("UTF-8"),
    ]))
    .exits(0);
    let newer = fixture("successor.tfstate");
    run(&mut statectl(&[
        "--backend",
        &files,
        "import",
        newer.to_str().expect("UTF-8"),
    ]))
    .exits(0);
    let history = |url: &str| {
        run(&mut statectl(&["--backend", url, "history", "--json"]))
            .exits(0)
            .out
    };
    let original = history(&files);
    let mut at = files;
    for server in servers() {
        let next = unique_url(&server);
        run(&mut statectl(&["copy", &at, &next])).exits(0);
        assert_eq!(history(&next), original);
        let again = run(&mut statectl(&["copy", &at, &next])).exits(0);
        assert!(again.out.contains("already up to date"), "{again:?}");
        at = next;
    }
    let back = format!("file://{}", folder.path().join("back").display());
    run(&mut statectl(&["copy", &at, &back])).exits(0);
    assert_eq!(history(&back), original);
    run(&mut statectl(&["--backend", &back, "verify", "--deep"])).exits(0);
    run(&mut statectl(&["--backend", &back, "rollback", "1", "--yes"])).exits(0);
}
