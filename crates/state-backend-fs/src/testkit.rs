//! For tests (feature `testkit`): a machine whose crashes can be enumerated, and an attacker under the store.

mod crash;
mod disk;
mod hostile;
mod simulated;

pub use crash::{CrashImage, CrashPoint};
pub use hostile::HostileFs;
pub use simulated::SimulatedFs;
