//! The commands `login`, `logout` and `whoami`.

use crate::sandbox::{Sandbox, run};

#[test]
fn login_saves_a_default_store_until_logout() {
    let sandbox = Sandbox::with_shop();
    let config = sandbox.path().join("user-config/statectl/config.toml");
    std::fs::create_dir_all(config.parent().unwrap()).unwrap();
    std::fs::write(&config, "# mine\n[profiles.dev]\nstack = \"shop\"\n").unwrap();
    sandbox.run(&["login", ".state"]).exits(0);
    let elsewhere = tempfile::tempdir().unwrap();
    let listed = run(sandbox.command(&["list"]).current_dir(elsewhere.path())).exits(0);
    assert_eq!(listed.stdout.lines().count(), 29);
    let who = run(sandbox
        .command(&["whoami", "--json"])
        .current_dir(elsewhere.path())
        .env("USER", "ana"));
    let who = who.exits(0).data("whoami");
    assert_eq!(who["who"], "ana");
    assert!(who["backend"].as_str().unwrap().ends_with("/.state"), "{who}");

    let forgotten = sandbox.run(&["logout"]).exits(0);
    assert!(
        forgotten.stdout.contains("removed the default store"),
        "{forgotten:?}"
    );
    run(sandbox.command(&["list"]).current_dir(elsewhere.path())).exits(10);
    let kept = std::fs::read_to_string(&config).unwrap();
    assert_eq!(kept, "# mine\n[profiles.dev]\nstack = \"shop\"\n");
    assert!(
        sandbox
            .run(&["logout"])
            .exits(0)
            .stdout
            .contains("no default store is saved")
    );
}

#[test]
fn login_to_a_missing_store_saves_nothing() {
    let sandbox = Sandbox::new();
    sandbox.run(&["login", "file://nowhere"]).exits(10);
    assert!(!sandbox.path().join("user-config/statectl/config.toml").exists());
}
