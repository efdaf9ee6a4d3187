//! A value and what it became, on one line.

use crate::mask;
use crate::render::page::{Page, Style};
use serde::Serialize;
use state_core::Json;
use state_core::diff::Change;

/// A place that changed; a side that is missing says that nothing is there.
#[derive(Debug, Serialize)]
pub(crate) struct ChangeView {
    pub(crate) pointer: String,
    pub(crate) sensitive: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) old: Option<Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) new: Option<Json>,
}

impl ChangeView {
    /// What may be shown of a change.
    pub(crate) fn of(change: &Change, show_secrets: bool) -> Self {
        let value = |side: &Option<_>| side.as_ref().map(|value| mask::value(value, show_secrets));
        Self {
            pointer: change.pointer.clone(),
            sensitive: change.is_sensitive(),
            old: value(&change.old),
            new: value(&change.new),
        }
    }

    /// A line, indented.
    pub(crate) fn print(&self, page: &mut Page) {
        self.print_as(page, self.pointer.strip_prefix('/').unwrap_or(&self.pointer));
    }

    /// The same, under another name than its pointer.
    pub(crate) fn print_as(&self, page: &mut Page, name: &str) {
        let (sign, style, text) = match (&self.old, &self.new) {
            (Some(old), Some(new)) if old == new => ("~", Style::Warn, "(sensitive, changed)".to_owned()),
            (Some(old), Some(new)) => ("~", Style::Warn, became(old, new)),
            (Some(old), None) => ("-", Style::Bad, short(old)),
            (None, new) => ("+", Style::Good, new.as_ref().map(short).unwrap_or_default()),
        };
        page.space("    ");
        page.styled(style, sign);
        page.line(format_args!(" {name}: {text}"));
    }
}

/// Longer values are cut.
const LONGEST: usize = 160;
/// How much of what stays the same is shown around a difference in a long text.
const AROUND: usize = 16;
/// Strings up to this length are shown whole.
const SHORT: usize = 60;

/// `old → new`; of long strings only what differs, `…same [-old-]{+new+} same…`.
pub(crate) fn became(old: &Json, new: &Json) -> String {
    if let (Some(before), Some(after)) = (old.view().as_str(), new.view().as_str())
        && before.chars().count().max(after.chars().count()) > SHORT
        && let Some(told) = words(&before, &after)
    {
        return told;
    }
    format!("{} → {}", short(old), short(new))
}

/// The text of a value, cut if it is long.
pub(crate) fn short(value: &Json) -> String {
    cut(value.as_str())
}

fn cut(text: &str) -> String {
    if text.chars().count() <= LONGEST {
        return text.to_owned();
    }
    let start: String = text.chars().take(LONGEST).collect();
    format!("{start}… ({} bytes)", text.len())
}

/// What differs between two texts, from the first word to the last one that does; none if that is all.
fn words(old: &str, new: &str) -> Option<String> {
    let (old, new): (Vec<char>, Vec<char>) = (old.chars().collect(), new.chars().collect());
    let both = old.len().min(new.len());
    let same = |pairs: &mut dyn Iterator<Item = (&char, &char)>| pairs.take_while(|(a, b)| a == b).count();
    let mut head = same(&mut old.iter().zip(&new));
    let mut tail = same(&mut old.iter().rev().zip(new.iter().rev())).min(both - head);
    let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    while head > 0 && is_word(old[head - 1]) {
        head -= 1;
    }
    while tail > 0 && is_word(old[old.len() - tail]) {
        tail -= 1;
    }
    if head + tail == 0 {
        return None;
    }
    let (before, after) = (&old[head.saturating_sub(AROUND)..head], &old[old.len() - tail..]);
    let text = |part: &[char]| part.iter().collect::<String>();
    let (gone, come) = (&old[head..old.len() - tail], &new[head..new.len() - tail]);
    let piece = |open: &str, part: &[char], close: &str| {
        if part.is_empty() {
            String::new()
        } else {
            format!("{open}{}{close}", cut(&text(part)))
        }
    };
    Some(format!(
        "\"{}{}{}{}{}{}\"",
        if head > AROUND { "…" } else { "" },
        text(before),
        piece("[-", gone, "-]"),
        piece("{+", come, "+}"),
        text(&after[..after.len().min(AROUND)]),
        if tail > AROUND { "…" } else { "" },
    ))
}

#[cfg(test)]
mod tests {
    use super::became;
    use state_core::Json;

    fn told(old: &str, new: &str) -> String {
        became(&Json::from_string(old), &Json::from_string(new))
    }

    #[test]
    fn short_values_are_shown_whole() {
        assert_eq!(told("a", "b"), r#""a" → "b""#);
    }

    #[test]
    fn of_a_long_text_the_words_that_differ_are_shown() {
        let line = "the quick brown fox jumps over the lazy dog and runs away into the forest";
        assert_eq!(
            told(line, &line.replace("lazy", "hazy")),
            r#""… jumps over the [-lazy-]{+hazy+} dog and runs aw…""#
        );
        assert_eq!(
            told(line, &format!("{line} again")),
            r#""…s away into the [-forest-]{+forest again+}""#
        );
    }

    #[test]
    fn texts_of_any_kind_are_told_without_a_panic() {
        let long = "ä".repeat(400);
        for (old, new) in [
            ("", &*long),
            (&*long, ""),
            (&*long, "äß"),
            (&*long, &*format!("{long}ä")),
        ] {
            assert!(told(old, new).chars().count() < 900);
        }
    }
}
