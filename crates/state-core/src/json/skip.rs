//! Finds the end of a value of validated text; that of an object or array in blocks of 64 bytes.

use super::text::{end_of_string, skip_string};

/// Returns the index after the validated value that starts at `at`.
pub(super) fn skip_value(bytes: &[u8], at: usize) -> usize {
    match bytes.get(at) {
        Some(b'"') => skip_string(bytes, at),
        Some(b'{' | b'[') => skip_container(bytes, at),
        _ => skip_scalar(bytes, at),
    }
}

fn skip_scalar(bytes: &[u8], at: usize) -> usize {
    let is_end = |byte: &u8| matches!(byte, b',' | b']' | b'}' | b' ' | b'\t' | b'\n' | b'\r');
    bytes[at..]
        .iter()
        .position(is_end)
        .map_or(bytes.len(), |found| at + found)
}

/// The number of bytes in a block.
const WIDTH: usize = 64;

const LOWS: u64 = u64::from_ne_bytes([0x01; 8]);
const BELOW_HIGHS: u64 = u64::from_ne_bytes([0x7F; 8]);

/// The bytes of a block that matter for its structure; the lowest bit is that of the first byte.
#[derive(Default)]
struct Block {
    quotes: u64,
    escapes: u64,
    opening: u64,
    closing: u64,
}

impl Block {
    fn of(bytes: &[u8; WIDTH]) -> Self {
        let mut block = Self::default();
        let (words, _) = bytes.as_chunks::<8>();
        for word in words.iter().rev() {
            let word = u64::from_le_bytes(*word);
            // The bit 0x20 distinguishes a brace from a bracket.
            let folded = word | (LOWS * 0x20);
            block.quotes = block.quotes << 8 | bits_equal(word, b'"');
            block.escapes = block.escapes << 8 | bits_equal(word, b'\\');
            block.opening = block.opening << 8 | bits_equal(folded, b'{');
            block.closing = block.closing << 8 | bits_equal(folded, b'}');
        }
        block
    }
}

/// One bit for each byte of the word, 1 if it is equal to `byte`.
#[inline]
fn bits_equal(word: u64, byte: u8) -> u64 {
    let differences = word ^ (LOWS * u64::from(byte));
    // The addition carries into the highest bit of each byte with a bit below it, and never into the next byte.
    let nonzero = ((differences & BELOW_HIGHS) + BELOW_HIGHS) | differences;
    let equal = (!nonzero >> 7) & LOWS;
    // The multiplication gathers the lowest bit of each byte in the highest byte of the product.
    equal.wrapping_mul(0x0102_0408_1020_4080) >> 56
}

/// The position and the nesting of a search.
struct Search {
    at: usize,
    /// The number of containers that are open.
    depth: u32,
    /// Whether `at` is inside a string.
    in_string: bool,
}

/// Returns the index after the validated object or array that opens at `at`.
fn skip_container(bytes: &[u8], at: usize) -> usize {
    let mut search = Search {
        at,
        depth: 0,
        in_string: false,
    };
    loop {
        let block = bytes[search.at..].first_chunk().map(Block::of);
        let end = match block.filter(|block| block.escapes == 0) {
            Some(block) => search.block(&block),
            // A block with an escape, and what is left at the end of the text.
            None => search.token(bytes),
        };
        if let Some(end) = end {
            return end;
        }
    }
}

impl Search {
    /// Passes over a block without an escape. Returns the end of the container if it lies in the block.
    fn block(&mut self, block: &Block) -> Option<usize> {
        let mut strings = between(block.quotes);
        if self.in_string {
            strings = !strings;
        }
        let (mut opening, mut closing) = (block.opening & !strings, block.closing & !strings);
        if closing.count_ones() >= self.depth {
            // Perhaps the last of the open containers closes here: look at one bracket after the other.
            while opening | closing != 0 {
                let next = (opening | closing).trailing_zeros();
                let bit = 1 << next;
                if opening & bit != 0 {
                    opening &= !bit;
                    self.depth += 1;
                    continue;
                }
                closing &= !bit;
                self.depth = self.depth.saturating_sub(1);
                if self.depth == 0 {
                    return Some(self.at + next as usize + 1);
                }
            }
        }
        self.depth = self.depth + opening.count_ones() - closing.count_ones();
        self.in_string = strings >> (WIDTH - 1) == 1;
        self.at += WIDTH;
        None
    }

    /// Passes over one token, or over the rest of a string. Returns the end of the container if it ends with the token.
    fn token(&mut self, bytes: &[u8]) -> Option<usize> {
        if self.in_string {
            self.in_string = false;
            self.at = end_of_string(bytes, self.at);
            return None;
        }
        let is_structure = |byte: &u8| matches!(byte, b'"' | b'{' | b'[' | b'}' | b']');
        let Some(next) = bytes[self.at..].iter().position(is_structure) else {
            return Some(bytes.len());
        };
        self.at += next;
        match bytes[self.at] {
            b'"' => self.at = skip_string(bytes, self.at),
            b'{' | b'[' => {
                self.depth += 1;
                self.at += 1;
            }
            _ => {
                self.depth = self.depth.saturating_sub(1);
                self.at += 1;
                if self.depth == 0 {
                    return Some(self.at);
                }
            }
        }
        None
    }
}

/// The positions from each opening quote up to before its closing quote: each bit is the parity of the quotes up to it.
fn between(quotes: u64) -> u64 {
    [1, 2, 4, 8, 16, 32]
        .iter()
        .fold(quotes, |parity, shift| parity ^ (parity << shift))
}

#[cfg(test)]
mod tests {
    use super::skip_container;
    use crate::json::tests::nested_value;
    use crate::testkit::run::property_config;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(property_config())]

        #[test]
        fn end_of_a_container_is_found_in_any_text(
            value in nested_value(),
            before in 0_usize..70,
            after in "[\\]}\", a]{0,130}",
        ) {
            let object = format!("{{\"a\":{value}}}");
            let text = format!("{}{object}{after}", " ".repeat(before));
            prop_assert_eq!(skip_container(text.as_bytes(), before), before + object.len(), "{}", text);
        }
    }

    #[test]
    fn text_that_ends_too_early_ends_the_search() {
        for text in ["{\"a\": [1, 2", "[\"abc", "[\"abc\\", "{"] {
            assert_eq!(skip_container(text.as_bytes(), 0), text.len(), "{text}");
        }
    }
}
