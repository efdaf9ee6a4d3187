//! The laws at the file backend: revisions never change, and every prefix of a journal is an acknowledged state.

use super::driver::{Checked, Driver, environment, failed, run};
use super::strategies::histories;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use state_backend_fs::FsBackend;
use state_core::testkit::oracle;
use state_core::testkit::run::property_config;
use state_core::{Frame, Slot, State};
use state_manager::Stacks;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Maximum number of actions; fewer than elsewhere, because each action syncs files.
const ACTIONS: usize = 16;

proptest! {
    #![proptest_config(property_config())]

    #[test]
    fn revisions_in_files_never_change(history in histories(ACTIONS)) {
        run(async {
            let folder = folder()?;
            let mut driver = Driver::new(Arc::new(FsBackend::create(folder.path()).map_err(failed)?)).await?;
            for action in &history {
                driver.act(action).await?;
            }
            driver.reader().inspect_revisions().await
        })?;
    }

    #[test]
    fn every_journal_prefix_in_files_is_an_acknowledged_state(history in histories(ACTIONS)) {
        run(async {
            let folder = folder()?;
            let store = folder.path().join("store");
            let mut driver = Driver::new(Arc::new(FsBackend::create(&store).map_err(failed)?)).await?;
            for action in &history {
                driver.act(action).await?;
            }
            // Copy the store while the session is open. A close would record the end of the journal, and readers would
            // report each shorter journal as damaged.
            let copy = folder.path().join("copy");
            copy_tree(&store, &copy)?;
            let shown = |slot: Slot| {
                let states = driver.reader().shown();
                let found = states.range(..=slot).next_back();
                found.map_or_else(|| State::new(driver.session().state().lineage()), |(_, state)| (**state).clone())
            };
            cut_frame_by_frame(&copy, &shown).await
        })?;
    }
}

/// Truncates the last segment after each of its frames, newest frame first: once 17 bytes after the end of the frame,
/// and once at its end. In both cases a reader must see the state that the session had after that frame, which `shown`
/// returns for the slot after the frame.
async fn cut_frame_by_frame(store: &Path, shown: &impl Fn(Slot) -> State) -> Checked {
    let (segment, first) = last_segment(store)?;
    let whole = fs::read(&segment).map_err(broken)?;
    let name = "shop/production".parse().map_err(failed)?;
    for (end, slot) in ends(&whole, first).into_iter().rev() {
        let torn = (end + 17).min(whole.len());
        for length in [torn, end] {
            fs::write(&segment, &whole[..length]).map_err(broken)?;
            let stacks = Stacks::new(Arc::new(FsBackend::open(store).map_err(failed)?), environment());
            let stack = stacks.get(&name).await.map_err(failed)?;
            let stack = stack.ok_or_else(|| TestCaseError::fail("the stack is missing"))?;
            let tip = stack.tip().await.map_err(failed)?;
            let entries: Vec<_> = tip.state.entries().cloned().collect();
            prop_assert!(oracle::is_topological(&entries));
            prop_assert!(
                *tip.state == shown(slot.next()),
                "another state after slot {slot}, in a segment of {length} bytes"
            );
        }
    }
    Ok(())
}

/// Returns the end offset and the slot of each frame in a segment, which may end in preallocated space. `first` is the slot of
/// the first frame, the fence.
fn ends(segment: &[u8], first: Slot) -> Vec<(usize, Slot)> {
    let mut found = Vec::new();
    let (mut end, mut slot) = (0, first);
    // Preallocated space holds at most seven bytes that aren't zero.
    while segment[end..].iter().skip(7).any(|byte| *byte != 0) {
        end += Frame::extent(&segment[end..]);
        found.push((end, slot));
        slot = slot.next();
    }
    found
}

/// Returns the last segment (a file with consecutive frames of the journal), which the session still writes, and the
/// slot of its first frame.
fn last_segment(store: &Path) -> Result<(PathBuf, Slot), TestCaseError> {
    let stacks = listed(&store.join("stacks"))?;
    let journal = stacks.first().map(|stack| stack.join("journal"));
    let journal = journal.ok_or_else(|| TestCaseError::fail("there is no stack"))?;
    let last = listed(&journal)?.pop();
    let last = last.ok_or_else(|| TestCaseError::fail("there is no segment"))?;
    let name = last
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let slot = name.split('-').next().and_then(|slot| slot.parse().ok());
    let slot = slot.ok_or_else(|| TestCaseError::fail(format!("not a segment: {name}")))?;
    Ok((last, Slot(slot)))
}

fn listed(folder: &Path) -> Result<Vec<PathBuf>, TestCaseError> {
    let mut paths = Vec::new();
    for file in fs::read_dir(folder).map_err(broken)? {
        paths.push(file.map_err(broken)?.path());
    }
    paths.sort();
    Ok(paths)
}

fn copy_tree(from: &Path, to: &Path) -> Checked {
    fs::create_dir_all(to).map_err(broken)?;
    for path in listed(from)? {
        let target = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            copy_tree(&path, &target)?;
        } else {
            fs::copy(&path, &target).map_err(broken)?;
        }
    }
    Ok(())
}

/// Creates a temporary folder, in memory if `/dev/shm` exists. The laws concern only the content of files, and syncs to
/// a disk would take most of the time.
pub(crate) fn folder() -> Result<tempfile::TempDir, TestCaseError> {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() {
        tempfile::tempdir_in(memory)
    } else {
        tempfile::tempdir()
    };
    made.map_err(broken)
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "`map_err` passes the error by value"
)]
pub(crate) fn broken(error: std::io::Error) -> TestCaseError {
    TestCaseError::fail(error.to_string())
}
