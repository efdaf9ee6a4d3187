//! Commands that maintain stores, killed at every system call that writes: what was intact stays readable after each kill,
//! and a second run completes.

mod recovery;

use crate::sandbox::{CommandOutput, Sandbox, fixture, run, started_by};
use state_core::testkit::run::skip;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use tempfile::TempDir;

const NETWORK: &str = r#"module.service["web"].terraform_data.network"#;

/// The system calls before which the command is killed.
const CALLS: [&str; 18] = [
    "write",
    "fsync",
    "fdatasync",
    "rename",
    "renameat",
    "renameat2",
    "link",
    "linkat",
    "unlink",
    "unlinkat",
    "mkdir",
    "mkdirat",
    "rmdir",
    "pwrite64",
    "ftruncate",
    "fallocate",
    "fchmod",
    "flock",
];

/// The calls that exist on this architecture. Reports a skip without `strace`.
fn calls() -> Option<Vec<&'static str>> {
    let traces = |call: &&str| {
        Command::new("strace")
            .args(["-qq", "-e", &format!("trace={call}"), "-o", "/dev/null", "true"])
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    };
    if !traces(&"fsync") {
        skip(
            "strace",
            "kills before system calls of gc, copy, salvage and restore",
        );
        return None;
    }
    Some(CALLS.into_iter().filter(traces).collect())
}

/// A sandbox that is put back to its beginning before each kill.
struct Bench {
    sandbox: Sandbox,
    backup: TempDir,
}

impl Bench {
    fn new(prepare: impl FnOnce(&Sandbox)) -> Self {
        let sandbox = Sandbox::new();
        sandbox
            .run(&["import", fixture("shop.tfstate").to_str().unwrap()])
            .exits(0);
        for edit in ["taint", "untaint", "protect"] {
            sandbox.run(&[edit, NETWORK, "--yes"]).exits(0);
        }
        prepare(&sandbox);
        let backup = tempfile::tempdir().unwrap();
        copy(sandbox.path(), backup.path());
        Self { sandbox, backup }
    }

    fn restore(&self) {
        for entry in fs::read_dir(self.sandbox.path()).unwrap() {
            fs::remove_dir_all(entry.unwrap().path()).unwrap();
        }
        copy(self.backup.path(), self.sandbox.path());
    }

    /// Kills the command before each occurrence of each call in turn. After each kill, `check` gets a description.
    fn kill_everywhere(&self, calls: &[&str], arguments: &[&str], check: impl Fn(&str)) -> usize {
        let mut kills = 0;
        for call in calls {
            for when in 1.. {
                self.restore();
                let inject = format!("inject={call}:signal=SIGKILL:when={when}");
                let trace = format!("trace={call}");
                let starter = [
                    "strace",
                    "-f",
                    "-qq",
                    "-o",
                    "/dev/null",
                    "-e",
                    &trace,
                    "-e",
                    &inject,
                ];
                let ended = run(&mut started_by(&starter, &self.sandbox.command(arguments)));
                let case = format!("killed before {call} number {when}");
                if ended.code == 0 {
                    break;
                }
                // After the report, the runtime still writes to wake its threads.
                assert!(*call == "write" || ended.stdout.is_empty(), "{case}: {ended:?}");
                check(&case);
                kills += 1;
            }
        }
        kills
    }

    #[track_caller]
    fn succeeds(&self, arguments: &[&str], case: &str) -> CommandOutput {
        let ended = self.sandbox.run(arguments);
        assert_eq!(ended.code, 0, "{case}: {arguments:?}: {ended:?}");
        ended
    }
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").arg(from.join(".")).arg(to).status();
    assert!(copied.unwrap().success());
}

#[test]
fn gc_killed_at_any_call_leaves_a_store_that_verifies() {
    let Some(calls) = calls() else { return };
    let bench = Bench::new(|sandbox| {
        fs::write(sandbox.path().join(".state/.tmp-4711-0"), "left").unwrap();
    });
    let gc = [
        "gc",
        "--keep-days",
        "0",
        "--keep-revisions",
        "2",
        "--grace",
        "0s",
        "--yes",
    ];
    let current = bench.succeeds(&["export"], "before").stdout;
    let kills = bench.kill_everywhere(&calls, &gc, |case| {
        bench.succeeds(&["verify", "--deep"], case);
        assert_eq!(bench.succeeds(&["export"], case).stdout, current, "{case}");
        bench.succeeds(&gc, case);
        bench.succeeds(&["verify", "--deep"], case);
        assert_eq!(bench.succeeds(&["export"], case).stdout, current, "{case}");
        assert_eq!(bench.sandbox.history().len(), 2, "{case}");
        let idle = bench.succeeds(&gc, case);
        assert!(idle.stdout.contains("nothing to delete now"), "{case}: {idle:?}");
        let reserve = bench.sandbox.path().join(".state/reserve").metadata();
        assert!(reserve.is_ok_and(|reserve| reserve.len() == 1 << 20), "{case}");
    });
    assert!(kills > 30, "too few kills: {kills}");
}

#[test]
fn copy_killed_at_any_call_is_finished_by_the_next() {
    let Some(calls) = calls() else { return };
    for is_update in [false, true] {
        let to = ["copy", ".state", "file://there"];
        let bench = Bench::new(|sandbox| {
            if is_update {
                sandbox.run(&to).exits(0);
                sandbox.run(&["rollback", "1", "--yes"]).exits(0);
                sandbox
                    .run(&["taint", "terraform_data.database", "--yes"])
                    .exits(0);
            }
        });
        let there = ["--backend", "file://there"];
        let verify = [&there[..], &["verify", "--deep"]].concat();
        let history = bench.succeeds(&["history", "--json"], "before").stdout;
        let kills = bench.kill_everywhere(&calls, &to, |case| {
            bench.succeeds(&["verify", "--deep"], case);
            if is_update {
                // The copy is a valid stack at each moment.
                bench.succeeds(&verify, case);
            }
            bench.succeeds(&to, case);
            bench.succeeds(&verify, case);
            let copied = bench.succeeds(&[&there[..], &["history", "--json"]].concat(), case);
            assert_eq!(copied.stdout, history, "{case}");
            let idle = bench.succeeds(&to, case);
            assert!(idle.stdout.contains("already up to date"), "{case}: {idle:?}");
            let edit = [&there[..], &["untaint", NETWORK, "--yes"]].concat();
            bench.sandbox.run(&edit);
            bench.succeeds(&verify, case);
        });
        assert!(kills > 20, "too few kills: {kills}");
    }
}
