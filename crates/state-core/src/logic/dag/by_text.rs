//! Sorts texts with long common prefixes, such as addresses.

/// Ranges of at most this length are sorted by comparing texts.
const SHORT: usize = 8;

/// A text to sort: 8 bytes of the text, and its number in the lower bits.
type Item = u128;

/// Returns the numbers of the texts in the order of the texts. The texts must be distinct and must not contain NUL.
///
/// The common prefix of a range is skipped; then the range is sorted by the next 8 bytes, which needs no access to the
/// texts. Ranges with equal bytes are sorted further. Addresses mostly differ in two or three such places.
pub(super) fn sorted(texts: &[&str]) -> Vec<u32> {
    let mut items: Vec<Item> = (0..texts.len() as u32).map(Item::from).collect();
    let mut open = vec![(0..items.len(), 0)];
    while let Some((range, depth)) = open.pop() {
        let start = range.start;
        let items = &mut items[range];
        let rest = |item: &Item| {
            let text = texts[*item as u32 as usize].as_bytes();
            text.get(depth..).unwrap_or_default()
        };
        if items.len() <= SHORT {
            items.sort_unstable_by(|one, other| rest(one).cmp(rest(other)));
            continue;
        }
        let common = common_prefix(items.iter().map(rest));
        for item in items.iter_mut() {
            *item = Item::from(window(&rest(item)[common..])) << 32 | Item::from(*item as u32);
        }
        items.sort_unstable();
        let mut from = start;
        for run in items.chunk_by(|one, other| one >> 32 == other >> 32) {
            let to = from + run.len();
            if run.len() > 1 {
                open.push((from..to, depth + common + size_of::<u64>()));
            }
            from = to;
        }
    }
    items.into_iter().map(|item| item as u32).collect()
}

/// The first 8 bytes as a number that is ordered like the bytes. A missing byte is less than any byte of a text.
fn window(bytes: &[u8]) -> u64 {
    if let Some(first) = bytes.first_chunk() {
        return u64::from_be_bytes(*first);
    }
    let mut first = [0; 8];
    first[..bytes.len()].copy_from_slice(bytes);
    u64::from_be_bytes(first)
}

/// The length of the longest common prefix.
fn common_prefix<'t>(mut texts: impl Iterator<Item = &'t [u8]>) -> usize {
    let Some(first) = texts.next() else { return 0 };
    let mut common = first.len();
    for text in texts {
        if text.starts_with(&first[..common]) {
            continue;
        }
        let equal = first.iter().zip(text).take(common);
        common = equal.take_while(|(one, other)| one == other).count();
        if common == 0 {
            break;
        }
    }
    common
}

#[cfg(test)]
mod tests {
    use super::sorted;
    use crate::testkit::run::property_config;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #![proptest_config(property_config())]

        #[test]
        fn texts_are_sorted_by_their_bytes(texts: BTreeSet<String>, repeated in "[a-c]{0,20}") {
            let mut texts: Vec<String> = texts.into_iter().map(|text| text.replace('\0', "")).collect();
            texts.extend((0..60).map(|at| format!("{repeated}{}{repeated}{at}", at % 7)));
            texts.sort();
            texts.dedup();
            texts.reverse();
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            let backwards: Vec<u32> = (0..texts.len() as u32).rev().collect();
            prop_assert_eq!(sorted(&texts), backwards);
        }

        #[test]
        fn prefixes_come_before_longer_texts(
            texts in prop::collection::btree_set("(module[.]a{0,9}|module[.]b{0,12}){1,4}", 0..80).prop_map(Vec::from_iter),
            seed: u64,
        ) {
            let mut numbers: Vec<usize> = (0..texts.len()).collect();
            numbers.sort_by_key(|at| seed.wrapping_mul(*at as u64 + 1).rotate_left(29));
            let shuffled: Vec<&str> = numbers.iter().map(|at| texts[*at].as_str()).collect();
            let order = sorted(&shuffled);
            let found: Vec<&str> = order.iter().map(|at| shuffled[*at as usize]).collect();
            let expected: Vec<&str> = texts.iter().map(String::as_str).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
