//! Each file of a store with 6 revisions is removed and zeroed in turn: surviving revisions are exported byte for byte, and a
//! salvage ends in a stack that works.

use super::files_below;
use crate::sandbox::{CommandOutput, Sandbox, fixture, run};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const NETWORK: &str = r#"module.service["web"].terraform_data.network"#;

/// A way to damage a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Harm {
    Removed,
    Zeroed,
}

/// A store with 6 revisions, its files, and the content of each revision.
struct Original {
    sandbox: Sandbox,
    backup: TempDir,
    policy: &'static str,
    files: Vec<PathBuf>,
    exports: BTreeMap<String, String>,
    current: String,
}

/// What the commands made of one damaged file.
struct Outcome {
    case: String,
    works: bool,
    survivors: usize,
    current_survives: bool,
}

impl Original {
    fn new(policy: &'static str, keeps_compaction: bool) -> Self {
        let sandbox = Sandbox::new();
        let go = |arguments: &[&str]| statectl(sandbox.path(), policy, arguments).exits(0);
        go(&["import", fixture("shop.tfstate").to_str().unwrap()]);
        for edit in ["taint", "untaint", "protect"] {
            go(&[edit, NETWORK, "--yes"]);
        }
        go(&["rollback", "@-", "--yes"]);
        go(&["taint", NETWORK, "--yes"]);
        if !keeps_compaction {
            // A compaction isn't synced: after a power loss the segments alone hold the frames.
            for file in files_below(&sandbox.path().join(".state")) {
                if file.extension().is_some_and(|extension| extension == "frames") {
                    fs::remove_file(sandbox.path().join(".state").join(file)).unwrap();
                }
            }
        }
        let history = go(&["history", "--json"]).stdout;
        let ids = history.lines().map(|line| {
            let line: Value = serde_json::from_str(line).unwrap();
            line["data"]["id"].as_str().unwrap().to_owned()
        });
        let exports: BTreeMap<_, _> = ids
            .map(|id| (id.clone(), go(&["export", "--show-secrets", "--at", &id]).stdout))
            .collect();
        assert_eq!(exports.len(), 6);
        let backup = tempfile::tempdir().unwrap();
        copy(sandbox.path(), backup.path());
        Self {
            backup,
            files: files_below(&sandbox.path().join(".state")),
            current: exports.keys().max().unwrap().clone(),
            policy,
            exports,
            sandbox,
        }
    }

    /// Damages one file of the store.
    fn damage(&self, file: &Path, harm: Harm) {
        let damaged = self.sandbox.path().join(".state").join(file);
        match harm {
            Harm::Removed => fs::remove_file(damaged).unwrap(),
            Harm::Zeroed => {
                let length = fs::read(&damaged).unwrap().len();
                fs::write(&damaged, vec![0; length]).unwrap();
            }
        }
    }

    /// Puts the store and what the client remembers of it back to what they were.
    fn restore(&self) {
        for folder in [".state", "memory"] {
            fs::remove_dir_all(self.sandbox.path().join(folder)).unwrap();
        }
        copy(self.backup.path(), self.sandbox.path());
    }

    fn outcome(&self, file: &Path, harm: Harm) -> Outcome {
        let case = format!("{} {harm:?} {}", self.policy, file.display());
        self.damage(file, harm);
        let folder = self.sandbox.path();
        let go = |arguments: &[&str]| statectl(folder, self.policy, arguments);
        let now = go(&["export", "--show-secrets"]);
        let expected = &self.exports[&self.current];
        assert!(
            now.code != 0 || now.stdout == *expected,
            "{case}: another state is shown as current: {now:?}"
        );

        let (surviving, lost) = self.survivors(folder, &case);
        let salvaged = go(&["salvage", "--yes"]);
        for id in &surviving {
            let read = go(&["export", "--show-secrets", "--at", id]);
            assert_eq!(
                (read.code, &read.stdout),
                (0, &self.exports[id]),
                "{case}: {id}: {read:?}"
            );
        }
        let works = salvaged.code == 0
            && go(&["protect", NETWORK, "--yes"]).code == 0
            && go(&["verify", "--deep"]).code == 0;
        if works && lost.contains(&self.current) {
            assert!(
                salvaged.stdout.contains(&self.current) && go(&["history"]).stdout.contains("salvaged:"),
                "{case}: the loss of the current state isn't reported: {salvaged:?}"
            );
        }
        self.restore();
        Outcome {
            current_survives: surviving.contains(&self.current),
            survivors: surviving.len(),
            works,
            case,
        }
    }

    /// The revisions that survive and those that don't, as `verify --deep` lists them. Each survivor is compared.
    fn survivors(&self, folder: &Path, case: &str) -> (Vec<String>, Vec<String>) {
        let verified = statectl(folder, self.policy, &["verify", "--deep", "--json"]);
        let document: Value = serde_json::from_str(&verified.stdout).unwrap_or_default();
        let survey = &document["data"]["survey"];
        let listed = |field: &str| -> Vec<String> {
            let ids = survey["stacks"][0][field].as_array().cloned().unwrap_or_default();
            ids.iter().map(|id| id.as_str().unwrap().to_owned()).collect()
        };
        let damage = survey["stacks"][0]["damage"].as_array().map_or(0, Vec::len);
        let (surviving, lost) = (listed("surviving"), listed("lost"));
        if damage == 0 {
            // Nothing in the stack is damaged, so each revision survives.
            return (self.exports.keys().cloned().collect(), Vec::new());
        }
        assert_ne!(verified.code, 0, "{case}: {verified:?}");
        for id in &surviving {
            let read = statectl(folder, self.policy, &["export", "--show-secrets", "--at", id]);
            assert_eq!(
                (read.code, &read.stdout),
                (0, &self.exports[id]),
                "{case}: {id}: {read:?}"
            );
        }
        (surviving, lost)
    }
}

/// Runs `statectl` as a client with an identity and a memory in this folder.
fn statectl(folder: &Path, policy: &str, arguments: &[&str]) -> CommandOutput {
    let mut command = Sandbox::new().command(arguments);
    command
        .current_dir(folder)
        .env("STATECTL_POLICY", policy)
        .env("XDG_CONFIG_HOME", folder.join("config"))
        .env("XDG_STATE_HOME", folder.join("memory"));
    run(&mut command)
}

fn copy(from: &Path, to: &Path) {
    for path in files_below(from) {
        let target = to.join(&path);
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::copy(from.join(&path), target).unwrap();
    }
}

/// The outcomes for all files of a store that `is_damaged` selects, each removed and zeroed.
fn outcomes(policy: &'static str, keeps_compaction: bool, is_damaged: fn(&Path) -> bool) -> Vec<Outcome> {
    let original = Original::new(policy, keeps_compaction);
    let files = original.files.iter().filter(|file| is_damaged(file));
    let cases = files.flat_map(|file| [(file, Harm::Removed), (file, Harm::Zeroed)]);
    cases.map(|(file, harm)| original.outcome(file, harm)).collect()
}

#[test]
fn single_damage_ends_in_a_working_stack() {
    let total: Vec<Outcome> = std::thread::scope(|scope| {
        let threads =
            ["plaintext", "sensitive"].map(|policy| scope.spawn(|| outcomes(policy, true, |_| true)));
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect()
    });
    let count = |is_so: fn(&Outcome) -> bool| total.iter().filter(|outcome| is_so(outcome)).count();
    let (working, current) = (
        count(|outcome| outcome.works),
        count(|outcome| outcome.current_survives),
    );
    let survivors: usize = total.iter().map(|outcome| outcome.survivors).sum();
    eprintln!("{} single damages: {working} end in a working stack", total.len());
    eprintln!(
        "the current state survives {current} of them; {survivors} of {} revisions do",
        total.len() * 6
    );
    assert!(working * 100 >= total.len() * 95, "{working} of {}", total.len());
    for lost in total.iter().filter(|outcome| !outcome.current_survives) {
        // The snapshot that the rollback restored, and the wrapped data key, have no copy.
        let only_copies = ["snapshots/00000000000000000009-", "keys/"];
        assert!(
            only_copies.iter().any(|copy| lost.case.contains(copy)),
            "{}",
            lost.case
        );
    }
}

#[test]
fn lost_segment_costs_only_the_revisions_after_it() {
    // Without the compaction of the journal, each segment is the only copy of its frames.
    let is_segment = |file: &Path| file.extension().is_some_and(|extension| extension == "log");
    for (number, segment) in (0..).zip(outcomes("plaintext", false, is_segment).chunks(2)) {
        for outcome in segment {
            assert_eq!(outcome.survivors, number, "{}", outcome.case);
            assert_eq!(outcome.works, number > 0, "{}", outcome.case);
        }
    }
}
