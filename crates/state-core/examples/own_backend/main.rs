//! A backend of one's own over a store that knows two things: create a key once, and replace it if nobody else did.
//!
//! Many stores can do no more: object stores, etcd, a table of a database. The guide `write your own backend` in
//! the documentation of `state-core` walks through these files. Run it, and it proves itself:
//!
//! ```sh
//! cargo run -p state-core --features testkit --example own_backend
//! ```

mod backend;
mod journal;
mod shelf;
mod writer;

use backend::ShelfBackend;
use shelf::Shelf;
use state_core::testkit::clock::SeededEntropy;
use state_core::testkit::conformance::{self, Verdict};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::pin::pin;
use std::process::ExitCode;
use std::task::{Context, Poll, Waker};

fn main() -> ExitCode {
    let results = prove();
    let broken = results.iter().filter(|(_, verdict)| verdict.is_err()).count();
    let mut told = String::new();
    for (rule, verdict) in &results {
        match verdict {
            Ok(()) => told.push_str(&format!("kept    {rule}\n")),
            Err(how) => told.push_str(&format!("BROKEN  {rule}: {how}\n")),
        }
    }
    if std::io::Write::write_all(&mut std::io::stdout(), told.as_bytes()).is_err() || broken > 0 {
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Every rule of the contract, and every claim.
fn prove() -> Vec<(&'static str, Verdict)> {
    let entropy = SeededEntropy::new(1);
    let rules = conformance::run_all(async || ShelfBackend::new(Shelf::default()), &entropy);
    let mut results = block_on(rules);
    // Places outlive their handles, as the server would that this shelf stands for.
    let places: RefCell<BTreeMap<u32, Shelf>> = RefCell::default();
    let open = async |place| ShelfBackend::new(places.borrow_mut().entry(place).or_default().clone());
    results.extend(block_on(conformance::capabilities::run_all(open, &entropy)));
    results
}

/// Nothing here ever waits, so a runtime isn't needed.
fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_backend_of_the_guide_keeps_every_rule() {
        let results = super::prove();
        assert!(results.len() > 25);
        state_core::testkit::conformance::expect_all(&results);
    }
}
