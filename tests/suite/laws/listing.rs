//! The laws at the command line: `statectl list` prints the resources in the order of the state.

use super::driver::{Driver, failed, run};
use super::files::{broken, folder};
use super::strategies::histories;
use crate::process::WORKER;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use serde_json::Value;
use state_backend_fs::FsBackend;
use state_core::testkit::oracle;
use state_core::testkit::run::property_config;
use state_core::{Address, DeposedKey, EntryKey, SharedEntry, State};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

/// Maximum number of actions; low, because each case starts a process and checks only the final state.
const ACTIONS: usize = 12;

proptest! {
    #![proptest_config(property_config())]

    #[test]
    fn statectl_list_prints_dependencies_first(history in histories(ACTIONS)) {
        run(async {
            let folder = folder()?;
            let mut driver = Driver::new(Arc::new(FsBackend::create(folder.path()).map_err(failed)?)).await?;
            for action in &history {
                driver.act(action).await?;
            }
            let listed = listed(folder.path(), "shop/production")?;
            let state = driver.session().state();
            let entries = entries_of(&state, &listed)?;
            prop_assert!(oracle::is_topological(&entries));
            prop_assert!(state.entries().eq(&entries), "the command lists another order than the state: {:?}", listed);
            Ok(())
        })?;
    }
}

/// Returns the keys of the entries that `statectl list --json` prints, in its order.
fn listed(store: &Path, stack: &str) -> Result<Vec<EntryKey>, TestCaseError> {
    let backend = format!("file://{}", store.display());
    let mut command = Command::new(WORKER);
    // Ignore the known stacks of the user who runs the test.
    command.env("HOME", "").env("XDG_STATE_HOME", "");
    let arguments = ["cli", "list", "--json", "--stack", stack, "--backend", &backend];
    let output = command.args(arguments).output().map_err(broken)?;
    let stdout = String::from_utf8_lossy(&output.stdout);
    prop_assert!(output.status.success(), "{}", stdout);
    let document: Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| TestCaseError::fail(format!("not JSON: {error}")))?;
    let entries = document["data"]["entries"].as_array();
    let entries = entries.ok_or_else(|| TestCaseError::fail("there is no list of entries"))?;
    entries
        .iter()
        .map(|entry| {
            let address = entry["address"].as_str().unwrap_or_default();
            let deposed = entry["deposed"].as_str().map(DeposedKey::new).transpose();
            Ok(EntryKey {
                address: Address::new(address).map_err(failed)?,
                deposed: deposed.map_err(failed)?,
            })
        })
        .collect()
}

fn entries_of(state: &State, keys: &[EntryKey]) -> Result<Vec<SharedEntry>, TestCaseError> {
    let entry = |key| {
        let entry = state.entry(key).cloned();
        entry.ok_or_else(|| TestCaseError::fail(format!("{key} is listed but not in the state")))
    };
    keys.iter().map(entry).collect()
}
