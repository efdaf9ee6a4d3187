//! Shows that the judge can fail: each test plants one wrong result into an honest run.

use super::commands::Command;
use super::judge::Judge;
use super::scenario::{CANARY, Client, MALLORY, Run, Scenario};
use super::server::wait;
use state_backend_object_store::object_store::ObjectStoreExt;
use state_backend_object_store::object_store::path::Path;
use state_core::{Enveloped, Head};

/// A scenario with its judge.
struct Bench {
    scenario: Scenario,
    judge: Judge,
}

impl Bench {
    fn new() -> Self {
        let scenario = Scenario::build();
        let judge = Judge::new(&scenario);
        Self { scenario, judge }
    }

    /// Plants a result into an honest run. Panics unless the judge accepts the honest run, and reports a rule with this
    /// text for the planted result.
    #[track_caller]
    fn reports(&self, command: Command, client: Client, expected: &str, plant: impl FnOnce(&mut Run)) {
        let last = self.scenario.stages.len() - 1;
        let mut run = self.scenario.run(last, command, client, Vec::new());
        let judge = |run: &Run| self.judge.judge(&self.scenario, command, client, run);
        assert_eq!(judge(&run), [""; 0], "{command:?}");
        plant(&mut run);
        let broken = judge(&run);
        assert!(
            broken.iter().any(|rule| rule.contains(expected)),
            "{command:?}: {expected:?} is missing: {broken:?}"
        );
    }
}

#[test]
fn judge_reports_planted_answers_exit_codes_and_secrets() {
    let bench = Bench::new();
    for client in Client::ALL {
        bench.reports(Command::Show, client, "no honest run answers", |run| {
            run.stdout = run.stdout.replace("note 3", "note 9");
        });
        bench.reports(Command::History, client, "foreign content on stdout", |run| {
            run.stdout.push_str(MALLORY);
        });
        bench.reports(Command::List, client, "a sealed value is printed", |run| {
            run.stderr.push_str(CANARY);
        });
        bench.reports(Command::Taint, client, "exit code", |run| run.code = Some(101));
    }
    // The values of an earlier stage are true, but the client knows that they are old.
    bench.reports(
        Command::Outputs,
        Client::Remembering,
        "no honest run answers",
        |run| {
            run.stdout = run.stdout.replace("note 3", "note 2");
        },
    );
}

#[test]
fn judge_reports_planted_memory() {
    let bench = Bench::new();
    let (lineage, other) = (
        bench.scenario.lineage.to_string(),
        bench.scenario.other.to_string(),
    );
    let seen = |run: &Run| {
        let root = run.folder.path().join("memory/statectl/seen");
        let store = std::fs::read_dir(root).expect("a memory").flatten().next();
        store.expect("a known store").path()
    };
    let edit = |run: &Run, file: &str, edit: &dyn Fn(String) -> String| {
        let path = seen(run).join(file);
        let text = std::fs::read_to_string(&path).expect("a pin");
        std::fs::write(path, edit(text)).expect("the pin is written");
    };
    let pin = format!("stacks/{lineage}.json");
    let reports = |expected, plant: &dyn Fn(&Run)| {
        bench.reports(Command::List, Client::Remembering, expected, |run| plant(run));
    };
    reports("is the stack", &|run| {
        edit(run, "names/tests/stack", &|_| other.clone());
    });
    reports("remembered: key of", &|run| {
        edit(run, &pin, &|text| text.replacen("\"key\":\"", "\"key\":\"0", 1));
    });
    reports("at an earlier serial", &|run| {
        edit(run, &pin, &|text| {
            text.replacen("\"serial\":7", "\"serial\":6", 1)
        });
    });
    reports("forgotten", &|run| {
        std::fs::remove_file(seen(run).join(&pin)).expect("a pin");
    });
}

#[test]
fn judge_reports_planted_heads_and_plain_secrets() {
    let bench = Bench::new();
    let path = bench.scenario.head();
    let record = |run: &Run, object: &str, bytes: Vec<u8>| {
        let content = bytes::Bytes::from(bytes);
        run.bucket.attacker.record(object, Some(content.clone()));
        let path = Path::from(object);
        wait(run.bucket.store.put(&path, content.into())).expect("a store in memory is writable");
    };
    let sign = |run: &Run, change: &dyn Fn(&mut Head)| {
        let versions = run.bucket.attacker.versions(&path);
        let bytes = versions.last().cloned().flatten().expect("a head");
        let mut head = Head::decode(&path, &bytes).expect("a valid head");
        change(&mut head);
        let key = head.key_id.and_then(|id| bench.scenario.honest.get(&id));
        head.sign(&**key.expect("an honest key"));
        record(run, &path, head.encode());
    };
    let add = |head: &mut Head| {
        let keys = head.keys.as_mut().expect("a sealed stack");
        keys.recipients.push(MALLORY.to_owned());
    };
    for client in Client::ALL {
        for expected in ["is signed: recipients", "the next reader"] {
            bench.reports(Command::Taint, client, expected, |run| sign(run, &add));
        }
        bench.reports(Command::Taint, client, "in clear", |run| {
            let object = format!("stacks/{}/planted", bench.scenario.lineage);
            record(run, &object, CANARY.into());
        });
    }
}
