//! Kills `up` with `kill -9` at random moments while it creates real files. The state must know every created file, and
//! the next run must converge.

use crate::sandbox::{Sandbox, run};
use state_core::testkit::clock::SeededEntropy;
use state_core::testkit::run::scaled;
use state_core::{Digest, Entropy, Entry};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

/// The environment variable with the seed of a run to replay.
const SEED: &str = "STATE_TESTS_SEED";
/// Number of times that each test kills `up`, before scaling.
const ROUNDS: u32 = 50;
/// Maximum number of pages in a program.
const PAGES: u64 = 24;

struct Dice(SeededEntropy);

impl Dice {
    fn below(&self, bound: u64) -> u64 {
        let mut bytes = [0; 8];
        self.0.fill(&mut bytes);
        u64::from_le_bytes(bytes) % bound
    }
}

/// Returns a random program, and the files that it must create except the file with the generated password.
fn program(dice: &Dice, round: u64) -> (String, BTreeMap<PathBuf, String>) {
    let mut text = String::from(concat!(
        "resources:\n",
        "  folder: { kind: directory, inputs: { path: out } }\n",
        "  password: { kind: random:password, inputs: { length: 20 } }\n",
        "  secret:\n    kind: file\n    options: { parent: folder }\n",
        "    inputs: { path: \"${folder.path}/secret\", content: \"${password.result}\" }\n",
    ));
    let mut files = BTreeMap::new();
    for page in 0..PAGES {
        if dice.below(3) == 0 {
            continue;
        }
        // Some contents are the same in every round.
        let content = format!("page {page} of {}", round * dice.below(4).min(1));
        text.push_str(&format!(
            "  page{page}:\n    kind: file\n    options: {{ parent: folder }}\n    \
             inputs: {{ path: \"${{folder.path}}/page{page}\", content: \"{content}\" }}\n"
        ));
        files.insert(PathBuf::from(format!("page{page}")), content);
    }
    (text, files)
}

/// Returns the files of a folder, by name.
fn files(folder: &Path) -> BTreeMap<PathBuf, String> {
    let Ok(children) = std::fs::read_dir(folder) else {
        return BTreeMap::new();
    };
    let paths = children.map(|child| child.unwrap().path());
    let file = |path: PathBuf| {
        (
            PathBuf::from(path.file_name().unwrap()),
            std::fs::read_to_string(&path).unwrap(),
        )
    };
    paths.map(file).collect()
}

/// Returns the name of the file that an entry describes.
fn name(entry: &Entry) -> Option<PathBuf> {
    let path = entry.inputs.as_ref()?.get("path")?.as_str()?.into_owned();
    Some(PathBuf::from(Path::new(&path).file_name()?))
}

/// Returns the files that the state or a pending operation names, and the number of pending operations.
fn known(sandbox: &Sandbox) -> (BTreeSet<PathBuf>, usize) {
    // `up` was killed before it created the stack.
    if !sandbox.path().join(".state/names/default/default.json").exists() {
        return (BTreeSet::new(), 0);
    }
    sandbox.on_stack(async |stack| {
        let state = stack.tip().await.unwrap().state;
        let recorded = state.entries().filter_map(|entry| name(entry));
        let meant = state
            .pending()
            .filter_map(|operation| name(operation.entry.as_deref()?));
        (recorded.chain(meant).collect(), state.pending().count())
    })
}

/// Waits for a random time; in most cases only after `up` has reported a random number of finished steps.
fn wait(child: &mut Child, dice: &Dice) {
    let most = if dice.below(4) == 0 {
        100_000
    } else {
        let text = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut text = text.map_while(Result::ok);
        // The printed plan ends with a line of counts.
        let has_begun = text.any(|line| line.starts_with(|c: char| c.is_ascii_digit()));
        let steps = usize::try_from(dice.below(PAGES)).unwrap();
        // A round without changes reports no steps.
        if has_begun {
            text.take(steps).for_each(drop);
        }
        5_000
    };
    std::thread::sleep(Duration::from_micros(dice.below(most)));
}

/// Returns whether a file is known, or is the temporary file of a known file.
fn is_known(file: &Path, known: &BTreeSet<PathBuf>) -> bool {
    let is_staged = |known: &PathBuf| {
        let name = Digest::of(known.as_os_str().as_encoded_bytes()).short();
        file.to_str().unwrap().starts_with(&format!(".statectl-{name}-"))
    };
    known.contains(file) || known.iter().any(is_staged)
}

#[expect(clippy::print_stderr, reason = "prints the seed to replay a run")]
fn killed_at_random_moments(policy: &str, usual: u64) {
    let seed = std::env::var(SEED)
        .ok()
        .and_then(|seed| seed.parse().ok())
        .unwrap_or(usual);
    let replay = format!("replay with {SEED}={seed}");
    eprintln!("kill -9 of up, {policy}: {replay}");
    let dice = Dice(SeededEntropy::new(seed));
    let sandbox = Sandbox::new();
    let mut up = sandbox.command(&["up", "--yes"]);
    up.env("STATECTL_POLICY", policy)
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let out = sandbox.path().join("out");
    let (mut in_between, mut left_pending) = (0, 0);
    let rounds = u64::from(scaled(ROUNDS));
    for round in 1..=rounds {
        let replay = format!("round {round}, {replay}");
        let (text, wanted) = program(&dice, round);
        sandbox.write("state.yaml", text);
        let before = files(&out);
        let mut child = up.spawn().unwrap();
        wait(&mut child, &dice);
        child.kill().unwrap();
        child.wait().unwrap();
        let (known, pending) = known(&sandbox);
        left_pending += usize::from(pending > 0);
        let between = files(&out);
        for file in between.keys() {
            assert!(
                is_known(file, &known),
                "neither the state nor a pending operation names {}; {replay}",
                file.display()
            );
        }
        let mut again = sandbox.command(&["up", "--yes"]);
        let again = run(again.env("STATECTL_POLICY", policy));
        assert_eq!(again.code, 0, "{replay}: {again:#?}");
        let mut after = files(&out);
        in_between += u64::from(between != before && between != after);
        let password = after.remove(Path::new("secret"));
        assert_eq!(password.map(|password| password.len()), Some(20), "{replay}");
        assert_eq!(after, wanted, "{replay}");
    }
    eprintln!("{in_between} of {rounds} runs were killed midway, {left_pending} left operations pending");
    assert!(in_between > rounds / 10 && left_pending > 0, "{replay}");
    let settled = sandbox
        .run(&["pending", "list", "--json"])
        .exits(0)
        .data("pending-list");
    assert_eq!(settled, serde_json::json!([]));
    sandbox.run(&["verify", "--deep"]).exits(0);
    sandbox.run(&["destroy", "--yes"]).exits(0);
    assert!(!out.exists(), "{:?}", files(&out));
}

#[test]
fn up_killed_at_random_moments_loses_nothing_and_converges() {
    killed_at_random_moments("plaintext", 7);
}

#[test]
fn sealed_up_killed_at_random_moments_loses_nothing() {
    killed_at_random_moments("sensitive", 11);
}
