//! Installs the programs and packages that servers need: with apt from Debian, with npm into the target folder.

use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use super::home::Home;
use crate::process::{Failure, probe, run_aside};

/// Whether a server can be started here.
pub(crate) enum Readiness {
    Ready,
    /// The server can't be started, for this reason.
    Skipped(String),
}

/// A program, and the Debian package that contains it.
pub(crate) type Tool = (&'static str, &'static str);

/// Serializes calls of apt, which can't run concurrently.
static APT: Mutex<()> = Mutex::new(());

/// Installs the missing packages. A failed installation is an error; a skip is only for machines that can't install.
pub(crate) fn from_debian(tools: &[Tool]) -> Result<Readiness, Failure> {
    let _alone = APT.lock().unwrap_or_else(PoisonError::into_inner);
    let mut missing: Vec<&str> = tools
        .iter()
        .filter(|(program, _)| !is_there(program))
        .map(|(_, package)| *package)
        .collect();
    missing.dedup();
    if missing.is_empty() {
        return Ok(Readiness::Ready);
    }
    let packages = missing.join(" ");
    if let Some(why) = hindrance(&packages, is_there("apt-get"), is_root()) {
        return Ok(Readiness::Skipped(why));
    }
    run_aside(Command::new("apt-get").arg("update"))?;
    let mut install = Command::new("apt-get");
    install
        .args(["install", "-y", "--no-install-recommends"])
        .args(&missing)
        .env("DEBIAN_FRONTEND", "noninteractive");
    run_aside(&mut install)?;
    Ok(Readiness::Ready)
}

/// Returns why packages can't be installed here, which is the only reason to skip a server. Root with apt-get can
/// always install, so there a server that can't be made ready fails the step.
fn hindrance(packages: &str, has_apt: bool, is_root: bool) -> Option<String> {
    if !has_apt {
        return Some(format!("{packages} are missing, and there is no apt-get"));
    }
    (!is_root).then(|| format!("only root can install {packages}: apt-get install {packages}"))
}

/// Installs an npm package beside the server's folder, where it stays for later starts.
pub(crate) fn from_npm(home: &Home, package: &str, program: &str) -> Result<Readiness, Failure> {
    let tools: [Tool; 2] = [("node", "nodejs"), ("npm", "npm")];
    if let Readiness::Skipped(why) = from_debian(&tools)? {
        return Ok(Readiness::Skipped(why));
    }
    if !program_of(home, program).exists() {
        let mut install = Command::new("npm");
        install
            .args([
                "install",
                "--no-audit",
                "--no-fund",
                "--loglevel=error",
                "--prefix",
            ])
            .arg(home.tools())
            .arg(package);
        run_aside(&mut install)?;
    }
    Ok(Readiness::Ready)
}

/// Returns the path of a program that npm installed.
pub(crate) fn program_of(home: &Home, program: &str) -> PathBuf {
    home.tools().join("node_modules/.bin").join(program)
}

fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

fn is_root() -> bool {
    probe(Command::new("id").arg("-u")).is_some_and(|output| output.stdout.trim_ascii() == b"0")
}

#[cfg(test)]
mod tests {
    use super::hindrance;

    #[test]
    fn root_with_apt_never_skips_and_others_get_a_reason() {
        assert_eq!(hindrance("radosgw", true, true), None);
        for (has_apt, is_root, why) in [
            (false, true, "no apt-get"),
            (false, false, "no apt-get"),
            (true, false, "only root"),
        ] {
            let said = hindrance("radosgw", has_apt, is_root).expect("it can't");
            assert!(said.contains(why) && said.contains("radosgw"), "{said}");
        }
    }
}
