//! Finds the Terraform and OpenTofu executables that tests run: the builds of `cargo xtask clients`, and the PATH.

use state_core::testkit::run::skip;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// An executable of Terraform or OpenTofu.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Client {
    /// Name of the program and its version, for messages.
    pub name: String,
    /// Path of the executable.
    pub program: PathBuf,
}

/// Returns every Terraform and OpenTofu that `cargo xtask clients` built, `terraform` on the PATH, and `tofu` on the
/// PATH if no OpenTofu was built.
///
/// Reports a [`skip`] for Terraform if no Terraform is found, and for OpenTofu if no OpenTofu is found. `untested`
/// describes the behaviour that a skip leaves untested.
pub fn terraforms(untested: &str) -> Vec<Client> {
    let mut found = built(&["terraform", "terraform-1.11", "tofu"]);
    for name in ["terraform", "tofu"] {
        let is_built = found
            .iter()
            .any(|client| client.name.starts_with(&format!("{name}@")));
        if (name == "terraform" || !is_built) && answers(Path::new(name)) {
            found.push(Client {
                name: format!("{name} on the PATH"),
                program: PathBuf::from(name),
            });
        }
    }
    for name in ["terraform", "tofu"] {
        if !found.iter().any(|client| client.name.starts_with(name)) {
            skip(name, untested);
        }
    }
    found
}

/// Returns the folder with the Terraform providers that `cargo xtask clients` built. `names` are the required
/// providers. `untested` describes the behaviour that a skip leaves untested.
///
/// Returns `None` and reports a [`skip`] if one of the providers is missing. Returns `None` without a report if none of
/// `STATE_CLIENTS_DIR`, `XDG_CACHE_HOME` and `HOME` is set.
pub fn provider_mirror(names: &[&str], untested: &str) -> Option<PathBuf> {
    let mirror = cache()?.join("mirror");
    let hosts = ["registry.terraform.io", "registry.opentofu.org"];
    let is_built = |name: &&str| {
        hosts
            .iter()
            .all(|host| mirror.join(host).join("hashicorp").join(name).is_dir())
    };
    if names.iter().all(is_built) {
        return Some(mirror);
    }
    skip("terraform-providers", untested);
    None
}

/// Returns the clients with these names from the folder that `cargo xtask clients` fills, sorted by name.
fn built(names: &[&str]) -> Vec<Client> {
    let Some(folder) = cache().and_then(|cache| std::fs::read_dir(cache.join("bin")).ok()) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for file in folder.flatten() {
        let name = file.file_name().to_string_lossy().into_owned();
        // A build in progress has the extension `.partial`.
        let is_named = name
            .split_once('@')
            .is_some_and(|(stem, _)| names.contains(&stem));
        if is_named && !name.ends_with(".partial") && answers(&file.path()) {
            found.push(Client {
                name,
                program: file.path(),
            });
        }
    }
    found.sort();
    found
}

/// Returns the folder that `cargo xtask clients` fills. `xtask` chooses the folder by the same variables.
fn cache() -> Option<PathBuf> {
    let set = |name: &str| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    set("STATE_CLIENTS_DIR")
        .or_else(|| Some(set("XDG_CACHE_HOME")?.join("statectl-clients")))
        .or_else(|| Some(set("HOME")?.join(".cache/statectl-clients")))
}

/// Returns whether `PROGRAM version` succeeds.
fn answers(program: &Path) -> bool {
    let mut version = Command::new(program);
    version
        .arg("version")
        .env("CHECKPOINT_DISABLE", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    version.status().is_ok_and(|status| status.success())
}
