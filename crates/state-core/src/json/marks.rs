//! Finds the ends of strings in bulk: one bit for each byte of a text.

/// The number of bytes that one word describes.
pub const BLOCK: usize = 64;

/// One bit for each byte of a text: 1 for a byte that a string can't contain unescaped (`"`, `\`, a control character),
/// and for all positions after the end. Computing the bits of 64 bytes at once is several times faster than a search in
/// each string.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    words: Vec<u64>,
}

impl Marks {
    /// Computes the bits of another text. Reuses the memory.
    pub(super) fn set(&mut self, text: &[u8]) {
        self.words.clear();
        let (chunks, rest) = text.as_chunks::<BLOCK>();
        self.words.extend(chunks.iter().map(marks_of));
        // Zeros are control characters, so they mark the positions after the end.
        let mut last = [0; BLOCK];
        last[..rest.len()].copy_from_slice(rest);
        self.words.push(marks_of(&last));
    }

    /// Returns the first marked position from `at` on; `None` if `at` is far beyond the end of the text.
    #[inline]
    pub(super) fn next(&self, at: usize) -> Option<usize> {
        let mut index = at / BLOCK;
        let mut word = self.words.get(index)? >> (at % BLOCK);
        if word != 0 {
            return Some(at + word.trailing_zeros() as usize);
        }
        loop {
            index += 1;
            word = *self.words.get(index)?;
            if word != 0 {
                return Some(index * BLOCK + word.trailing_zeros() as usize);
            }
        }
    }
}

/// Returns the bits of 64 bytes that can't be in a string unescaped.
#[inline]
fn marks_of(bytes: &[u8; BLOCK]) -> u64 {
    marks(bytes, |byte| (byte == b'"') | (byte == b'\\') | (byte < 0x20))
}

/// Returns one bit for each byte of a block, 1 if `is_marked` accepts the byte; the lowest bit is that of the first byte.
/// Fast only if `is_marked` has no branch: then the compiler turns it into instructions on 16 bytes and more.
#[inline]
pub fn marks(bytes: &[u8; BLOCK], is_marked: impl Fn(u8) -> bool) -> u64 {
    // The compiler does so for this loop in every kind of build, but for `bytes.map(…)` only with link-time optimization.
    let mut marked = [0; BLOCK];
    for (marked, byte) in marked.iter_mut().zip(bytes) {
        *marked = u8::from(is_marked(*byte));
    }
    let (steps, _) = marked.as_chunks::<8>();
    steps.iter().rev().fold(0, |word, step| {
        // The multiplication gathers the lowest bit of each byte in the highest byte of the product.
        let bits = u64::from_le_bytes(*step).wrapping_mul(0x0102_0408_1020_4080) >> 56;
        word << 8 | bits
    })
}

#[cfg(test)]
mod tests {
    use super::{BLOCK, Marks};
    use crate::testkit::run::property_config;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(property_config())]

        #[test]
        fn marks_are_those_of_a_search_in_steps(
            text in proptest::collection::vec(prop_oneof![any::<u8>(), Just(b'"'), Just(b'a')], 0..300)
        ) {
            let mut marks = Marks::default();
            marks.set(&[0; 1000]);
            marks.set(&text);
            for at in 0..=text.len() {
                let expected = super::super::text::end_of_plain(&text, at);
                prop_assert_eq!(marks.next(at), Some(expected));
            }
            prop_assert_eq!(marks.next(text.len() + BLOCK), None);
        }
    }
}
