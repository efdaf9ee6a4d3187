//! For the tests of backends and of whatever stands on them, ours and yours (feature `testkit`).

pub mod clock;
pub mod conformance;
pub mod encodings;
pub mod fault;
pub mod hostile;
pub mod key;
pub mod oracle;
pub mod run;
pub mod strategy;
