//! Identities that a user passes in the wrong place: they must be neither stored nor repeated.

use std::borrow::Cow;

/// The text without the secret part of age identities, for errors: a user may pass an identity in the wrong place.
pub(crate) fn without_identities(text: &str) -> Cow<'_, str> {
    const PREFIX: &str = "AGE-SECRET-KEY-";
    let upper = text.to_ascii_uppercase();
    if !upper.contains(PREFIX) {
        return Cow::Borrowed(text);
    }
    let mut masked = String::with_capacity(text.len());
    let mut rest = 0;
    while let Some(at) = upper[rest..].find(PREFIX) {
        let secret = rest + at + PREFIX.len();
        masked.push_str(&text[rest..secret]);
        masked.push('…');
        let length = text[secret..].find(|c: char| !c.is_ascii_alphanumeric() && c != '-');
        rest = length.map_or(text.len(), |length| secret + length);
    }
    masked.push_str(&text[rest..]);
    Cow::Owned(masked)
}

/// Whether a text contains an age identity, as opposed to the path of a file with one.
pub(crate) fn contains_identity(text: &str) -> bool {
    let text = text.to_ascii_uppercase();
    text.contains("AGE-SECRET-KEY-") || text.contains("AGE-PLUGIN-")
}

#[cfg(test)]
mod tests {
    use super::without_identities;

    #[test]
    fn identities_are_cut_from_any_text() {
        for (text, shown) in [
            ("a AGE-SECRET-KEY-1QQ, b", "a AGE-SECRET-KEY-…, b"),
            ("age-secret-key-pq-1qé", "age-secret-key-…é"),
            (
                "AGE-SECRET-KEY-1 AGE-SECRET-KEY-1X",
                "AGE-SECRET-KEY-… AGE-SECRET-KEY-…",
            ),
            ("age1qq", "age1qq"),
        ] {
            assert_eq!(without_identities(text), shown);
        }
    }
}
