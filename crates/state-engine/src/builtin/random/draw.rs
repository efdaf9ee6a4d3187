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

    pub(super) fn hex(&mut self, count: usize) -> String {
        hex(&self.bytes(count))
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
