//! Stores that the members of a group share: `group-writable`, with several real users and any umask.

use crate::sandbox::{CommandOutput, Sandbox, fixture, run, started_by};
use state_core::testkit::run::skip;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const TEAM: u32 = 61_000;
const ANNA: u32 = 61_001;
const BERT: u32 = 61_002;
const STRANGER: u32 = 61_003;

const NETWORK: &str = r#"module.service["web"].terraform_data.network"#;

/// A folder in which several users run `statectl` on one store.
struct Office {
    sandbox: Sandbox,
}

impl Office {
    /// Reports a skip if this user can't act as other users.
    fn new(untested: &str) -> Option<Self> {
        let mut probe = Command::new("setpriv");
        probe.args([
            "--reuid", "61001", "--regid", "61001", "--groups", "61000", "true",
        ]);
        let can = probe.stdout(Stdio::null()).stderr(Stdio::null()).status();
        if !can.is_ok_and(|status| status.success()) {
            skip("other-users", untested);
            return None;
        }
        let sandbox = Sandbox::new();
        fs::set_permissions(sandbox.path(), Permissions::from_mode(0o755)).unwrap();
        // The other users may not have access to the folder in which the program was built.
        fs::copy(env!("CARGO_BIN_EXE_statectl"), sandbox.path().join("statectl")).unwrap();
        fs::copy(fixture("shop.tfstate"), sandbox.path().join("shop.tfstate")).unwrap();
        for user in [ANNA, BERT, STRANGER] {
            let home = sandbox.path().join(user.to_string());
            fs::create_dir(&home).unwrap();
            chown(&home, Some(user), Some(user)).unwrap();
        }
        let team = sandbox.path().join("team");
        fs::create_dir(&team).unwrap();
        chown(&team, Some(ANNA), Some(TEAM)).unwrap();
        fs::set_permissions(&team, Permissions::from_mode(0o2775)).unwrap();
        Some(Self { sandbox })
    }

    fn store(&self) -> PathBuf {
        self.sandbox.path().join("team/states")
    }

    /// Runs `statectl` as a user with this umask.
    fn run(&self, user: u32, umask: &str, arguments: &[&str]) -> CommandOutput {
        let home = self.sandbox.path().join(user.to_string());
        let mut command = self.sandbox.command(arguments);
        let url = format!("file://{}?group-writable=true", self.store().display());
        command
            .current_dir(&home)
            .env("HOME", &home)
            .env("XDG_CONFIG_HOME", home.join("config"))
            .env("XDG_STATE_HOME", home.join("state"))
            .env("STATECTL_BACKEND", url);
        let id = user.to_string();
        let groups = match user {
            STRANGER => id.clone(),
            _ => TEAM.to_string(),
        };
        let script = format!("umask {umask}; shift; exec \"$0\" \"$@\"");
        let program = self.sandbox.path().join("statectl");
        let starter = [
            "setpriv",
            "--reuid",
            &id,
            "--regid",
            &id,
            "--groups",
            &groups,
            "sh",
            "-c",
            &script,
            program.to_str().unwrap(),
        ];
        run(&mut started_by(&starter, &command))
    }

    fn shop(&self) -> String {
        self.sandbox.path().join("shop.tfstate").display().to_string()
    }
}

fn all_below(folder: &Path) -> Vec<PathBuf> {
    let (mut found, mut folders) = (vec![folder.to_path_buf()], vec![folder.to_path_buf()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path.clone());
            }
            found.push(path);
        }
    }
    found
}

#[test]
fn members_of_a_group_share_a_store_with_any_umask() {
    let Some(office) = Office::new("a store that a group shares") else {
        return;
    };
    office.run(ANNA, "077", &["import", &office.shop()]).exits(0);
    office.run(BERT, "022", &["protect", NETWORK, "--yes"]).exits(0);
    office.run(ANNA, "022", &["taint", NETWORK, "--yes"]).exits(0);
    office.run(BERT, "077", &["rollback", "@-", "--yes"]).exits(0);
    office.run(BERT, "077", &["stack", "new", "net/prod"]).exits(0);
    office.run(ANNA, "077", &["stack", "rm", "net/prod"]).exits(0);
    let gc = [
        "gc",
        "--stack",
        "default",
        "--keep-days",
        "0",
        "--keep-revisions",
        "1",
        "--grace",
        "0s",
        "--yes",
    ];
    office.run(ANNA, "077", &gc).exits(0);
    for user in [ANNA, BERT] {
        office
            .run(user, "077", &["verify", "--deep", "--stack", "default"])
            .exits(0);
        office
            .run(user, "077", &["history", "--stack", "default"])
            .exits(0);
    }
    let mut owners = Vec::new();
    for path in all_below(&office.store()) {
        let status = path.metadata().unwrap();
        let expected = if path.is_dir() { 0o2770 } else { 0o660 };
        assert_eq!(
            (status.mode() & 0o7777, status.gid()),
            (expected, TEAM),
            "{}",
            path.display()
        );
        owners.push(status.uid());
    }
    assert!(owners.contains(&ANNA) && owners.contains(&BERT));

    let denied = office.run(STRANGER, "022", &["list", "--stack", "default"]);
    assert_ne!(denied.code, 0, "{denied:?}");
    assert!(
        denied.stderr.contains("belongs to user 61001 and group 61000"),
        "{denied:?}"
    );
}

#[test]
fn group_writable_store_says_so_in_its_check() {
    let sandbox = Sandbox::new();
    let url = format!(
        "file://{}?group-writable=true",
        sandbox.path().join("states").display()
    );
    let checked = sandbox.run(&["init", "--backend", &url]).exits(0);
    assert!(checked.stdout.contains("created"), "{checked:?}");
    let plain = format!("file://{}", sandbox.path().join("states").display());
    let report = sandbox.run(&["doctor", &plain]).exits(0);
    assert!(
        report.stdout.contains("the members of its group can write"),
        "{report:?}"
    );
}

#[test]
fn salvaged_store_stays_one_of_its_group() {
    let Some(office) = Office::new("the salvage of a store that a group shares") else {
        return;
    };
    office.run(ANNA, "077", &["import", &office.shop()]).exits(0);
    let stacks = fs::read_dir(office.store().join("stacks")).unwrap();
    let stack = stacks.map(|entry| entry.unwrap().path()).next().unwrap();
    fs::remove_file(office.store().join("format")).unwrap();
    fs::remove_file(stack.join("head.json")).unwrap();
    office.run(ANNA, "077", &["salvage", "--yes"]).exits(0);
    office.run(BERT, "077", &["protect", NETWORK, "--yes"]).exits(0);
    office.run(ANNA, "077", &["verify", "--deep"]).exits(0);
    assert_ne!(office.run(STRANGER, "077", &["list"]).code, 0);
}

#[test]
fn salvaged_store_stays_private() {
    let sandbox = Sandbox::with_shop();
    let format = sandbox.path().join(".state/format");
    fs::remove_file(&format).unwrap();
    sandbox.run(&["salvage", "--yes"]).exits(0);
    assert_eq!(format.metadata().unwrap().mode() & 0o777, 0o600);
    assert!(!fs::read_to_string(&format).unwrap().contains("group"));
}

#[test]
fn existing_private_store_is_not_made_group_writable() {
    let sandbox = Sandbox::with_shop();
    let before = fs::read(sandbox.path().join(".state/format")).unwrap();
    let refused = sandbox
        .run(&["init", "--backend", "file://.state?group-writable=true"])
        .exits(13);
    assert!(
        refused.stderr.contains("only its owner") && refused.stderr.contains("statectl copy"),
        "{refused:?}"
    );
    assert_eq!(fs::read(sandbox.path().join(".state/format")).unwrap(), before);
}
