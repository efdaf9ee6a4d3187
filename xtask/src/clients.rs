//! `cargo xtask clients [NAME...]`: builds pinned versions of the programs that tests run for real.
//!
//! They are built from their Go modules, if Go is installed, into a cache folder outside the tree:
//! `$STATE_CLIENTS_DIR`, or else `statectl-clients` in the user's cache folder. `bin/` holds the programs, `mirror/`
//! the providers in the layout of a filesystem mirror. A program that exists in the right version isn't built again.
//! Tests use the programs in `bin/`, a `terraform` on the PATH, and a `tofu` on the PATH if none was built
//! (`tests/src/clients.rs`). They report a skip for a program that they don't find.

mod table;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

use table::{CLIENTS, Client, Place, UNAVAILABLE};

use crate::process::{self, Failure, probe};

/// Builds the named clients, or all; `list` only prints which ones are built.
pub(crate) fn run(names: &[String]) -> Result<(), Failure> {
    let cache = Cache::find()?;
    if names == ["list"] {
        print!("{}", listing(&cache));
        return Ok(());
    }
    if let Some(unknown) = names
        .iter()
        .find(|name| CLIENTS.iter().all(|client| client.name != **name))
    {
        return Err(Failure(format!(
            "no client `{unknown}`; known are:\n{}",
            listing(&cache)
        )));
    }
    if probe(Command::new("go").arg("version")).is_none() {
        println!("SKIP: Go is not installed, so no client can be built: see https://go.dev/doc/install");
        return Ok(());
    }
    let mut failed = Vec::new();
    for client in &CLIENTS {
        let is_wanted = names.is_empty() || names.iter().any(|name| name == client.name);
        if is_wanted && let Err(failure) = cache.build(client) {
            eprintln!("error: {}: {failure}", client.name);
            failed.push(client.name);
        }
    }
    print!("{}", listing(&cache));
    if failed.is_empty() {
        return Ok(());
    }
    Err(Failure(format!("could not build: {}", failed.join(", "))))
}

fn listing(cache: &Cache) -> String {
    let mut text = format!("clients in {}:\n", cache.0.display());
    for client in &CLIENTS {
        let state = if cache.has(client) { "built" } else { "not built" };
        let Client { name, about, .. } = client;
        let number = client.number();
        text += &format!("  {name:<22}{number:<10}{state:<11}{about}\n");
    }
    for (name, reason) in UNAVAILABLE {
        text += &format!("  {name}: unavailable: {reason}\n");
    }
    text
}

/// The cache folder, outside the tree.
struct Cache(PathBuf);

impl Cache {
    fn find() -> Result<Self, Failure> {
        let set = |name: &str| {
            std::env::var_os(name)
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
        };
        set("STATE_CLIENTS_DIR")
            .or_else(|| Some(set("XDG_CACHE_HOME")?.join("statectl-clients")))
            .or_else(|| Some(set("HOME")?.join(".cache/statectl-clients")))
            .map(Self)
            .ok_or_else(|| Failure("no cache folder: set STATE_CLIENTS_DIR".to_owned()))
    }

    /// Returns the path of a client's binary, which contains its version.
    fn binary(&self, client: &Client) -> PathBuf {
        let number = client.number();
        match client.place {
            Place::Program => self.0.join("bin").join(format!("{}@{number}", client.name)),
            Place::Provider => {
                let name = client.name;
                let folder = format!(
                    "mirror/registry.terraform.io/hashicorp/{name}/{number}/{}",
                    platform()
                );
                self.0
                    .join(folder)
                    .join(format!("terraform-provider-{name}_v{number}"))
            }
        }
    }

    fn has(&self, client: &Client) -> bool {
        self.binary(client).is_file()
    }

    fn build(&self, client: &Client) -> Result<(), Failure> {
        if self.has(client) {
            return Ok(());
        }
        let module = self.0.join("build").join(client.name);
        write_module(&module, client).map_err(|error| at(&module, &error))?;
        let built = module.join("built");
        let mut flags = String::from("-s -w");
        for (name, value) in client.variables {
            flags += &format!(" -X {name}={value}");
        }
        let mut go = Command::new("go");
        go.current_dir(&module)
            .args(["build", "-mod=mod", "-trimpath", "-buildvcs=false", "-ldflags", &flags, "-o"])
            .arg(&built)
            .arg(client.package)
            // The user's Go settings would change the build, which must be the same on every machine.
            .env("CGO_ENABLED", "0")
            .env("GOFLAGS", "")
            .env("GOWORK", "off")
            .env("GOTOOLCHAIN", "local");
        process::run(&mut go)?;
        let binary = self.binary(client);
        install(&built, &binary).map_err(|error| at(&binary, &error))?;
        if let Place::Provider = client.place {
            // OpenTofu asks its own registry for the same provider.
            let shown = binary.to_string_lossy();
            let twin = PathBuf::from(shown.replace("registry.terraform.io", "registry.opentofu.org"));
            install(&binary, &twin).map_err(|error| at(&twin, &error))?;
        }
        Ok(())
    }
}

/// Copies under a temporary name and renames: an interrupted build must not leave an incomplete program.
fn install(built: &Path, binary: &Path) -> io::Result<()> {
    if let Some(folder) = binary.parent() {
        fs::create_dir_all(folder)?;
    }
    let partial = binary.with_extension("partial");
    fs::copy(built, &partial)?;
    fs::rename(partial, binary)
}

fn at(path: &Path, error: &io::Error) -> Failure {
    Failure(format!("{}: {error}", path.display()))
}

fn platform() -> &'static str {
    match (std::env::consts::OS, std::env::consts::ARCH) {
        ("linux", "x86_64") => "linux_amd64",
        ("linux", "aarch64") => "linux_arm64",
        ("macos", "aarch64") => "darwin_arm64",
        _ => "darwin_amd64",
    }
}

fn write_module(folder: &Path, client: &Client) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    fs::write(folder.join("go.mod"), go_mod(client))?;
    // Go drops a requirement that no file imports.
    let import = format!("package clients\n\nimport _ \"{}\"\n", client.package);
    fs::write(
        folder.join("require.go"),
        format!("//go:build require\n\n{import}"),
    )?;
    for stub in client.stubs {
        write_stub(&folder.join(stub), &stub_module(stub))?;
        fs::write(folder.join(stub).join("stub.go"), stub_source(stub))?;
    }
    if !client.stubs.is_empty() {
        write_stub(&folder.join("legacy"), LEGACY)?;
    }
    Ok(())
}

fn write_stub(folder: &Path, module: &str) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    fs::write(folder.join("go.mod"), format!("module {module}\n\ngo 1.24\n"))
}

fn go_mod(client: &Client) -> String {
    let mut text = format!(
        "module statectl.test/clients\n\ngo 1.25\n\nrequire {} {}\n",
        client.module, client.version
    );
    for (old, new) in client.replaces {
        text += &format!("replace {old} => {new}\n");
    }
    for stub in client.stubs {
        text += &format!("replace {} => ./{stub}\n", stub_module(stub));
    }
    if !client.stubs.is_empty() {
        text += &format!("replace {LEGACY} => ./legacy\n");
    }
    text
}

/// A nested module that Terraform requires, but that no package of the program imports.
const LEGACY: &str = "github.com/hashicorp/terraform/internal/legacy";

fn stub_module(name: &str) -> String {
    format!("github.com/hashicorp/terraform/internal/backend/remote-state/{name}")
}

/// Returns the source of an empty state backend: `terraform init` with it fails.
fn stub_source(name: &str) -> String {
    format!(
        "// Package {name} takes the place of a backend that this build leaves out.\n\
         package {name}\n\n\
         import \"github.com/hashicorp/terraform/internal/backend\"\n\n\
         // New returns no backend.\n\
         func New() backend.Backend {{ return nil }}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn module_file_repeats_replacements() {
        let tofu = &CLIENTS[0];
        let text = go_mod(tofu);
        assert!(
            text.contains("require github.com/opentofu/opentofu v1.12.6\n"),
            "{text}"
        );
        assert!(
            text.contains(
                "replace github.com/hashicorp/hcl/v2 v2.20.1 => github.com/opentofu/hcl/v2 v2.20.2"
            ),
            "{text}"
        );
    }

    #[test]
    fn every_binary_has_its_own_path_with_its_version() {
        let cache = Cache(PathBuf::from("cache"));
        let places: std::collections::BTreeSet<_> =
            CLIENTS.iter().map(|client| cache.binary(client)).collect();
        assert_eq!(places.len(), CLIENTS.len());
        for client in &CLIENTS {
            let shown = cache.binary(client).to_string_lossy().into_owned();
            assert!(shown.contains(client.number()), "{shown}");
            let is_commit = client.version.contains("-0.");
            assert_eq!(
                is_commit,
                client.number() != client.version.trim_start_matches('v'),
                "{}: only a version that is a commit may have a different release number",
                client.name
            );
        }
    }

    #[test]
    fn listing_names_unavailable_clients_with_the_reason() {
        let text = listing(&Cache(PathBuf::from("nowhere")));
        for (name, reason) in UNAVAILABLE {
            assert!(text.contains(name) && text.contains(reason), "{text}");
        }
        assert!(text.contains("not built"));
    }

    #[test]
    fn unknown_client_is_refused_with_the_known_names() {
        let failure = run(&["teraform".to_owned()]).expect_err("a misspelled name");
        assert!(
            failure.0.contains("`teraform`") && failure.0.contains("tofu"),
            "{failure}"
        );
    }
}
