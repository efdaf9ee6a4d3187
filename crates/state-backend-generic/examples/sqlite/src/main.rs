//! A backend that stores stacks in an SQLite file. The program tests it against the contract:
//!
//! ```sh
//! cargo run --manifest-path crates/state-backend-generic/examples/sqlite/Cargo.toml
//! ```

mod store;

use state_core::testkit::clock::SeededEntropy;
use state_core::testkit::conformance::{self, Verdict};
use std::cell::Cell;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let folder = tempfile::tempdir().expect("there is a folder for temporary files");
    let results = test_contract(folder.path());
    for (rule, verdict) in &results {
        match verdict {
            Ok(()) => println!("ok      {rule}"),
            Err(violation) => println!("FAILED  {rule}: {violation}"),
        }
    }
    if results.iter().all(|(_, verdict)| verdict.is_ok()) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Runs every rule of the contract on a file of its own, and the rules of the claimed capabilities with several
/// handles to one file.
fn test_contract(folder: &Path) -> Vec<(&'static str, Verdict)> {
    let entropy = SeededEntropy::new(1);
    let files = Cell::new(0);
    let open_new = async || {
        files.set(files.get() + 1);
        store::open(&folder.join(format!("rule-{}.db", files.get()))).expect("the file opens")
    };
    let open = async |place: u32| store::open(&folder.join(format!("{place}.db"))).expect("the file opens");
    block_on(async {
        let mut results = conformance::run_all(open_new, &entropy).await;
        results.extend(conformance::capabilities::run_all(open, &entropy).await);
        results
    })
}

fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.expect("a runtime starts").block_on(future)
}

#[cfg(test)]
mod tests {
    use super::*;
    use state_core::Backend;
    use state_core::testkit::conformance::Bench;
    use std::sync::Barrier;
    use std::thread;

    #[test]
    fn sqlite_backend_keeps_every_rule() {
        let folder = tempfile::tempdir().unwrap();
        let results = test_contract(folder.path());
        assert!(results.len() > 25);
        conformance::expect_all(&results);
    }

    /// Several handles race for the lock. At most one wins, and the losers must not release its lock.
    #[test]
    fn racing_takeovers_leave_one_lock() {
        const HANDLES: u64 = 4;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("race.db");
        for round in 0..20 {
            let entropy = SeededEntropy::new(round);
            let judge = store::open(&file).unwrap();
            let lineage = block_on(Bench::new(&judge, &entropy).stack()).unwrap();
            let start = Barrier::new(HANDLES as usize);
            let held: Vec<_> = thread::scope(|scope| {
                let race = |handle: u64| {
                    let (file, start) = (&file, &start);
                    scope.spawn(move || {
                        let (handle_entropy, backend) = (
                            SeededEntropy::new(1_000 * (handle + 1) + round),
                            store::open(file).unwrap(),
                        );
                        start.wait();
                        let bench = Bench::new(&backend, &handle_entropy);
                        block_on(bench.acquire(lineage, &format!("handle {handle}"))).ok()
                    })
                };
                let racing: Vec<_> = (0..HANDLES).map(race).collect();
                racing
                    .into_iter()
                    .filter_map(|handle| handle.join().unwrap())
                    .collect()
            });
            assert!(held.len() <= 1, "{} handles hold the lock", held.len());
            if let [winner] = &held[..] {
                let status = block_on(judge.lock_status(lineage)).unwrap();
                assert!(status.holder.is_some(), "a loser freed the winner's lock");
                block_on(winner.writer.check()).unwrap();
            }
        }
    }
}
