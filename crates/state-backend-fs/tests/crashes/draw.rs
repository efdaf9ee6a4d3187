//! Random choices of a script, all determined by one seed.

use bytes::Bytes;
use state_core::environment::Entropy;
use state_core::testkit::clock::SeededEntropy;
use state_core::{Nonce, Slot};

/// A sequence of random choices.
#[derive(Debug)]
pub(crate) struct Draw(SeededEntropy);

impl Draw {
    pub(crate) fn new(seed: u64) -> Self {
        // Neighbouring seeds would give overlapping sequences.
        let start = SeededEntropy::new(seed);
        let mut bits = [0; 8];
        start.fill(&mut bits);
        Self(SeededEntropy::new(u64::from_le_bytes(bits)))
    }

    /// A number below `end`.
    pub(crate) fn below(&self, end: usize) -> usize {
        let mut bits = [0; 8];
        self.0.fill(&mut bits);
        (u64::from_le_bytes(bits) % end as u64) as usize
    }

    /// True once in this number of times.
    pub(crate) fn one_in(&self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub(crate) fn bits(&self) -> [u8; 16] {
        self.0.bits()
    }

    pub(crate) fn nonce(&self) -> Nonce {
        Nonce::from_bits(self.bits())
    }

    pub(crate) fn bytes(&self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.0.fill(&mut bytes);
        bytes
    }

    /// Length of a frame's payload or an object: mostly within one small sector, sometimes over several large ones.
    pub(crate) fn length(&self) -> usize {
        match self.below(8) {
            0..=4 => 1 + self.below(400),
            5 | 6 => 400 + self.below(1_500),
            _ => 4_000 + self.below(6_000),
        }
    }

    pub(crate) fn object(&self, slot: Slot) -> (state_core::backend::ObjectName, Bytes) {
        use state_core::Serial;
        use state_core::backend::ObjectName;
        let number = self.below(1 << 40) as u64;
        let name = match self.below(4) {
            0 => ObjectName::Snapshot {
                slot,
                short: format!("{number:016x}"),
            },
            1 => ObjectName::HistoryPage {
                first: Serial(number),
                short: format!("{number:016x}"),
            },
            2 => ObjectName::Log(Serial(number)),
            _ => ObjectName::Outputs(Serial(number)),
        };
        (name, self.bytes(self.length()).into())
    }
}
