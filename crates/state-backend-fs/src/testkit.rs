//! Tools for tests (feature `testkit`): a machine whose crashes can be enumerated, and an attacker who edits the
//! store's files.

mod crash;
mod disk;
mod hostile;
mod simulated;

pub use crash::{CrashImage, CrashPoint};
pub use hostile::HostileFs;
pub use simulated::SimulatedFs;
