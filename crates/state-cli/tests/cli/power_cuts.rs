//! Power cuts while the store and the user's home are on one disk: what a command has acknowledged is durable, and this
//! client neither forgets it nor remembers more than the store has.

use crate::disks::{Disk, FileSystem};
use crate::sandbox::{CommandOutput, Sandbox, fixture, run, user};
use state_core::testkit::run::scaled;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

const NETWORK: &str = r#"module.service["web"].terraform_data.network"#;
const SYSTEMS: [(FileSystem, u64); 2] = [(FileSystem::Ext4, 48), (FileSystem::Xfs, 320)];
const POLICIES: [&str; 2] = ["plaintext", "sensitive"];
/// Power cuts in each test, for each file system and policy, before scaling.
const CUTS: u32 = 6;

/// A user whose files are all on one disk.
struct Bench {
    // Deleted before the disk is unmounted.
    sandbox: Sandbox,
    disk: Disk,
    policy: &'static str,
}

impl Bench {
    fn new(system: (FileSystem, u64), policy: &'static str) -> Option<Self> {
        let disk = Disk::new(system.0, system.1, "power cuts with home and store on one disk")?;
        let sandbox = Sandbox::below(&disk.path());
        // Otherwise a cut undoes the folder of the test itself.
        assert!(Command::new("sync").status().unwrap().success());
        Some(Self {
            sandbox,
            disk,
            policy,
        })
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = user(&self.sandbox, "anna", arguments);
        command.env("STATECTL_POLICY", self.policy);
        command
    }

    fn run(&self, arguments: &[&str]) -> CommandOutput {
        run(&mut self.command(arguments))
    }

    fn import(&self) -> CommandOutput {
        self.run(&["import", fixture("shop.tfstate").to_str().unwrap(), "--yes"])
    }

    fn cut(&mut self) {
        self.disk.cut_power();
        self.disk.power_on();
    }

    /// Cuts the power while `work` goes on, and returns its result.
    fn cut_during<T: Send>(&mut self, after: Duration, work: impl FnOnce(&Self) -> T + Send) -> T {
        let bench = &*self;
        let done = thread::scope(|scope| {
            let working = scope.spawn(|| work(bench));
            thread::sleep(after);
            bench.disk.cut_power();
            working.join().unwrap()
        });
        self.disk.power_on();
        done
    }

    /// The store is intact, this client trusts it without a warning, and reads all revisions of it.
    #[track_caller]
    fn revisions(&self, case: &str) -> usize {
        let verified = self.run(&["verify", "--deep"]);
        assert_eq!(verified.code, 0, "{case}: {verified:?}");
        let listed = self.run(&["list"]);
        assert_eq!(
            (listed.code, listed.stderr.as_str()),
            (0, ""),
            "{case}: {listed:?}"
        );
        let exported = self.run(&["export", "--show-secrets"]);
        assert_eq!(exported.code, 0, "{case}: {}", exported.stderr);
        let history = self.run(&["history", "--json"]);
        assert_eq!(
            (history.code, history.stderr.as_str()),
            (0, ""),
            "{case}: {history:?}"
        );
        history.stdout.lines().count()
    }
}

#[test]
fn acknowledged_commands_survive_a_power_cut_right_after() {
    let gc = [
        "gc",
        "--keep-days",
        "0",
        "--keep-revisions",
        "3",
        "--grace",
        "0s",
        "--yes",
    ];
    for system in SYSTEMS {
        for policy in POLICIES {
            let Some(mut bench) = Bench::new(system, policy) else {
                continue;
            };
            bench.import().exits(0);
            bench.cut();
            let first = bench.revisions("import");
            for (number, arguments) in [
                &["taint", NETWORK, "--yes"][..],
                &["untaint", NETWORK, "--yes"],
                &["protect", NETWORK, "--yes"],
                &["rollback", "@-", "--yes"],
            ]
            .iter()
            .enumerate()
            {
                bench.run(arguments).exits(0);
                bench.cut();
                let case = format!("{:?}, {policy}: {arguments:?}", system.0);
                assert_eq!(bench.revisions(&case), first + number + 1, "{case}");
            }
            for arguments in [
                &gc[..],
                &["stack", "rename", "default", "shop", "--yes"],
                &["stack", "rename", "shop", "default", "--yes"],
            ] {
                bench.run(arguments).exits(0);
                bench.cut();
                if !arguments.contains(&"shop") || arguments[2] == "shop" {
                    let case = format!("{:?}, {policy}: {arguments:?}", system.0);
                    assert_eq!(bench.revisions(&case), 3, "{case}");
                }
            }
            if policy == "sensitive" {
                bench.run(&["rekey", "--yes"]).exits(0);
                bench.cut();
                bench.revisions("rekey");
            }
            bench.run(&["untaint", NETWORK, "--yes"]);
            bench.revisions("after all");
        }
    }
}

#[test]
fn power_cuts_lose_no_acknowledged_change() {
    for system in SYSTEMS {
        for policy in POLICIES {
            let Some(mut bench) = Bench::new(system, policy) else {
                continue;
            };
            bench.import().exits(0);
            let mut acknowledged = bench.revisions("before");
            for cut in 0..scaled(CUTS) {
                let case = format!("{:?}, {policy}, cut {cut}", system.0);
                let after = Duration::from_millis(u64::from(20 + cut * 37 % 200));
                let done = AtomicUsize::new(0);
                bench.cut_during(after, |bench| {
                    for edit in ["taint", "untaint", "protect", "unprotect"].iter().cycle() {
                        let ended = bench.run(&[edit, NETWORK, "--yes"]);
                        if ended.code != 0 {
                            return;
                        }
                        // A repeated edit that has no effect makes no revision.
                        let is_change =
                            !ended.stdout.contains("already") && !ended.stdout.contains("nothing");
                        done.fetch_add(usize::from(is_change), Ordering::SeqCst);
                    }
                });
                acknowledged += done.into_inner();
                let revisions = bench.revisions(&case);
                assert!(
                    (acknowledged..=acknowledged + 1).contains(&revisions),
                    "{case}: {revisions} revisions, {acknowledged} acknowledged"
                );
                acknowledged = revisions;
            }
        }
    }
}

#[test]
fn power_cut_in_the_first_import_leaves_a_way_to_finish() {
    for system in SYSTEMS {
        for policy in POLICIES {
            let Some(mut bench) = Bench::new(system, policy) else {
                continue;
            };
            for cut in 0..scaled(CUTS * 2) {
                let case = format!("{:?}, {policy}, cut {cut}", system.0);
                let after = Duration::from_millis(u64::from(cut * 7 % 120));
                let first = bench.cut_during(after, Bench::import);
                if first.code == 0 {
                    bench.revisions(&case);
                }
                let again = bench.import();
                if again.code != 0 {
                    finish_with_hint(&bench, &again, &case);
                    let last = bench.import();
                    assert_eq!(last.code, 0, "{case}: {last:?}");
                }
                bench.revisions(&case);
                for name in [".state", "anna"] {
                    std::fs::remove_dir_all(bench.sandbox.path().join(name)).unwrap();
                }
            }
        }
    }
}

/// Runs the first command of a hint as a person pastes it.
fn finish_with_hint(bench: &Bench, refused: &CommandOutput, case: &str) {
    let hint = refused.stderr.lines().find(|line| line.contains("hint: "));
    let hint = hint.and_then(|hint| hint.split('`').nth(1));
    let pasted = hint.unwrap_or_else(|| panic!("{case}: {refused:?}"));
    let mut shell = bench.command(&[]);
    let program = shell.get_program().to_owned();
    let mut pasting = Command::new("sh");
    pasting.args(["-c", &format!("statectl() {{ \"$0\" \"$@\" --yes; }}; {pasted}")]);
    pasting.arg(program).current_dir(bench.sandbox.path());
    for (name, value) in shell.stdin(Stdio::null()).get_envs() {
        match value {
            Some(value) => pasting.env(name, value),
            None => pasting.env_remove(name),
        };
    }
    let pasted = run(&mut pasting);
    assert_eq!(pasted.code, 0, "{case}: {pasted:?}, hint of {refused:?}");
}
