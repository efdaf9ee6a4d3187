//! Laws and scenarios across crates; the tests are in `suite/`.

pub mod dice;
pub mod large;
pub mod line;
pub mod workload;
