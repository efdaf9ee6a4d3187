//! Pieces of secrets in the texts that people read.
//!
//! Who marks a command as secret means the token in it, and nobody says where in it that stands. So whatever a text and a
//! secret have in common is hidden, from [`LEAST`] bytes on: a secret of that length that was spliced into a marked string
//! is then never shown whole, nor is a longer piece of it. Rather too much is hidden than too little.

use super::MIN_SECRET_CHARS;
use crate::json::write_string;
use std::borrow::Cow;
use std::collections::HashSet;

/// So many bytes in common are hidden: a character has at least one.
const LEAST: usize = MIN_SECRET_CHARS;

/// The bytes of a window, as one number.
const WINDOW: u64 = (1 << (8 * LEAST)) - 1;

/// The text with a placeholder for all that it has in common with one of the secrets, as they are and as JSON writes
/// them. It takes as long as both are, and memory for the text only.
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

/// All stretches of [`LEAST`] bytes, from each byte on.
fn windows(text: &str) -> impl Iterator<Item = u64> {
    let numbers = text.bytes().scan(0, |window: &mut u64, byte| {
        *window = ((*window << 8) | u64::from(byte)) & WINDOW;
        Some(*window)
    });
    numbers.skip(LEAST - 1)
}

/// One placeholder for each stretch. A character of which one byte is hidden is hidden whole.
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
    fn whatever_six_bytes_in_common_begin_is_hidden_and_nothing_else() {
        assert_eq!(shown("token hunter22!", "curl -H hunter22 x"), "token***!");
        assert_eq!(shown("abcde fghij", "abcde/fghij"), "abcde fghij");
        assert_eq!(shown("a abcdef b abcdef", "(abcdef)"), "a *** b ***");
        assert_eq!(shown("", "abcdef"), "");
        assert_eq!(shown("abcdef", ""), "abcdef");
    }

    #[test]
    fn lines_of_a_secret_and_its_form_in_json_are_hidden() {
        assert_eq!(shown("got: second", "first\nsecond\nthird"), "got: ***");
        assert_eq!(shown(r#"{"x":"ab\"cd\n"}"#, "ab\"cd\n"), r#"{"x":***}"#);
    }

    #[test]
    fn a_character_of_which_a_part_is_hidden_is_hidden_whole() {
        assert_eq!(shown("=ÄÖÜ=", "ÄÖÜß"), "=***=");
        // Bytes in common that begin or end within a character.
        assert_eq!(shown("=é12345=", "©12345"), "=***=");
    }
}
