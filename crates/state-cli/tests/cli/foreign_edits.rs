//! Edits of a Terraform state: checked against Terraform's rules, with a preview of what Terraform will do.

use crate::sandbox::{Sandbox, run};

/// A state with a module in two instances, an id on each object, and a deposed object.
fn state() -> String {
    let resource = |module: &str, name: &str, instances: &str| {
        format!(
            r#"{{{module}"mode": "managed", "type": "t", "name": "{name}", "provider": "provider.t", "instances": [{instances}]}}"#
        )
    };
    let object = |id: &str, rest: &str| format!(r#"{{{rest}"attributes": {{"id": "{id}"}}}}"#);
    let module = |key: &str| format!(r#""module": "module.net[\"{key}\"]", "#);
    let all = [
        resource(
            "",
            "web",
            &[object("i-1", ""), object("i-old", r#""deposed": "4f2a9c1b", "#)].join(","),
        ),
        resource(&module("a"), "sub", &object("s-1", r#""index_key": 0, "#)),
        resource(&module("b"), "sub", &object("s-2", r#""index_key": 0, "#)),
    ];
    format!(
        r#"{{"version": 4, "terraform_version": "1.11.4", "serial": 7, "lineage": "l", "outputs": {{}}, "resources": [{}], "check_results": null}}"#,
        all.join(", ")
    )
}

fn imported() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("a.tfstate", state());
    sandbox.run(&["import", "a.tfstate"]).exits(0);
    sandbox
}

#[test]
fn edit_that_terraform_cannot_load_is_refused_with_a_reason() {
    let sandbox = imported();
    for (arguments, reason) in [
        (
            &["mv", "t.web", "aws_instance.web"][..],
            "can't change the type of an object",
        ),
        (
            &["mv", "t.web", "not valid !!"],
            "isn't an address that Terraform accepts",
        ),
        (
            &["mv", r#"module.net["a"]"#, "net"],
            "isn't an address that Terraform accepts",
        ),
    ] {
        let refused = sandbox.run(&[arguments, &["--yes"]].concat()).exits(4);
        assert!(refused.stderr.contains(reason), "{refused:?}");
        assert!(refused.stderr.contains("hint:"), "{refused:?}");
    }
    assert_eq!(sandbox.history().len(), 1);
}

#[test]
fn preview_names_what_terraform_will_do() {
    let sandbox = imported();
    for (arguments, effect) in [
        (&["taint", "t.web"][..], "Terraform will REPLACE i-1 (t.web)"),
        (
            &["rm", "t.web"],
            "Terraform will FORGET i-1 (t.web): the object stays",
        ),
        (
            &["mv", "t.web", "t.app"],
            "Terraform will DESTROY i-1 unless the configuration declares it as t.app",
        ),
    ] {
        let asked = sandbox.run(arguments).exits(4);
        assert!(asked.stderr.contains(effect), "{asked:?}");
    }
    let removed = sandbox
        .run(&["rm", "t.web", "--yes", "--json"])
        .exits(0)
        .data("rm");
    assert_eq!(removed["effects"][0]["action"], "forget");
    assert_eq!(removed["effects"][0]["id"], "i-1");
    sandbox.run(&["undo", "--yes"]).exits(0);
    let back = sandbox
        .run(&["rollback", "2", "--yes", "--json"])
        .exits(0)
        .data("rollback");
    assert_eq!(back["effects"].as_array().unwrap().len(), 2, "{back}");
}

#[test]
fn module_moves_and_is_removed_as_a_whole() {
    let sandbox = imported();
    let shown = sandbox
        .run(&["show", "module.net", "--json"])
        .exits(0)
        .data("show");
    assert_eq!(shown["entries"].as_array().unwrap().len(), 2);
    sandbox
        .run(&["mv", "module.net", "module.core", "--yes"])
        .exits(0);
    assert_eq!(sandbox.history().len(), 2);
    let listed = sandbox.run(&["list"]).exits(0).stdout;
    for address in [r#"module.core["a"].t.sub[0]"#, r#"module.core["b"].t.sub[0]"#] {
        assert!(listed.contains(address), "{listed}");
    }
    assert!(!listed.contains("module.net"), "{listed}");
    let occupied = sandbox
        .run(&["mv", r#"module.core["a"]"#, r#"module.core["b"]"#, "--yes"])
        .exits(13);
    assert!(occupied.stderr.contains("already exists"), "{occupied:?}");
    sandbox.run(&["taint", "module.core", "--yes"]).exits(0);
    sandbox.run(&["rm", "module.core", "--yes"]).exits(0);
    assert!(!sandbox.run(&["list"]).stdout.contains("module"));
    sandbox.run(&["mv", "module.core", "module.x", "--yes"]).exits(10);
}

#[test]
fn deposed_resource_is_named_as_list_prints_it() {
    let sandbox = imported();
    let name = "t.web (deposed 4f2a9c1b)";
    assert!(sandbox.run(&["list"]).stdout.contains(name));
    let shown = sandbox.run(&["show", name, "--json"]).exits(0).data("show");
    assert_eq!(shown["entries"].as_array().unwrap().len(), 1);
    let wrong = sandbox
        .run(&["rm", "t.web", "--deposed", "00000000", "--yes"])
        .exits(10);
    assert!(
        wrong
            .stderr
            .contains("no deposed resource with the key `00000000`")
            && wrong.stderr.contains("`statectl rm t.web --deposed 4f2a9c1b`"),
        "{wrong:?}"
    );
    let refused = sandbox.run(&["taint", name, "--yes"]).exits(2);
    assert!(refused.stderr.contains("name `t.web`"), "{refused:?}");
    sandbox.run(&["rm", name, "--yes"]).exits(0);
    let listed = sandbox.run(&["list"]).stdout;
    assert!(
        listed.contains("t.web") && !listed.contains("deposed"),
        "{listed}"
    );
}

#[test]
fn protection_survives_the_next_import() {
    let sandbox = imported();
    let protected = sandbox.run(&["protect", "t.web", "--yes"]).exits(0);
    assert!(protected.stderr.contains("prevent_destroy"), "{protected:?}");
    sandbox.write(
        "b.tfstate",
        state()
            .replace("\"serial\": 7", "\"serial\": 8")
            .replace("s-1", "s-3"),
    );
    sandbox.run(&["import", "b.tfstate", "--force"]).exits(0);
    let refused = sandbox.run(&["rm", "t.web", "--yes"]).exits(4);
    assert!(refused.stderr.contains("protected"), "{refused:?}");
    let without = state()
        .replace("\"serial\": 7", "\"serial\": 11")
        .replace("\"web\"", "\"app\"");
    sandbox.write("c.tfstate", without);
    let dropped = sandbox.run(&["import", "c.tfstate"]).exits(0);
    assert!(
        dropped.stderr.contains("no longer protected") && dropped.stderr.contains("t.web"),
        "{dropped:?}"
    );
}

#[test]
fn encrypted_stack_is_exported_masked_only_on_request() {
    let sandbox = Sandbox::new();
    sandbox.write("a.tfstate", state());
    run(&mut sandbox.sealing(&["import", "a.tfstate"])).exits(0);
    let refused = sandbox.run(&["export"]).exits(4);
    assert!(
        refused.stderr.contains("--show-secrets") && refused.stderr.contains("--masked"),
        "{refused:?}"
    );
    assert!(refused.stdout.is_empty(), "{refused:?}");
    let masked = sandbox.run(&["export", "--masked"]).exits(0);
    assert!(masked.stdout.contains("\"version\": \"masked\""), "{masked:?}");
    sandbox.run(&["export", "--masked", "--show-secrets"]).exits(2);
    sandbox.write("masked.tfstate", masked.stdout);
    sandbox.run(&["import", "masked.tfstate", "--force"]).exits(4);
    sandbox.run(&["export", "--show-secrets"]).exits(0);
}

#[test]
fn duplicate_with_a_secret_id_is_chosen_by_position() {
    let sandbox = Sandbox::new();
    let object = |value: &str| format!(r#"{{"attributes": {{"id": "none", "result": "{value}"}}}}"#);
    let broken = format!(
        r#"{{"version": 4, "terraform_version": "1.11.4", "serial": 7, "lineage": "l", "outputs": {{}}, "resources": [{{"mode": "managed", "type": "t", "name": "p", "provider": "provider.t", "instances": [{}, {}]}}], "check_results": null}}"#,
        object("alpha"),
        object("beta")
    );
    sandbox.write("broken.tfstate", broken);
    let refused = sandbox
        .run(&["import", "broken.tfstate", "--repair", "--yes"])
        .exits(14);
    assert!(
        refused
            .stderr
            .contains("`statectl import broken.tfstate --repair --keep t.p=@2`")
            || refused.stderr.contains("--keep 't.p=@2'"),
        "{refused:?}"
    );
    sandbox
        .run(&[
            "import",
            "broken.tfstate",
            "--repair",
            "--yes",
            "--keep",
            "t.p=@3",
        ])
        .exits(2);
    sandbox
        .run(&["import", "broken.tfstate", "--keep", "t.p=@2"])
        .exits(2);
    sandbox
        .run(&[
            "import",
            "broken.tfstate",
            "--repair",
            "--yes",
            "--keep",
            "t.p=@2",
            "-m",
            "by hand",
        ])
        .exits(0);
    let shown = sandbox.run(&["show", "t.p"]).exits(0);
    assert!(
        shown.stdout.contains("beta") && !shown.stdout.contains("alpha"),
        "{shown:?}"
    );
    assert_eq!(sandbox.history()[0]["message"], "repair: by hand");
}
