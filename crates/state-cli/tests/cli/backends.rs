//! The supported backends and their configuration.

use crate::sandbox::Sandbox;

#[test]
fn backends_lists_configuration_keys_of_each_type() {
    let sandbox = Sandbox::new();
    let kinds = sandbox.run(&["backends", "--json"]).exits(0).data("backends");
    let file = kinds
        .as_array()
        .unwrap()
        .iter()
        .find(|kind| kind["name"] == "file")
        .unwrap();
    assert_eq!(file["url"], "file://PATH");
    let path = &file["configuration"][0];
    assert_eq!(path["name"], "path");
    assert_eq!(path["kind"], "path");
    assert_eq!(path["required"], true);
    assert_eq!(path["secret"], false);
    assert_eq!(file["configuration"][1]["default"], 10);
    let page = sandbox.run(&["backends"]).exits(0).stdout;
    assert!(
        page.contains("file://PATH") && page.contains("lock-timeout"),
        "{page}"
    );
}

#[test]
fn url_and_flag_values_are_validated_alike() {
    let sandbox = Sandbox::with_shop();
    let with = |url: &str, config: &[&str]| {
        let mut arguments = vec!["list", "--backend", url];
        for value in config {
            arguments.extend(["--backend-config", value]);
        }
        sandbox.run(&arguments)
    };
    with("file://.state?lock-timeout=3", &[]).exits(0);
    with("file://.state?lock-timeout=soon", &["lock-timeout=3"]).exits(0);
    with("file://", &["path=.state"]).exits(0);
    for (url, config) in [
        ("file://.state?lock-timeout=soon", &[][..]),
        ("file://.state", &["lock-timeout=soon"][..]),
    ] {
        let refused = with(url, config).exits(2);
        assert!(
            refused
                .stderr
                .contains("`lock-timeout` takes a whole number, not `soon`"),
            "{refused:?}"
        );
    }
    let unknown = with("file://.state", &["patiense=3"]).exits(2);
    assert!(
        unknown.stderr.contains("known keys are `path`, `lock-timeout`")
            && unknown.stderr.contains("--backend file://.state backends`"),
        "{unknown:?}"
    );
    with("file://.state", &["lock-timeout"]).exits(2);
    sandbox
        .run(&[
            "init",
            "--backend",
            "file://new",
            "--backend-config",
            "lock-timeout=-1",
        ])
        .exits(2);
    assert!(!sandbox.path().join("new").exists());
}

#[test]
fn path_with_url_syntax_is_taken_literally() {
    let sandbox = Sandbox::new();
    sandbox.run(&["init", "--backend", "a?b=c 100%"]).exits(0);
    assert!(sandbox.path().join("a?b=c 100%/format").is_file());
    sandbox.run(&["stack", "ls", "--backend", "a?b=c 100%"]).exits(0);
}

#[test]
fn secrets_in_urls_are_not_printed() {
    let sandbox = Sandbox::new();
    for command in [&["list"][..], &["init"], &["list", "--json"]] {
        let refused = sandbox
            .run(&[command, &["--backend", "file://nowhere?token=hunter2"]].concat())
            .exits(2);
        let text = refused.stdout + &refused.stderr;
        assert!(
            text.contains("unknown key `token`") && !text.contains("hunter2"),
            "{text}"
        );
    }
}

#[test]
fn misplaced_credentials_are_not_printed() {
    let identity = format!("AGE-SECRET-KEY-1{}", "Q".repeat(58));
    let sandbox = Sandbox::new();
    let list = ["list"];
    let with = |more: &[&str]| sandbox.run(&[&list[..], more].concat());
    for arguments in [
        &["--backend", "s3//me:hunter2@bucket/x"][..],
        &["--backend", "s3:me:hunter2@bucket/x"],
        &["--backend", "me:hunter2@bucket/x"],
        &["--backend", "file://me:hunter2@host/x"],
        &["--backend", "https:/me:hunter2@host/x"],
        &["--backend", "//me:hunter2@host/x"],
        &["--backend", "me:pa/hunter2@host/x"],
        &["--backend", "s3://bucket/x#hunter2"],
        &["--backend", "s3://bucket?region=x#hunter2"],
        &[
            "--backend",
            "s3://bucket",
            "--backend-config",
            "secret-access-key:hunter2",
        ],
        &["--backend", "s3://bucket", "--backend-config", "=hunter2"],
        &["--identity", &identity],
    ] {
        let refused = with(arguments).exits(2);
        let text = refused.stdout + &refused.stderr;
        assert!(
            !text.contains("hunter2") && !text.contains("SECRET-KEY-"),
            "{text}"
        );
        assert!(text.contains("hint: "), "{arguments:?}: {text}");
    }
    for arguments in [
        &["list", "--expect-key", &identity][..],
        &["recipients", "remove", &identity],
        &["show", &identity],
        &["trust", "--key", &identity, "--json"],
    ] {
        let refused = sandbox.run(arguments);
        let text = refused.stdout + &refused.stderr;
        assert!(!text.contains("QQQQ"), "{arguments:?}: {text}");
    }
    for settings in ["profiles = \"s3://me:hunter2@b\"", "\"s3://me:hunter2@b\" = 1"] {
        sandbox.write("statectl.toml", settings);
        let refused = sandbox.run(&list).exits(2);
        assert!(!refused.stderr.contains("hunter2"), "{refused:?}");
        std::fs::remove_file(sandbox.path().join("statectl.toml")).unwrap();
    }
    // A path may contain these characters.
    sandbox.run(&["init", "--backend", "./a:b@c"]).exits(0);
    assert!(sandbox.path().join("a:b@c/format").is_file());
}
