//! Runs the installed Terraform and OpenTofu clients.

use state_tests::clients::{self, Client};
use std::fmt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// A Terraform or OpenTofu client with its own home folder.
pub(super) struct TerraformCli {
    client: Client,
    home: TempDir,
}

impl fmt::Display for TerraformCli {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.client.name)
    }
}

impl TerraformCli {
    /// Returns all installed clients. Reports a skip for Terraform or OpenTofu if it isn't installed.
    pub(super) fn all() -> Vec<Self> {
        Self::all_for("exports read by the real client")
    }

    /// Returns all installed clients. Reports a skip for Terraform or OpenTofu if it isn't installed; `untested`
    /// describes the behaviour that the skip leaves untested.
    pub(super) fn all_for(untested: &str) -> Vec<Self> {
        clients::terraforms(untested)
            .into_iter()
            .map(|client| Self {
                client,
                home: tempfile::tempdir().expect("a folder"),
            })
            .collect()
    }

    /// Makes the client install providers from this folder only.
    pub(super) fn use_mirror(&self, mirror: &Path) {
        let text =
            format!("provider_installation {{\n  filesystem_mirror {{\n    path = {mirror:?}\n  }}\n}}\n");
        std::fs::write(self.home.path().join(".terraformrc"), text).expect("a file is written");
    }

    /// Removes the two known differences from Terraform 1.11 in resources that the client wrote: OpenTofu assigns a
    /// provider without a source to its own registry, and since version 1.12, Terraform writes
    /// `identity_schema_version` 0 for every managed instance without an identity.
    pub(super) fn as_terraform_1_11(&self, resources: &mut serde_json::Value) {
        let is_tofu = self.client.name.starts_with("tofu");
        for resource in resources.as_array_mut().expect("resources") {
            if is_tofu {
                let provider = resource["provider"].as_str().expect("a provider");
                resource["provider"] = provider
                    .replace("\"registry.opentofu.org/-/", "\"registry.terraform.io/-/")
                    .into();
                continue;
            }
            for instance in resource["instances"].as_array_mut().expect("instances") {
                let members = instance.as_object_mut().expect("an instance");
                if members.get("identity_schema_version") == Some(&serde_json::json!(0)) {
                    members.remove("identity_schema_version");
                }
            }
        }
    }

    /// Runs `init` in a working folder.
    pub(super) fn init(&self, dir: &Path) {
        ok(self.run(dir, &["init", "-input=false", "-no-color"]));
    }

    /// Returns the schemas of the providers that a working folder has installed, as JSON.
    pub(super) fn provider_schemas(&self, dir: &Path) -> serde_json::Value {
        let text = ok(self.run(dir, &["providers", "schema", "-json"]));
        serde_json::from_slice(&text).expect("JSON")
    }

    /// Applies the configuration of a working folder with a variable (`NAME=VALUE`), and returns the new state.
    pub(super) fn apply(&self, dir: &Path, variable: &str) -> Vec<u8> {
        let arguments = [
            "apply",
            "-input=false",
            "-no-color",
            "-auto-approve",
            "-var",
            variable,
        ];
        ok(self.run(dir, &arguments));
        std::fs::read(dir.join("terraform.tfstate")).expect("a state")
    }

    /// Applies the configuration of a working folder.
    pub(super) fn apply_all(&self, dir: &Path) {
        ok(self.run(dir, &["apply", "-input=false", "-no-color", "-auto-approve"]));
    }

    /// Plans in a working folder, and returns the plan as JSON.
    pub(super) fn planned(&self, dir: &Path) -> serde_json::Value {
        let arguments = [
            "plan",
            "-input=false",
            "-no-color",
            "-lock=false",
            "-detailed-exitcode",
            "-out=plan",
        ];
        let output = self.run(dir, &arguments);
        let text = String::from_utf8_lossy(&output.stderr);
        let code = output.status.code();
        assert!(matches!(code, Some(0 | 2)), "{self} can't plan: {text}");
        let plan: serde_json::Value =
            serde_json::from_slice(&ok(self.run(dir, &["show", "-json", "plan"]))).expect("JSON");
        let is_change =
            |change: &serde_json::Value| change["change"]["actions"] != serde_json::json!(["no-op"]);
        let has_changes = plan["resource_changes"]
            .as_array()
            .is_some_and(|all| all.iter().any(is_change));
        assert_eq!(
            code == Some(2),
            has_changes,
            "{self}: the exit code must agree with the plan"
        );
        plan
    }

    /// Plans in a working folder, which must fail, and returns the error.
    pub(super) fn refused_plan(&self, dir: &Path) -> String {
        let output = self.run(dir, &["plan", "-input=false", "-no-color", "-lock=false"]);
        assert_eq!(output.status.code(), Some(1), "{self} must refuse the state");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    /// Marks a resource of a working folder for replacement.
    pub(super) fn taint(&self, dir: &Path, address: &str) {
        ok(self.run(dir, &["taint", address]));
    }

    /// Plans in a working folder with a variable (`NAME=VALUE`). Returns whether the plan has no changes, and the
    /// output.
    pub(super) fn plan_in(&self, dir: &Path, variable: &str) -> (bool, String) {
        let arguments = [
            "plan",
            "-input=false",
            "-no-color",
            "-detailed-exitcode",
            "-var",
            variable,
        ];
        let output = self.run(dir, &arguments);
        let text = [output.stdout, output.stderr].concat();
        (
            output.status.code() == Some(0),
            String::from_utf8_lossy(&text).into_owned(),
        )
    }

    /// Pushes a state to a working folder that has a state. Returns the new state, or the error output of the client.
    pub(super) fn push_in(&self, dir: &Path, state: &[u8]) -> Result<Vec<u8>, String> {
        std::fs::write(dir.join("pushed"), state).expect("a file is written");
        let output = self.run(dir, &["state", "push", "pushed"]);
        if output.status.success() {
            return Ok(std::fs::read(dir.join("terraform.tfstate")).expect("a state"));
        }
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }

    /// Returns the addresses that `terraform state list` prints, sorted.
    pub(super) fn state_list(&self, state: &[u8]) -> Vec<String> {
        let dir = in_folder("some.tfstate", state);
        let output = self.run(dir.path(), &["state", "list", "-state=some.tfstate"]);
        let text = String::from_utf8(ok(output)).expect("addresses");
        let mut addresses: Vec<_> = text.lines().map(str::to_owned).collect();
        addresses.sort();
        addresses
    }

    /// Returns the addresses in the output of `terraform show -json`, sorted.
    pub(super) fn show(&self, state: &[u8]) -> Vec<String> {
        let dir = in_folder("some.tfstate", state);
        let output = self.run(dir.path(), &["show", "-json", "some.tfstate"]);
        let json: serde_json::Value = serde_json::from_slice(&ok(output)).expect("JSON");
        let mut addresses = Vec::new();
        collect(&json["values"]["root_module"], &mut addresses);
        addresses.sort();
        addresses
    }

    /// Pushes a state to a new folder that has the state `over`. Returns the new state, or the error output of the
    /// client.
    pub(super) fn push(&self, over: &[u8], state: &[u8]) -> Result<Vec<u8>, String> {
        let dir = in_folder("terraform.tfstate", over);
        self.push_in(dir.path(), state)
    }

    /// Plans a configuration over a state. Returns whether the plan has no changes, and the output.
    pub(super) fn plan(&self, configuration: &Path, state: &[u8]) -> (bool, String) {
        let dir = in_folder("terraform.tfstate", state);
        copy(configuration, dir.path());
        self.init(dir.path());
        let arguments = ["plan", "-input=false", "-no-color", "-detailed-exitcode"];
        let output = self.run(dir.path(), &arguments);
        let text = [output.stdout, output.stderr].concat();
        (
            output.status.code() == Some(0),
            String::from_utf8_lossy(&text).into_owned(),
        )
    }

    /// Returns the output of `terraform state pull` for a state: the same state in the current version of the format.
    pub(super) fn pull(&self, state: &[u8]) -> Vec<u8> {
        let dir = in_folder("terraform.tfstate", state);
        ok(self.run(dir.path(), &["state", "pull"]))
    }

    fn run(&self, dir: &Path, arguments: &[&str]) -> Output {
        self.command(dir)
            .args(arguments)
            .output()
            .expect("the client runs")
    }

    fn command(&self, dir: &Path) -> Command {
        let mut command = Command::new(&self.client.program);
        command
            .current_dir(dir)
            .stdin(Stdio::null())
            .env("HOME", self.home.path())
            .env("CHECKPOINT_DISABLE", "1")
            .env_remove("TF_CLI_CONFIG_FILE")
            .env_remove("TF_DATA_DIR")
            .env_remove("TF_WORKSPACE");
        command
    }
}

/// Returns a new folder that contains a state as a file with this name.
fn in_folder(name: &str, state: &[u8]) -> TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::write(dir.path().join(name), state).expect("a file is written");
    dir
}

/// Copies the content of a folder into an existing folder.
pub(super) fn copy(from: &Path, to: &Path) {
    for found in std::fs::read_dir(from).expect("a folder") {
        let path = found.expect("a folder that can be listed").path();
        let target = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            std::fs::create_dir(&target).expect("a new folder");
            copy(&path, &target);
        } else {
            std::fs::copy(&path, &target).expect("a file is copied");
        }
    }
}

/// Returns the standard output of a client, which must have succeeded.
fn ok(output: Output) -> Vec<u8> {
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "the client failed: {text}");
    output.stdout
}

/// Adds the addresses of the resources of a module and its child modules.
fn collect(module: &serde_json::Value, addresses: &mut Vec<String>) {
    let items = |key: &str| module[key].as_array().into_iter().flatten();
    addresses
        .extend(items("resources").filter_map(|resource| Some(resource["address"].as_str()?.to_owned())));
    for child in items("child_modules") {
        collect(child, addresses);
    }
}
