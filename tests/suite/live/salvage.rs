//! Damaged stores on real servers: `verify --deep` lists the damage, `salvage` ends in a stack that works, the surviving
//! revisions are exported byte for byte, and no second stack is created beside an orphaned one.

use super::{CommandOutput, run, servers, statectl, unique_url};
use crate::store::block_on;
use bytes::Bytes;
use state_core::backend::{Backend, Opening};
use state_manager::{BackendRegistry, StoreRequest};
use state_tests::large::terraform_state;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// A store with 6 revisions, and its client.
struct Store {
    url: String,
    home: tempfile::TempDir,
    /// The state at each revision.
    exports: BTreeMap<String, String>,
}

impl Store {
    fn new(server: &str) -> Self {
        let mut store = Self {
            url: unique_url(server),
            home: tempfile::tempdir().expect("a folder"),
            exports: BTreeMap::new(),
        };
        store.run(&["init"]).exits(0);
        store.import().exits(0);
        let listed = store.run(&["list"]).exits(0).out;
        let first = listed.lines().next().expect("a resource");
        for command in ["taint", "untaint", "taint", "untaint", "taint"] {
            store.run(&[command, first, "--yes"]).exits(0);
        }
        for number in 1..=6 {
            let revision = number.to_string();
            let export = store.export(&revision).exits(0).out;
            store.exports.insert(revision, export);
        }
        store
    }

    fn run(&self, arguments: &[&str]) -> CommandOutput {
        let mut command = statectl(&["--backend", &self.url]);
        command.env("STATECTL_POLICY", "plaintext");
        command.env("XDG_STATE_HOME", self.home.path()).args(arguments);
        run(&mut command)
    }

    fn import(&self) -> CommandOutput {
        let state: PathBuf = self.home.path().join("terraform.tfstate");
        std::fs::write(&state, terraform_state(100)).expect("a file");
        self.run(&["import", state.to_str().expect("a path of plain text")])
    }

    fn export(&self, revision: &str) -> CommandOutput {
        self.run(&["export", "--at", revision, "--show-secrets"])
    }

    fn backend(&self) -> Arc<dyn Backend> {
        let request = StoreRequest::new(&self.url);
        let opened = BackendRegistry::default().open(&request, Opening::Existing);
        opened.expect("the store opens")
    }

    fn keys(&self) -> Vec<String> {
        block_on(async {
            let backend = self.backend();
            let objects = backend.repairable().expect("the store can be repaired");
            let mut keys = objects.list_objects("stacks").await.expect("a list");
            keys.extend(objects.list_objects("names").await.expect("a list"));
            keys
        })
    }

    /// Removes or zeroes the object at a key.
    fn damage(&self, key: &str, removed: bool) {
        block_on(async {
            let backend = self.backend();
            let objects = backend.repairable().expect("the store can be repaired");
            let before = objects.read_object(key).await.expect("an answer");
            let before = before.expect("the object exists");
            let zeros = Bytes::from(vec![0; before.len()]);
            let damaged = match removed {
                true => objects.delete_object(key, &before).await,
                false => objects.replace_object(key, &before, &zeros).await,
            };
            damaged.expect("the object is damaged");
        });
    }

    fn is_deeply_intact(&self) -> bool {
        self.run(&["verify", "--deep"]).code == 0
    }
}

/// The first key that contains a text; the last one for the journal.
fn key_of(keys: &[String], text: &str) -> String {
    let mut matching = keys.iter().filter(|key| key.contains(text));
    let found = match text {
        "/journal/" => matching.next_back(),
        _ => matching.next(),
    };
    found.unwrap_or_else(|| panic!("no {text} in {keys:?}")).clone()
}

#[test]
fn damaged_store_on_a_server_is_salvaged() {
    for server in servers() {
        for (text, removed, lost) in [
            ("head.json", true, 0),
            ("head.json", false, 0),
            ("meta.json", true, 0),
            ("lease.json", false, 0),
            ("/journal/", true, 1),
            ("/journal/", false, 1),
            ("/snapshots/", false, 6),
        ] {
            let store = Store::new(&server);
            let key = key_of(&store.keys(), text);
            store.damage(&key, removed);
            let case = format!("{key} on {server}, removed: {removed}");
            let verified = store.run(&["verify", "--deep"]);
            assert_eq!(verified.code, 14, "{case}: {verified:#?}");
            assert!(
                verified.out.contains(&key) || verified.err.contains(&key),
                "{case}: {verified:#?}"
            );
            let salvaged = store.run(&["salvage", "--yes"]);
            let mut surviving = 0;
            for (revision, export) in &store.exports {
                let read = store.export(revision);
                if read.code == 0 {
                    assert_eq!(&read.out, export, "{case}: revision {revision}");
                    surviving += 1;
                }
            }
            assert!(
                surviving + lost >= 6,
                "{case}: {surviving} survive; {salvaged:#?}"
            );
            if lost < 6 {
                assert_eq!(salvaged.code, 0, "{case}: {salvaged:#?}");
                assert!(store.is_deeply_intact(), "{case}");
                let listed = store.run(&["list"]).exits(0).out;
                let first = listed.lines().next().expect("a resource").to_owned();
                store.run(&["protect", &first, "--yes"]).exits(0);
            }
        }
    }
}

#[test]
fn orphan_on_a_server_is_named_before_a_second_stack_is_created() {
    for server in servers() {
        let store = Store::new(&server);
        let key = key_of(&store.keys(), "names/");
        store.damage(&key, true);
        // This client doesn't know the stack.
        let stranger = Store {
            url: store.url.clone(),
            home: tempfile::tempdir().expect("a folder"),
            exports: BTreeMap::new(),
        };
        let refused = stranger.import().exits(13);
        assert!(
            refused.err.contains("last known name: default") && refused.err.contains("salvage --attach"),
            "{refused:#?}"
        );
        store.run(&["salvage", "--yes"]).exits(0);
        for (revision, export) in &store.exports {
            assert_eq!(
                &store.export(revision).exits(0).out,
                export,
                "revision {revision}"
            );
        }
        assert!(store.is_deeply_intact());
    }
}
