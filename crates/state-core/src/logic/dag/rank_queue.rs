//! A priority queue of small numbers.

/// A set of distinct numbers below a limit, from which the smallest one is taken first. Each level has one bit for each
/// word of the level below, set if the word is not 0. For a million numbers that is 128 KiB in four levels, where a binary
/// heap would move numbers through megabytes.
pub(super) struct RankQueue {
    /// The first level has one bit for each number, the last level has one word.
    levels: Vec<Vec<u64>>,
}

impl RankQueue {
    /// Creates an empty queue for numbers below `limit`.
    pub(super) fn new(limit: u32) -> Self {
        let mut levels = Vec::new();
        let mut bits = limit as usize;
        loop {
            let words = bits.div_ceil(64).max(1);
            levels.push(vec![0; words]);
            if words == 1 {
                return Self { levels };
            }
            bits = words;
        }
    }

    pub(super) fn insert(&mut self, number: u32) {
        let mut bit = number as usize;
        for level in &mut self.levels {
            let word = &mut level[bit / 64];
            let was_empty = *word == 0;
            *word |= 1 << (bit % 64);
            if !was_empty {
                return;
            }
            bit /= 64;
        }
    }

    /// Takes the smallest number.
    pub(super) fn pop(&mut self) -> Option<u32> {
        let mut word = 0;
        for level in self.levels.iter().rev() {
            let bits = level[word];
            if bits == 0 {
                return None;
            }
            word = word * 64 + bits.trailing_zeros() as usize;
        }
        let number = word;
        let mut bit = number;
        for level in &mut self.levels {
            let word = &mut level[bit / 64];
            *word &= !(1 << (bit % 64));
            if *word != 0 {
                break;
            }
            bit /= 64;
        }
        Some(number as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::RankQueue;
    use crate::testkit::run::property_config;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #![proptest_config(property_config())]

        #[test]
        fn rank_queue_takes_the_smallest_number(
            (limit, steps) in (1..20_000_u32).prop_flat_map(|limit| {
                (Just(limit), prop::collection::vec(prop::option::weighted(0.6, 0..limit), 0..200))
            }),
        ) {
            let mut queue = RankQueue::new(limit);
            let mut plain = BTreeSet::new();
            for step in steps {
                match step {
                    Some(number) => {
                        queue.insert(number);
                        plain.insert(number);
                    }
                    None => prop_assert_eq!(queue.pop(), plain.pop_first()),
                }
            }
            while let Some(number) = plain.pop_first() {
                prop_assert_eq!(queue.pop(), Some(number));
            }
            prop_assert_eq!(queue.pop(), None);
        }
    }

    #[test]
    fn rank_queue_without_numbers_is_empty() {
        assert_eq!(RankQueue::new(0).pop(), None);
    }
}
