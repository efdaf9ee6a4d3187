//! Search for secrets that are a part of a longer string, in linear time.
//!
//! Each secret is indexed by one window: a substring of [`WINDOW`] bytes. A text is scanned once. Each of its windows
//! is looked up, and at a hit the text is compared with the secrets that have this window. A state can hold thousands
//! of secrets, and the author of a hostile state can choose secrets that share one window. Therefore the number of
//! compared bytes per text is bounded, and a text that exhausts the bound counts as secret.

use super::limits::MIN_PART_CHARS;
use super::spelling::{has_lines, spellings, unindented};
use std::collections::HashMap;
use std::sync::Arc;

/// Length of a window in bytes. A character has at least one byte, so every secret of [`MIN_PART_CHARS`] characters has
/// a window.
const WINDOW: usize = MIN_PART_CHARS;

/// Approximate number of windows of a secret that are compared to choose the indexed one.
const CANDIDATES: usize = 16;

/// Number of bytes that may be compared for each byte of the text.
const MAX_COMPARED: usize = 256;

type Window = [u8; WINDOW];

/// An index of secrets, each in all of its spellings.
#[derive(Clone, Debug, Default)]
pub(super) struct Parts {
    /// One bit for each hash of an indexed window: most windows of a text are rejected without a look into the map.
    filter: Vec<u64>,
    by_window: HashMap<Window, Vec<Indexed>>,
    /// Whether a secret has several lines, so that indented copies are possible.
    has_lines: bool,
}

/// A secret, and the offset of its indexed window.
#[derive(Clone)]
struct Indexed {
    secret: Arc<str>,
    offset: usize,
}

impl std::fmt::Debug for Indexed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Indexed({} bytes)", self.secret.len())
    }
}

impl Parts {
    /// Indexes the secrets that are long enough to be searched for as parts of other strings.
    pub(super) fn of<'s>(secrets: impl Iterator<Item = &'s String>) -> Self {
        let mut parts = Self::default();
        let long = secrets.filter(|secret| is_long(secret));
        for secret in long.flat_map(|secret| spellings(secret)) {
            let unindented = unindented(&secret).filter(|lines| *lines != secret && is_long(lines));
            parts.has_lines |= has_lines(&secret);
            for spelling in unindented.iter().chain([&secret]) {
                parts.add(spelling);
            }
        }
        // About 32 bits for each window, so that a window that isn't indexed is rejected in 31 of 32 cases.
        let words = (parts.by_window.len() / 2).next_power_of_two().max(8);
        parts.filter = vec![0; words];
        for window in parts.by_window.keys() {
            let (word, bit) = filter_bit(window, words);
            parts.filter[word] |= bit;
        }
        parts
    }

    /// Indexes a secret by one of its windows. Compares about [`CANDIDATES`] windows and chooses the one that has the
    /// fewest secrets in the index. Many secrets share windows: PEM keys begin and end alike.
    fn add(&mut self, secret: &str) {
        let bytes = secret.as_bytes();
        let last = bytes.len() - WINDOW;
        let step = (last / CANDIDATES).max(1);
        let best = (0..=last).step_by(step).min_by_key(|&offset| {
            let others = self.by_window.get(&bytes[offset..offset + WINDOW]);
            others.map_or(0, Vec::len)
        });
        let offset = best.unwrap_or_default();
        let mut window = [0; WINDOW];
        window.copy_from_slice(&bytes[offset..offset + WINDOW]);
        let same = self.by_window.entry(window).or_default();
        same.push(Indexed {
            secret: secret.into(),
            offset,
        });
    }

    /// Whether a text contains one of the secrets, also with indented lines.
    pub(super) fn occur_in(&self, text: &str) -> bool {
        if self.by_window.is_empty() {
            return false;
        }
        let unindented = || unindented(text).filter(|lines| lines != text);
        self.occur_literally(text)
            || (self.has_lines && unindented().is_some_and(|lines| self.occur_literally(&lines)))
    }

    fn occur_literally(&self, text: &str) -> bool {
        let bytes = text.as_bytes();
        let mut budget = bytes.len().saturating_mul(MAX_COMPARED);
        for (at, window) in bytes.windows(WINDOW).enumerate() {
            let (word, bit) = filter_bit(window, self.filter.len());
            if self.filter[word] & bit == 0 {
                continue;
            }
            for indexed in self.by_window.get(window).into_iter().flatten() {
                let Some(begin) = at.checked_sub(indexed.offset) else {
                    continue;
                };
                let secret = indexed.secret.as_bytes();
                let equal = secret
                    .iter()
                    .zip(&bytes[begin..])
                    .take_while(|(one, other)| one == other);
                let equal = equal.count();
                let remaining = budget.checked_sub(equal + 1);
                if equal == secret.len() || remaining.is_none() {
                    return true;
                }
                budget = remaining.unwrap_or_default();
            }
        }
        false
    }
}

/// Whether a secret is long enough to be searched for as a part of other strings.
fn is_long(secret: &str) -> bool {
    secret.trim().chars().count() >= MIN_PART_CHARS && !super::frequent_values::is_common(secret)
}

/// Returns the index of a window's word in the filter, and the bit in this word. `words` is the number of words in the
/// filter, a power of two.
fn filter_bit(window: &[u8], words: usize) -> (usize, u64) {
    // FNV-1a without a seed: windows that an attacker chooses to collide only cause lookups in the map, whose hash has
    // a random seed.
    let hash = window.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    let mixed = hash ^ (hash >> 29);
    let word = usize::try_from(mixed >> 6).unwrap_or_default() & (words - 1);
    (word, 1 << (mixed & 63))
}

#[cfg(test)]
mod tests {
    use super::Parts;
    use crate::testkit::run::property_config;
    use proptest::collection::vec;
    use proptest::prelude::{prop_assert_eq, proptest};

    fn occurs(secrets: &[&str], text: &str) -> bool {
        let secrets: Vec<String> = secrets.iter().map(|&secret| secret.to_owned()).collect();
        Parts::of(secrets.iter()).occur_in(text)
    }

    proptest! {
        #![proptest_config(property_config())]

        #[test]
        fn index_agrees_with_a_naive_search(
            secrets in vec("[ab]{8,20}", 0..6),
            text in "[ab]{0,80}",
        ) {
            let long = secrets.iter().filter(|secret| secret.len() >= 12);
            let naive = long.clone().any(|secret| text.contains(secret.as_str()));
            prop_assert_eq!(Parts::of(secrets.iter()).occur_in(&text), naive);
        }
    }

    #[test]
    fn part_is_found_from_twelve_characters_on() {
        assert!(occurs(&["hunter22-abc"], "postgres://anna:hunter22-abc@db/shop"));
        assert!(!occurs(&["hunter22-ab"], "postgres://anna:hunter22-ab@db/shop"));
        assert!(occurs(&["äöüäöüäöüäöü"], "x äöüäöüäöüäöü y"));
        assert!(!occurs(&["eu-central-1"], "arn:aws:rds:eu-central-1:db"));
    }

    #[test]
    fn escaped_and_trimmed_spellings_are_found() {
        let secret = "a\"b&c/d<e>f g\n";
        assert!(occurs(&[secret], r#"{"password":"a\"b&c/d<e>f g"}"#));
        assert!(occurs(
            &[secret],
            r#"{"password":"a\"b\u0026c/d\u003ce\u003ef g"}"#
        ));
        for url in [
            "a%22b%26c%2Fd%3Ce%3Ef%20g",
            "a%22b%26c%2fd%3ce%3ef%20g",
            "a%22b%26c%2Fd%3Ce%3Ef+g",
        ] {
            assert!(occurs(&[secret], &format!("postgres://u:{url}@db")), "{url}");
        }
        assert!(occurs(&[secret], "a\"b&c/d<e>f g"));
    }

    #[test]
    fn copy_with_indented_lines_is_found() {
        let key = "-----BEGIN KEY-----\nMIIabcdefgh\n\n  0123456789\n-----END KEY-----\n";
        for indent in ["  ", "\t", "        "] {
            let lines: Vec<&str> = key.trim().lines().collect();
            let all = lines.join(&format!("\n{indent}"));
            let without_blank = all.replace(&format!("\n{indent}\n"), "\n\n");
            let windows = all.replace('\n', "\r\n");
            let json = all.replace('\n', "\\n");
            for copy in [all, without_blank, windows, json] {
                assert!(
                    occurs(&[key], &format!("data:\n{indent}key: {copy}\nother: 1")),
                    "{copy}"
                );
            }
        }
        assert!(!occurs(&[key], "-----BEGIN KEY-----\n  MIIabcdefgh\n"));
        let short = "a1\nb2\nc3\nd4\ne5";
        assert!(occurs(&[short], "x: |\n  a1\n  b2\n  c3\n  d4\n  e5\n"));
    }

    #[test]
    fn hostile_secrets_cost_no_quadratic_time() {
        let secrets: Vec<String> = (0..2_000).map(|n| format!("{}{n}", "a".repeat(5_000))).collect();
        let parts = Parts::of(secrets.iter());
        assert!(
            parts.occur_in(&"a".repeat(100_000)),
            "exhausting the bound counts as secret"
        );
        assert!(!parts.occur_in(&"b".repeat(100_000)));
    }
}
