//! What the world tells a state: the time, and random bits. Injected, so that logic is deterministic.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A moment as text, RFC 3339. Foreign moments keep their spelling; [`Clock::now`] writes UTC.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(Arc<str>);

impl Timestamp {
    /// Takes a spelling as it is. Whether it names a moment is for whoever computes with it to say.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// The spelling.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Timestamp({})", self.0)
    }
}

/// Where the time comes from.
pub trait Clock: fmt::Debug + Send + Sync {
    /// The wall clock: for records that people read, never for deciding who owns what.
    fn now(&self) -> Timestamp;

    /// Time since some fixed moment of this process; never goes back.
    fn elapsed(&self) -> Duration;
}

/// Where random bits come from.
pub trait Entropy: fmt::Debug + Send + Sync {
    /// Fills the slice with bits that nobody can guess.
    fn fill(&self, bytes: &mut [u8]);

    /// 128 random bits.
    fn bits(&self) -> [u8; 16] {
        let mut bits = [0; 16];
        self.fill(&mut bits);
        bits
    }
}
