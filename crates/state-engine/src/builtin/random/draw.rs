//! Drawing from random bits without favour: what doesn't divide evenly is drawn again.

use state_core::Entropy;
use std::fmt::Write;

/// Characters that may be in a password.
pub(super) struct Alphabet {
    pub(super) characters: Vec<char>,
    /// So many of them must be.
    pub(super) least: usize,
}

/// Draws.
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

    /// A number below `limit`, which is at least 1; each is as likely as any other.
    fn below(&mut self, limit: usize) -> usize {
        let limit = u32::try_from(limit).unwrap_or(u32::MAX).max(1);
        // The numbers from here on would favour the first ones.
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

    /// So many of each alphabet as must be, the rest of all of them, in an order that is drawn as well.
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

    /// Gives these bytes, one after the other.
    #[derive(Debug)]
    struct FixedEntropy(Mutex<Vec<u8>>);

    impl Entropy for FixedEntropy {
        fn fill(&self, bytes: &mut [u8]) {
            let mut given = self.0.lock().unwrap();
            bytes.copy_from_slice(&given.drain(..bytes.len()).collect::<Vec<u8>>());
        }
    }

    #[test]
    fn a_number_that_would_favour_some_is_drawn_again() {
        // Of 2^32 numbers the last is one too many for thirds.
        let given = [[0xff; 4], [5, 0, 0, 0]].concat();
        let entropy = FixedEntropy(Mutex::new(given));
        assert_eq!(Draw::new(&entropy).below(3), 2);
        assert!(entropy.0.lock().unwrap().is_empty());
    }

    #[test]
    fn each_character_is_as_likely_as_any_other_at_every_place() {
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
        // 2,000 are expected; the limits are more than seven deviations away.
        assert!(
            counts.values().all(|count| (1700..2300).contains(count)),
            "{counts:?}"
        );
    }
}
