//! Limits the memory that `statectl` needs for a large state. The limits are multiples of the uncompressed size of the
//! stored state, or of the size of the imported file.
//!
//! The tests measure the peak of the whole process (`VmHWM` in procfs), which includes the program, its threads and all
//! memory that the allocator retains. The tests are skipped on systems without procfs.

use crate::process::WORKER;
use state_core::codec;
use state_core::testkit::run::skip;
use state_manager::{Actor, Environment, Stacks, file_url};
use state_tests::large::{Shape, pulumi_deployment, terraform_state, terraform_state_of};
use std::path::Path;
use std::process::{Command, Stdio};

/// Number of entries in the state on which the commands run.
const ENTRIES: usize = 100_000;

/// Number of entries in the imported state of Terraform, which has about 100 MB.
const IMPORTED: usize = 125_000;

/// Number of resources in the imported deployment of Pulumi, which has about 100 MB.
const PULUMI: usize = 65_000;

/// Maximum memory of a command, in tenths of the stored size.
const TENTHS: u64 = 25;

#[test]
fn commands_need_at_most_2_5_times_the_stored_size() {
    for policy in ["plaintext", "sensitive"] {
        check_commands(policy);
    }
}

#[test]
fn import_needs_at_most_twice_the_file_size() {
    import("plaintext", &|| terraform_state_of(Shape::Counted, IMPORTED));
    import("sensitive", &|| terraform_state_of(Shape::Separate, IMPORTED));
    import("sensitive", &|| pulumi_deployment(PULUMI));
}

/// Imports a generated file into a stack with this policy, and checks the limit.
#[expect(clippy::print_stdout, reason = "a test prints its measurement")]
fn import(policy: &str, generate: &dyn Fn() -> String) {
    let folder = tempfile::tempdir().expect("a folder");
    let text = generate();
    let size = text.len() as u64;
    std::fs::write(folder.path().join("large.json"), text).expect("a file");
    let Some(peak) = peak(folder.path(), policy, &["import", "large.json"]) else {
        skip("procfs", "memory of a large import");
        return;
    };
    let hundredths = peak * 100 / size;
    println!(
        "import of {size} bytes, {policy}: {peak} bytes, {}.{:02} times",
        hundredths / 100,
        hundredths % 100
    );
    assert!(
        peak <= 2 * size,
        "an import of {size} bytes ({policy}) needs {peak} bytes of memory"
    );
}

/// Runs each command on a stack with this policy, and checks the limit.
#[expect(clippy::print_stdout, reason = "a test prints its measurement")]
fn check_commands(policy: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("large.tfstate"), terraform_state(ENTRIES)).expect("a file");
    // `lock acquire` measures opening a state for writing, because it does nothing else with the state.
    let commands: [(&str, &[&str]); 5] = [
        ("import", &["import", "large.tfstate"]),
        ("open", &["lock", "acquire", "--message", "open"]),
        ("list", &["list"]),
        ("list as JSON", &["list", "--json"]),
        ("verify", &["verify"]),
    ];
    let peaks = commands.map(|(name, arguments)| (name, peak(folder.path(), policy, arguments)));
    let stored = stored_size(folder.path());
    for (name, peak) in peaks {
        let Some(peak) = peak else {
            skip("procfs", &format!("memory of `{name}`"));
            continue;
        };
        let hundredths = peak * 100 / stored;
        println!(
            "{name}, {policy}: {peak} bytes, {}.{:02} times",
            hundredths / 100,
            hundredths % 100
        );
        assert!(
            peak * 10 <= stored * TENTHS,
            "`{name}` needs {peak} bytes for a state of {stored} ({policy})"
        );
    }
}

/// Returns the peak memory of a command in bytes; `None` on a system without procfs.
fn peak(folder: &Path, policy: &str, arguments: &[&str]) -> Option<u64> {
    let output = Command::new(WORKER)
        .arg("cli")
        .args(arguments)
        .current_dir(folder)
        .env_remove("STATECTL_BACKEND")
        .env_remove("STATECTL_STACK")
        .env_remove("STATECTL_IDENTITY")
        .env_remove("STATECTL_PASSPHRASE")
        .env("XDG_CONFIG_HOME", folder.join("settings"))
        .env("XDG_STATE_HOME", folder.join("seen"))
        .env("STATECTL_POLICY", policy)
        .stdout(Stdio::null())
        .output()
        .expect("the worker runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let line = stderr.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib * 1024)
}

/// Returns the size of the stored state before compression, in bytes.
fn stored_size(folder: &Path) -> u64 {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let url = file_url(folder.join(".state").to_str().expect("a path"));
        let stacks = Stacks::open(&url, Environment::system(Actor::default())).expect("a store");
        let name = "default".parse().expect("a name");
        let stack = stacks.get(&name).await.expect("a store").expect("a stack");
        let current = stack.current().await.expect("a snapshot");
        assert_eq!(current.entries.len(), ENTRIES);
        codec::encode_stored(&current).len() as u64
    })
}
