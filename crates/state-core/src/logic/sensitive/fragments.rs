//! Masking of parts of secrets in messages, such as the error of a provider.
//!
//! A marked string is often a command with a token at an unknown position, and a message may repeat only the token.
//! Therefore every part of at least [`LEAST`] bytes that a message and a secret have in common is hidden: a token of at
//! least this length inside a marked string is never shown completely. In case of doubt, more is hidden rather than
//! less.

use super::limits::MIN_SECRET_CHARS;
use crate::json::write_string;
use std::borrow::Cow;
use std::collections::HashSet;

/// Minimum number of common bytes that are hidden. [`MIN_SECRET_CHARS`] counts characters. A limit in bytes hides at
/// least as much, because a character has at least one byte.
const LEAST: usize = MIN_SECRET_CHARS;

/// Bit mask that keeps the last [`LEAST`] bytes of a number. A window is a substring of this length, stored as a
/// number.
const WINDOW: u64 = (1 << (8 * LEAST)) - 1;

/// Returns the text with a placeholder for every part that it has in common with one of the secrets, in plain or
/// JSON-escaped form. Runs in linear time, with memory proportional to the lengths of the text and the longest secret.
pub(super) fn masked<'t>(
    text: &'t str,
    secrets: impl Iterator<Item = &'t String>,
    placeholder: &str,
) -> Cow<'t, str> {
    let in_text: HashSet<u64> = windows(text).collect();
    let mut common: HashSet<u64> = HashSet::new();
    if in_text.is_empty() {
        return Cow::Borrowed(text);
    }
    for secret in secrets {
        let mut json = String::new();
        write_string(&mut json, secret);
        let found = windows(secret).chain(windows(&json));
        common.extend(found.filter(|window| in_text.contains(window)));
    }
    if common.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut is_hidden = vec![false; text.len()];
    for (at, _) in windows(text)
        .enumerate()
        .filter(|(_, window)| common.contains(window))
    {
        is_hidden
            .iter_mut()
            .skip(at)
            .take(LEAST)
            .for_each(|byte| *byte = true);
    }
    Cow::Owned(replaced(text, &is_hidden, placeholder))
}

/// Returns all windows of [`LEAST`] bytes as numbers, one per start position.
fn windows(text: &str) -> impl Iterator<Item = u64> {
    let numbers = text.bytes().scan(0, |window: &mut u64, byte| {
        *window = ((*window << 8) | u64::from(byte)) & WINDOW;
        Some(*window)
    });
    numbers.skip(LEAST - 1)
}

/// Replaces each hidden range by one placeholder. A character with a hidden byte is hidden as a whole.
fn replaced(text: &str, is_hidden: &[bool], placeholder: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut was_hidden = false;
    for (at, character) in text.char_indices() {
        let mut bytes = is_hidden.iter().skip(at).take(character.len_utf8());
        let hidden = bytes.any(|byte| *byte);
        match (hidden, was_hidden) {
            (true, false) => shown.push_str(placeholder),
            (true, true) => {}
            (false, _) => shown.push(character),
        }
        was_hidden = hidden;
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::masked;

    fn shown(text: &str, secret: &str) -> String {
        masked(text, [secret.to_owned()].iter(), "***").into_owned()
    }

    #[test]
    fn common_parts_of_six_bytes_are_hidden() {
        assert_eq!(shown("token hunter22!", "curl -H hunter22 x"), "token***!");
        assert_eq!(shown("abcde fghij", "abcde/fghij"), "abcde fghij");
        assert_eq!(shown("a abcdef b abcdef", "(abcdef)"), "a *** b ***");
        assert_eq!(shown("", "abcdef"), "");
        assert_eq!(shown("abcdef", ""), "abcdef");
    }

    #[test]
    fn secret_lines_and_their_json_form_are_hidden() {
        assert_eq!(shown("got: second", "first\nsecond\nthird"), "got: ***");
        assert_eq!(shown(r#"{"x":"ab\"cd\n"}"#, "ab\"cd\n"), r#"{"x":***}"#);
    }

    #[test]
    fn partly_hidden_character_is_hidden_completely() {
        assert_eq!(shown("=ÄÖÜ=", "ÄÖÜß"), "=***=");
        // The common bytes begin or end within a character.
        assert_eq!(shown("=é12345=", "©12345"), "=***=");
    }
}
