//! Uniform random selection: a number that would bias the result is rejected and drawn again.

use state_core::Entropy;
use std::fmt::Write;

/// One character class of a password.
pub(super) struct Alphabet {
    pub(super) characters: Vec<char>,
    /// Minimum number of characters of this class.
    pub(super) least: usize,
}

/// Draws values from an entropy source.
pub(super) struct Draw<'a> {
    entropy: &'a dyn Entropy,
}

impl<'a> Draw<'a> {
    pub(super) const fn new(entropy: &'a dyn Entropy) -> Self {
        Self { entropy }
    }

    pub(super) fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.entropy.fill(&mut bytes);
        bytes
    }

    /// Returns a uniformly distributed number below `limit`, which is at least 1.
    fn below(&mut self, limit: usize) -> usize {
        let limit = u32::try_from(limit).unwrap_or(u32::MAX).max(1);
        // `fair` is a multiple of `limit`. Accepting numbers from `fair` on would make small remainders more likely.
        let fair = u32::MAX - u32::MAX % limit;
        loop {
            let mut bits = [0; 4];
            self.entropy.fill(&mut bits);
            let number = u32::from_le_bytes(bits);
            if number < fair {
                return usize::try_from(number % limit).unwrap_or_default();
            }
        }
    }

    /// Draws a password: the minimum of each class, the rest from all classes, in random order.
    pub(super) fn password(&mut self, length: usize, alphabets: &[Alphabet]) -> String {
        let all: Vec<char> = alphabets
            .iter()
            .flat_map(|alphabet| alphabet.characters.clone())
            .collect();
        let mut password = Vec::with_capacity(length);
        for alphabet in alphabets {
            for _ in 0..alphabet.least {
                password.extend(self.one_of(&alphabet.characters));
            }
        }
        while password.len() < length {
            match self.one_of(&all) {
                Some(character) => password.push(character),
                None => break,
            }
        }
        for last in (1..password.len()).rev() {
            let other = self.below(last + 1);
            password.swap(last, other);
        }
        password.into_iter().collect()
    }

    fn one_of(&mut self, characters: &[char]) -> Option<char> {
        let at = self.below(characters.len());
        characters.get(at).copied()
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a string doesn't fail.
        write!(text, "{byte:02x}").ok();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Alphabet, Draw};
    use state_core::Entropy;
    use state_core::testkit::clock::SeededEntropy;
    use std::collections::BTreeMap;
    use std::sync::Mutex;

    /// An entropy source that returns fixed bytes.
    #[derive(Debug)]
    struct FixedEntropy(Mutex<Vec<u8>>);

    impl Entropy for FixedEntropy {
        fn fill(&self, bytes: &mut [u8]) {
            let mut given = self.0.lock().unwrap();
            bytes.copy_from_slice(&given.drain(..bytes.len()).collect::<Vec<u8>>());
        }
    }

    #[test]
    fn biased_number_is_drawn_again() {
        // 2^32 isn't divisible by three, so the largest number, 2^32 - 1, is rejected.
        let given = [[0xff; 4], [5, 0, 0, 0]].concat();
        let entropy = FixedEntropy(Mutex::new(given));
        assert_eq!(Draw::new(&entropy).below(3), 2);
        assert!(entropy.0.lock().unwrap().is_empty());
    }

    #[test]
    fn characters_are_uniformly_distributed() {
        let entropy = SeededEntropy::new(7);
        let mut draw = Draw::new(&entropy);
        let alphabets = [
            Alphabet {
                characters: vec!['a', 'b'],
                least: 2,
            },
            Alphabet {
                characters: vec!['1', '2'],
                least: 2,
            },
        ];
        let mut counts: BTreeMap<(usize, char), u32> = BTreeMap::new();
        for _ in 0..8000 {
            for place in draw.password(8, &alphabets).chars().enumerate() {
                *counts.entry(place).or_default() += 1;
            }
        }
        assert_eq!(counts.len(), 32);
        // Each character is expected 2,000 times at each position; the limits are more than seven standard deviations
        // away.
        assert!(
            counts.values().all(|count| (1700..2300).contains(count)),
            "{counts:?}"
        );
    }
}
