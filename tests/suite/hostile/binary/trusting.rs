//! `statectl trust` while an attacker exchanges the stack between two of its requests: the user decides by what was
//! printed, so nothing else may be accepted, pinned or forgotten.

use super::scenario::{Client, STACK, Scenario, write_private};
use super::server::{Bucket, image, wait};
use bytes::Bytes;
use state_backend_object_store::object_store::ObjectStoreExt;
use state_backend_object_store::object_store::memory::InMemory;
use state_backend_object_store::object_store::path::Path;
use state_core::testkit::hostile::{Action, Intervention};
use state_core::{KeyId, Lineage};
use state_encrypt::generate_identity;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use tempfile::TempDir;

/// The path of the name pointer that the attacker exchanges.
const POINTER: &str = "names/tests/stack.json";

/// The store of the scenario, to which the attacker added a stack of their own, sealed for the user as well.
struct Planted {
    scenario: Scenario,
    store: InMemory,
    /// The lineage and the pointer of the attacker's stack.
    foreign: Lineage,
    pointer: Bytes,
    /// The pointer of the user's stack, and its key.
    honest: Bytes,
    key: KeyId,
}

/// What a run of `trust` returned, and the files in which the client remembers.
struct Trusted {
    code: Option<i32>,
    stdout: String,
    stderr: String,
    requests: usize,
    memory: BTreeMap<PathBuf, String>,
}

impl Planted {
    fn new() -> Self {
        let scenario = Scenario::build();
        let head = scenario.last().head(scenario.lineage).expect("a head");
        let user = head.keys.as_ref().expect("keys").recipients[0].clone();
        let folder = scenario.client(Client::Remembering);
        let identity = generate_identity();
        write_private(
            &folder.path().join("config/statectl/identity.txt"),
            identity.file(),
        );
        std::fs::remove_dir_all(folder.path().join("memory")).expect("a memory");
        let bucket = scenario.server.open(InMemory::new());
        let up = [
            "up",
            "state.yaml",
            "--config",
            "token=@token",
            "--config",
            "tag=forged",
        ];
        for arguments in [&up[..], &["recipients", "add", &user]] {
            let arguments = [arguments, &["--stack", STACK]].concat();
            let (code, _, stderr) = scenario.execute(folder.path(), &bucket.key, &arguments);
            assert_eq!(code, Some(0), "{stderr}");
        }
        scenario.server.close(&bucket);
        let forged = image(&bucket.store);
        let store = scenario.stages[scenario.stages.len() - 1].fork();
        for (path, bytes) in forged.below("stacks/") {
            let path = Path::from(path);
            wait(store.put(&path, bytes.clone().into())).expect("a store in memory is writable");
        }
        let first = forged.below("stacks/").next().expect("a stack").0;
        let foreign = first
            .split('/')
            .nth(1)
            .expect("a lineage")
            .parse()
            .expect("a lineage");
        let pointer = |(path, bytes): (&str, &Bytes)| (path == POINTER).then(|| bytes.clone());
        let honest = scenario.last().iter().find_map(pointer).expect("a pointer");
        Self {
            pointer: forged.iter().find_map(pointer).expect("a pointer"),
            honest,
            foreign,
            key: head.key_id.expect("a sealed stack"),
            store,
            scenario,
        }
    }

    /// Runs `trust` with these arguments, with the memory of a client.
    fn run(&self, client: Client, arguments: &[&str], plan: Vec<Intervention>) -> Trusted {
        let folder = self.scenario.client(client);
        let bucket: Arc<Bucket> = self.scenario.server.open(self.store.fork());
        bucket.attacker.plan(plan);
        let arguments = [&["trust"], arguments, &["--stack", STACK]].concat();
        let (code, stdout, stderr) = self.scenario.execute(folder.path(), &bucket.key, &arguments);
        self.scenario.server.close(&bucket);
        Trusted {
            code,
            stdout,
            stderr,
            requests: bucket.attacker.requests().len(),
            memory: files(&folder),
        }
    }

    /// The plans of the attacker for a run with so many requests: the name leads elsewhere from a request on, only
    /// before it, or only during one request.
    fn plans(&self, requests: usize, elsewhere: &Action) -> Vec<Vec<Intervention>> {
        let away = |at| Intervention::new(at, POINTER, elsewhere.clone());
        let back = |at| Intervention::new(at, POINTER, Action::Replace(self.honest.clone()));
        let at_each = (0..requests).flat_map(|at| {
            let plans = [
                vec![away(at)],
                vec![away(0), back(at + 1)],
                vec![away(at), back(at + 1)],
            ];
            plans.into_iter()
        });
        at_each.collect()
    }

    fn remembers_foreign(&self, trusted: &Trusted) -> bool {
        let foreign = self.foreign.to_string();
        let key = self.key.to_string();
        trusted.memory.iter().any(|(path, content)| {
            // A user who pinned the key may have pinned it for the attacker's lineage, which doesn't have it.
            let is_pin = path.to_string_lossy().contains(&foreign) && !content.contains(&key);
            is_pin || content.trim() == foreign
        })
    }
}

/// The files in which a client remembers stacks, with their content.
fn files(folder: &TempDir) -> BTreeMap<PathBuf, String> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.path().join("memory")];
    while let Some(next) = folders.pop() {
        for child in std::fs::read_dir(next).into_iter().flatten().flatten() {
            let path = child.path();
            match path.is_dir() {
                true => folders.push(path),
                false => drop(files.insert(path.clone(), std::fs::read_to_string(path).unwrap_or_default())),
            }
        }
    }
    files
}

#[test]
fn trust_of_a_key_pins_no_stack_of_another_key() {
    let planted = Planted::new();
    let key = planted.key.to_string();
    let honest = planted.run(Client::New, &["--key", &key], Vec::new());
    assert_eq!(honest.code, Some(0), "{}", honest.stderr);
    assert!(!honest.memory.is_empty(), "nothing is remembered");
    for plan in planted.plans(honest.requests, &Action::Replace(planted.pointer.clone())) {
        let trusted = planted.run(Client::New, &["--key", &key], plan.clone());
        let described = format!(
            "{plan:?}: {:?} {} {}",
            trusted.code, trusted.stdout, trusted.stderr
        );
        assert!(
            !planted.remembers_foreign(&trusted),
            "{described}\n{:?}",
            trusted.memory
        );
        assert!(trusted.code.is_some_and(|code| code != 101), "{described}");
    }
}

#[test]
fn trust_accepts_only_the_stack_that_it_printed() {
    let planted = Planted::new();
    let honest = planted.run(Client::Remembering, &["--accept"], Vec::new());
    assert_eq!(honest.code, Some(0), "{}", honest.stderr);
    let mut accepted = 0;
    for plan in planted.plans(honest.requests, &Action::Replace(planted.pointer.clone())) {
        let trusted = planted.run(Client::Remembering, &["--accept"], plan.clone());
        let described = format!(
            "{plan:?}: {:?} {} {}",
            trusted.code, trusted.stdout, trusted.stderr
        );
        let printed = trusted.stdout.contains(&planted.foreign.to_string());
        let is_accepted = trusted.code == Some(0) && printed;
        assert!(
            is_accepted || !planted.remembers_foreign(&trusted),
            "{described}\n{:?}",
            trusted.memory
        );
        accepted += usize::from(is_accepted);
    }
    assert!(accepted > 0, "the attacker's stack is never accepted");
}

#[test]
fn trust_forgets_only_a_stack_that_stays_missing() {
    let planted = Planted::new();
    let honest = planted.run(Client::Remembering, &["--accept"], Vec::new());
    let gone = Intervention::new(0, POINTER, Action::Delete);
    let missing = planted.run(Client::Remembering, &["--accept"], vec![gone]);
    assert_eq!(missing.code, Some(0), "{}", missing.stderr);
    let name = |trusted: &Trusted| {
        let lineage = planted.scenario.lineage.to_string();
        trusted.memory.values().any(|content| content.trim() == lineage)
    };
    assert!(!name(&missing), "the missing stack stays remembered");
    for plan in planted.plans(honest.requests.max(missing.requests), &Action::Delete) {
        // The client asks for the name more than once before it forgets a stack.
        let is_back = plan.len() > 1 && plan[1].at == plan[0].at + 1;
        let trusted = planted.run(Client::Remembering, &["--accept"], plan.clone());
        let described = format!(
            "{plan:?}: {:?} {} {}",
            trusted.code, trusted.stdout, trusted.stderr
        );
        assert!(!is_back || name(&trusted), "{described}");
    }
}
