//! Test support for backends and for the crates above them (feature `testkit`): a conformance suite, fault injection,
//! an attacker model, clocks and generators.

pub mod clock;
pub mod conformance;
pub mod encodings;
pub mod fault;
pub mod hostile;
pub mod key;
pub mod oracle;
pub mod run;
pub mod server;
pub mod stored;
pub mod strategy;
