//! Patterns for addresses: `*` matches any text, `?` matches one character. All other characters match themselves,
//! including brackets, which are common in addresses.

/// Whether the whole text matches the pattern. Uses linear space and no recursion, so that no pattern can exhaust memory or
/// the stack.
pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let text: Vec<char> = text.chars().collect();
    let (mut p, mut t) = (0, 0);
    // Where to continue if the part after the last `*` doesn't match: the star then matches one more character.
    let mut retry: Option<(usize, usize)> = None;
    while t < text.len() {
        if pattern.get(p) == Some(&'*') {
            retry = Some((p, t));
            p += 1;
        } else if pattern.get(p).is_some_and(|&c| c == '?' || c == text[t]) {
            p += 1;
            t += 1;
        } else if let Some((star, from)) = retry {
            retry = Some((star, from + 1));
            p = star + 1;
            t = from + 1;
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|&c| c == '*')
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn star_matches_any_text_and_question_mark_one_char() {
        assert!(matches("*", ""));
        assert!(matches("module.*", "module.a.aws_eip.b"));
        assert!(matches("*.aws_eip.*", "module.a.aws_eip.b"));
        assert!(matches("a?c", "aßc"));
        assert!(!matches("a?c", "ac"));
        assert!(!matches("module.*", "data.module"));
        assert!(matches("*a*b*c", "xxaxxbxxbc"));
        assert!(!matches("*a*b*c", "xxaxxbxxb"));
    }

    #[test]
    fn brackets_and_quotes_are_literal() {
        assert!(matches(r#"null.a["x"]"#, r#"null.a["x"]"#));
        assert!(matches("null.a[*]", "null.a[0]"));
        assert!(!matches("null.a[0-9]", "null.a[5]"));
    }

    #[test]
    fn pattern_without_wildcards_matches_whole_text() {
        assert!(matches("a.b", "a.b"));
        assert!(!matches("a.b", "a.b.c"));
        assert!(!matches("", "a"));
        assert!(matches("", ""));
    }

    #[test]
    fn many_stars_over_a_long_text_are_fast() {
        let text = "a".repeat(4096);
        assert!(!matches(&"*a".repeat(40).replace("aa", "a"), &format!("{text}b")));
    }
}
