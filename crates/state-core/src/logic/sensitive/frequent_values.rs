//! Common words, numbers and cloud regions. They are never searched for in other resources, because many unrelated
//! values equal them.

use std::collections::HashSet;
use std::sync::LazyLock;

/// Text of the list: one value per line; lines that begin with `#` are comments.
const LIST: &str = include_str!("frequent_values.txt");

fn values() -> impl Iterator<Item = &'static str> {
    LIST.lines().filter(|line| !line.starts_with('#'))
}

/// Whether a text is a common word, a common number, a region, or a zone of a region.
pub(super) fn is_common(text: &str) -> bool {
    static COMMON: LazyLock<HashSet<&str>> = LazyLock::new(|| values().collect());
    let text = text.trim().to_lowercase();
    // Zones are `eu-central-1a` and `europe-west1-b`.
    let region = text
        .strip_suffix(|last: char| last.is_ascii_lowercase())
        .map(|region| region.strip_suffix('-').unwrap_or(region))
        .filter(|region| region.ends_with(|last: char| last.is_ascii_digit()));
    COMMON.contains(text.as_str()) || region.is_some_and(|region| COMMON.contains(region))
}

#[cfg(test)]
mod tests {
    use super::{is_common, values};
    use crate::logic::sensitive::limits::MIN_SECRET_CHARS;

    #[test]
    fn list_is_sorted_lower_case_and_without_duplicates() {
        let all: Vec<_> = values().collect();
        assert!(all.is_sorted_by(|one, next| one < next));
        for one in all {
            assert_eq!(one, one.trim().to_lowercase());
            assert!(
                one.chars().count() >= MIN_SECRET_CHARS,
                "{one} is too short to be searched for, so it must not be listed"
            );
        }
    }

    #[test]
    fn regions_zones_and_common_words_are_common() {
        for text in [
            "production",
            "Default",
            "eu-central-1",
            "eu-central-1a",
            "us-west1-b",
            "West Europe",
        ] {
            assert!(is_common(text), "{text}");
        }
        for text in [
            "hunter22",
            "eu-central-1-hunter22",
            "production-db-7",
            "productiona",
        ] {
            assert!(!is_common(text), "{text}");
        }
    }
}
