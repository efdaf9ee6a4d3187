//! Common words, numbers, cloud regions, addresses and times. If a marked value is one of them, copies of it are not
//! searched for in other resources, because many unrelated values equal it.

use std::collections::HashSet;
use std::sync::LazyLock;

/// Text of the list: one value per line; lines that begin with `#` are comments.
const LIST: &str = include_str!("frequent_values.txt");

fn values() -> impl Iterator<Item = &'static str> {
    LIST.lines().filter(|line| !line.starts_with('#'))
}

/// Whether a text is a common word, a common number, a region, a zone of a region, an IP address or range, a time, or
/// the ARN of a policy that AWS itself manages.
pub(super) fn is_common(text: &str) -> bool {
    static COMMON: LazyLock<HashSet<&str>> = LazyLock::new(|| values().collect());
    let text = text.trim().to_lowercase();
    // Zones are `eu-central-1a` and `europe-west1-b`.
    let region = text
        .strip_suffix(|last: char| last.is_ascii_lowercase())
        .map(|region| region.strip_suffix('-').unwrap_or(region))
        .filter(|region| region.ends_with(|last: char| last.is_ascii_digit()));
    COMMON.contains(text.as_str())
        || region.is_some_and(|region| COMMON.contains(region))
        || is_address_range(&text)
        || is_time(&text)
        || text.starts_with("arn:aws:iam::aws:policy/")
}

/// Whether a text is an IP address, with or without the length of a prefix: `10.0.0.0/16`.
fn is_address_range(text: &str) -> bool {
    let (address, prefix) = text.split_once('/').unwrap_or((text, "0"));
    prefix.parse::<u8>().is_ok() && address.parse::<std::net::IpAddr>().is_ok()
}

/// Whether a text is a date, or a date with a time: `2012-10-17`, `2026-01-01T00:00:00Z`.
fn is_time(text: &str) -> bool {
    let shape = |text: &str, shape: &str| {
        let fits = |(byte, wanted): (u8, u8)| match wanted {
            b'0' => byte.is_ascii_digit(),
            other => byte == other,
        };
        text.len() == shape.len() && text.bytes().zip(shape.bytes()).all(fits)
    };
    let Some((date, rest)) = text.split_at_checked(10) else {
        return false;
    };
    let time = rest
        .split_at_checked(9)
        .filter(|(time, _)| shape(time, "t00:00:00") || shape(time, " 00:00:00"));
    let is_zone =
        |zone: &str| zone.len() <= 20 && zone.bytes().all(|byte| b"0123456789.:+-z utc".contains(&byte));
    shape(date, "0000-00-00") && (rest.is_empty() || time.is_some_and(|(_, zone)| is_zone(zone)))
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
            "10.0.0.0/16",
            "2001:db8::/32",
            "2012-10-17",
            "2024-01-01T00:00:00Z",
            "2024-01-01T00:00:00.123+02:00",
            "arn:aws:iam::aws:policy/AdministratorAccess",
        ] {
            assert!(is_common(text), "{text}");
        }
        for text in [
            "hunter22",
            "eu-central-1-hunter22",
            "production-db-7",
            "productiona",
            "10.0.0.0/secret",
            "2012-10-17-hunter22",
            "2024-01-01Thunter2",
        ] {
            assert!(!is_common(text), "{text}");
        }
    }
}
