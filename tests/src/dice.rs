//! Randomness that can be replayed: the seed is printed by whoever draws from it.

use state_core::Entropy;
use state_core::testkit::clock::SeededEntropy;

/// The variable that replays a run.
const SEED: &str = "STATE_TESTS_SEED";

/// A source of random numbers.
#[derive(Debug)]
pub struct Dice(SeededEntropy);

impl Dice {
    /// The numbers of a seed.
    pub const fn new(seed: u64) -> Self {
        Self(SeededEntropy::new(seed))
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        let mut bytes = [0; 8];
        self.0.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// A number below `bound`; 0 when there is none.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.number().checked_rem(bound).unwrap_or(0)
    }

    /// An index of a slice of this length.
    pub fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).unwrap_or(0)
    }

    /// Whether a chance of one in `of` came up.
    pub fn one_in(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }
}

/// The seed of a test: the variable `STATE_TESTS_SEED`, else `usual`.
pub fn seed(usual: u64) -> u64 {
    std::env::var(SEED)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(usual)
}

/// How to see the same run again.
pub fn replay(seed: u64) -> String {
    format!("replay with {SEED}={seed}")
}
