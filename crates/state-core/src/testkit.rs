//! What tests of this crate, of backends and of callers share. Only with the feature `testkit`.

pub mod oracle;
pub mod strategy;
