//! Reproducible random numbers. A failing test prints the seed, so that its run can be repeated.

use state_core::Entropy;
use state_core::testkit::clock::SeededEntropy;

/// The environment variable that sets the seed.
const SEED: &str = "STATE_TESTS_SEED";

/// A source of random numbers.
#[derive(Debug)]
pub struct Dice(SeededEntropy);

impl Dice {
    /// Creates a source whose numbers follow from the seed.
    pub const fn new(seed: u64) -> Self {
        Self(SeededEntropy::new(seed))
    }

    /// Draws a number from all values of `u64`.
    pub fn number(&mut self) -> u64 {
        let mut bytes = [0; 8];
        self.0.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// Draws a number below `bound`; returns 0 if `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.number().checked_rem(bound).unwrap_or(0)
    }

    /// Draws an index of a slice of this length.
    pub fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).unwrap_or(0)
    }

    /// Returns true with a probability of one in `of`.
    pub fn one_in(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }
}

/// Returns the seed of a test: the value of `STATE_TESTS_SEED`, or `default` if the variable isn't set to a number.
pub fn seed(default: u64) -> u64 {
    std::env::var(SEED)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

/// Returns the message that describes how to repeat the run with this seed.
pub fn replay(seed: u64) -> String {
    format!("replay with {SEED}={seed}")
}
