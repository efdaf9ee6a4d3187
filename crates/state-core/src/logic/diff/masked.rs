//! A difference as it may be shown: as text, line by line, or in JSON.

use super::{Change, Move, Property, SnapshotDiff};
use crate::address::EntryKey;
use crate::entry::Entry;
use crate::json::Json;
use crate::mask::Mask;
use serde::Serialize;
use std::fmt;

/// What a line of a difference says of its subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// Only the old side has it.
    Removed,
    /// Only the new side has it.
    Added,
    /// It has another key now.
    Moved,
    /// It has another value now.
    Changed,
}

impl Sign {
    /// One character: `-`, `+`, `>` or `~`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Removed => "-",
            Self::Added => "+",
            Self::Moved => ">",
            Self::Changed => "~",
        }
    }
}

/// A line of the text of a difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiffLine {
    /// What it says of its subject.
    pub sign: Sign,
    /// Whether the line is about a property of the subject of the lines above.
    pub is_property: bool,
    /// The line without its sign.
    pub text: String,
}

impl fmt::Display for DiffLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let indent = if self.is_property { "    " } else { "" };
        write!(f, "{indent}{} {}", self.sign.as_str(), self.text)
    }
}

/// A [`SnapshotDiff`] as it may be shown. `Display` gives its lines.
#[derive(Clone, Debug, Serialize)]
pub struct MaskedDiff {
    /// Whether nothing differs.
    pub identical: bool,
    /// Entries that only the old snapshot has.
    pub removed: Vec<EntryName>,
    /// Entries that only the new snapshot has.
    pub added: Vec<EntryName>,
    /// Entries that have another key now.
    pub moved: Vec<Move>,
    /// Entries that have other values now.
    pub changed: Vec<MaskedEntryDiff>,
    /// Changes of the stack's own outputs.
    pub outputs: Vec<MaskedChange>,
    /// Changes of the rest of the snapshot.
    pub header: Vec<MaskedChange>,
}

/// The key of an entry, and its type as its system calls it.
#[derive(Clone, Debug, Serialize)]
pub struct EntryName {
    /// The key.
    #[serde(flatten)]
    pub key: EntryKey,
    /// The type of the resource or of the composite.
    pub kind: Option<String>,
}

/// Changes of one entry.
#[derive(Clone, Debug, Serialize)]
pub struct MaskedEntryDiff {
    /// The entry, as it is named now.
    #[serde(flatten)]
    pub entry: EntryName,
    /// Its key in the old snapshot, if it was another one.
    pub from: Option<EntryKey>,
    /// Changes of its properties.
    pub changes: Vec<MaskedChange>,
}

/// A [`Change`] as it may be shown. A side that is missing has no value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MaskedChange {
    /// The place: a JSON pointer.
    pub pointer: String,
    /// Whether either value holds a secret.
    pub sensitive: bool,
    /// The old value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old: Option<Json>,
    /// The new value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new: Option<Json>,
}

impl SnapshotDiff {
    /// The difference as it may be shown.
    pub fn masked(&self, mask: Mask) -> MaskedDiff {
        let changes = |all: &[Change]| all.iter().map(|change| change.masked(mask)).collect();
        MaskedDiff {
            identical: self.is_empty(),
            removed: self.removed.iter().map(|entry| EntryName::of(entry)).collect(),
            added: self.added.iter().map(|entry| EntryName::of(entry)).collect(),
            moved: self.moved.clone(),
            changed: self
                .changed
                .iter()
                .map(|diff| MaskedEntryDiff {
                    entry: EntryName::of(&diff.entry),
                    from: diff.from.clone(),
                    changes: changes(&diff.changes),
                })
                .collect(),
            outputs: changes(&self.outputs),
            header: changes(&self.header),
        }
    }
}

impl Change {
    /// The change as it may be shown.
    pub fn masked(&self, mask: Mask) -> MaskedChange {
        let value = |side: &Option<_>| side.as_ref().map(|value| mask.value(value));
        MaskedChange {
            pointer: self.pointer.clone(),
            sensitive: self.is_sensitive(),
            old: value(&self.old),
            new: value(&self.new),
        }
    }
}

impl Property {
    /// The property as it may be shown, as a value that was added.
    pub fn masked(&self, mask: Mask) -> MaskedChange {
        MaskedChange {
            pointer: self.pointer.clone(),
            sensitive: self.value.is_sensitive(),
            old: None,
            new: Some(mask.value(&self.value)),
        }
    }
}

impl EntryName {
    /// The name of an entry.
    pub fn of(entry: &Entry) -> Self {
        let kind = entry.kind.as_ref().or(entry.library_type.as_ref());
        Self {
            key: entry.key(),
            kind: kind.cloned(),
        }
    }
}

impl MaskedDiff {
    /// The text, line by line.
    pub fn lines(&self) -> Vec<DiffLine> {
        let line = |sign, text| DiffLine {
            sign,
            is_property: false,
            text,
        };
        let mut lines = Vec::new();
        for (entries, sign) in [(&self.removed, Sign::Removed), (&self.added, Sign::Added)] {
            lines.extend(entries.iter().map(|entry| line(sign, entry.key.to_string())));
        }
        let moved = |moved: &Move| line(Sign::Moved, format!("{} → {}", moved.from, moved.to));
        lines.extend(self.moved.iter().map(moved));
        let changed = self
            .changed
            .iter()
            .map(|diff| (diff.entry.key.to_string(), &diff.changes));
        let rest = [("outputs", &self.outputs), ("stack", &self.header)];
        let rest = rest.map(|(name, changes)| (name.to_owned(), changes));
        for (name, changes) in changed.chain(rest).filter(|(_, changes)| !changes.is_empty()) {
            lines.push(line(Sign::Changed, name));
            lines.extend(changes.iter().map(MaskedChange::line));
        }
        lines
    }
}

impl fmt::Display for MaskedDiff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines().iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

impl MaskedChange {
    /// The line of the change, under its pointer without the first slash.
    pub fn line(&self) -> DiffLine {
        self.line_as(self.pointer.strip_prefix('/').unwrap_or(&self.pointer))
    }

    /// The line of the change, under another name.
    pub fn line_as(&self, name: &str) -> DiffLine {
        let (sign, text) = match (&self.old, &self.new) {
            (Some(old), Some(new)) if old == new => (Sign::Changed, "(sensitive, changed)".to_owned()),
            (Some(old), Some(new)) => (Sign::Changed, transition(old, new)),
            (Some(old), None) => (Sign::Removed, short_text(old)),
            (None, new) => (Sign::Added, new.as_ref().map(short_text).unwrap_or_default()),
        };
        DiffLine {
            sign,
            is_property: true,
            text: format!("{name}: {text}"),
        }
    }
}

/// Longer values are cut.
const LONGEST: usize = 160;
/// Number of unchanged characters that are shown around a difference in a long text.
const AROUND: usize = 16;
/// Strings up to this length are shown whole.
const SHORT: usize = 60;

/// `old → new`; of long strings only the part that differs, `…same [-old-]{+new+} same…`.
fn transition(old: &Json, new: &Json) -> String {
    if let (Some(before), Some(after)) = (old.view().as_str(), new.view().as_str())
        && before.chars().count().max(after.chars().count()) > SHORT
        && let Some(words) = words(&before, &after)
    {
        return words;
    }
    format!("{} → {}", short_text(old), short_text(new))
}

/// The text of a value, cut if it is long.
pub fn short_text(value: &Json) -> String {
    cut(value.as_str())
}

fn cut(text: &str) -> String {
    if text.chars().count() <= LONGEST {
        return text.to_owned();
    }
    let start: String = text.chars().take(LONGEST).collect();
    format!("{start}… ({} bytes)", text.len())
}

/// The difference between two texts, from the first word to the last one that differs; none if that is all.
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
    use super::transition;
    use crate::json::Json;

    fn told(old: &str, new: &str) -> String {
        transition(&Json::from_string(old), &Json::from_string(new))
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
