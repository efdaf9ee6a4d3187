//! Patterns over addresses: `*` stands for any text, `?` for one character. Everything else is literal, brackets
//! too, because addresses are full of them.

/// Whether the whole text matches the pattern. Linear space, no recursion: no pattern is dangerous.
pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let text: Vec<char> = text.chars().collect();
    let (mut p, mut t) = (0, 0);
    // Where to go on when what follows the last `*` doesn't fit: the star takes one more character.
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
    fn a_star_is_any_text_and_a_question_mark_one_character() {
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
    fn a_pattern_without_wildcards_is_the_whole_text() {
        assert!(matches("a.b", "a.b"));
        assert!(!matches("a.b", "a.b.c"));
        assert!(!matches("", "a"));
        assert!(matches("", ""));
    }

    #[test]
    fn many_stars_over_a_long_text_stay_quick() {
        let text = "a".repeat(4096);
        assert!(!matches(&"*a".repeat(40).replace("aa", "a"), &format!("{text}b")));
    }
}
