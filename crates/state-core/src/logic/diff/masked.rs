//! Differences prepared for display, as lines of text or as JSON, with secrets masked.

use super::{Change, Move, Property, SnapshotDiff};
use crate::address::EntryKey;
use crate::entry::Entry;
use crate::json::Json;
use crate::mask::Mask;
use serde::Serialize;
use std::fmt;

/// The kind of change that a line of a difference describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// Only the old snapshot contains the entry or property.
    Removed,
    /// Only the new snapshot contains the entry or property.
    Added,
    /// The key of the entry changed.
    Moved,
    /// The content of the entry, or the value of the property, changed.
    Changed,
}

impl Sign {
    /// The sign as one character: `-`, `+`, `>` or `~`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Removed => "-",
            Self::Added => "+",
            Self::Moved => ">",
            Self::Changed => "~",
        }
    }
}

/// One line of a difference as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiffLine {
    /// Kind of change that the line describes.
    pub sign: Sign,
    /// Whether the line describes a property. If so, a line above names the entry.
    pub is_property: bool,
    /// Text of the line without its sign.
    pub text: String,
}

impl fmt::Display for DiffLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let indent = if self.is_property { "    " } else { "" };
        write!(f, "{indent}{} {}", self.sign.as_str(), self.text)
    }
}

/// A [`SnapshotDiff`] prepared for display. `Display` prints its lines.
#[derive(Clone, Debug, Serialize)]
pub struct MaskedDiff {
    /// Whether the snapshots have no differences.
    pub identical: bool,
    /// Entries that only the old snapshot contains.
    pub removed: Vec<EntryName>,
    /// Entries that only the new snapshot contains.
    pub added: Vec<EntryName>,
    /// Entries whose key changed.
    pub moved: Vec<Move>,
    /// Entries whose content changed.
    pub changed: Vec<MaskedEntryDiff>,
    /// Changes of the stack's outputs.
    pub outputs: Vec<MaskedChange>,
    /// Changes of the snapshot's other fields.
    pub header: Vec<MaskedChange>,
}

/// The key of an entry and the type of its resource.
#[derive(Clone, Debug, Serialize)]
pub struct EntryName {
    /// Key of the entry.
    #[serde(flatten)]
    pub key: EntryKey,
    /// Kind of the resource, or the library type of a library call; `None` for an entry without either.
    pub kind: Option<String>,
}

/// Changes of one entry.
#[derive(Clone, Debug, Serialize)]
pub struct MaskedEntryDiff {
    /// The entry, by its key in the new snapshot.
    #[serde(flatten)]
    pub entry: EntryName,
    /// Key in the old snapshot, if it changed.
    pub from: Option<EntryKey>,
    /// Changes of the entry's properties.
    pub changes: Vec<MaskedChange>,
}

/// A [`Change`] prepared for display. An added value has no `old`, a removed one no `new`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MaskedChange {
    /// JSON pointer to the changed location.
    pub pointer: String,
    /// Whether either value contains a secret.
    pub sensitive: bool,
    /// Old value, with secrets masked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old: Option<Json>,
    /// New value, with secrets masked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new: Option<Json>,
}

impl SnapshotDiff {
    /// Prepares the difference for display.
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
    /// Prepares the change for display.
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
    /// Prepares the property for display, as an added value.
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
    /// Creates the name of an entry.
    pub fn of(entry: &Entry) -> Self {
        let kind = entry.kind.as_ref().or(entry.library_type.as_ref());
        Self {
            key: entry.key(),
            kind: kind.cloned(),
        }
    }
}

impl MaskedDiff {
    /// The difference as text, line by line.
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
    /// Returns the line of the change. Its label is the pointer without the first slash.
    pub fn line(&self) -> DiffLine {
        self.line_as(self.pointer.strip_prefix('/').unwrap_or(&self.pointer))
    }

    /// Returns the line of the change with `name` as its label.
    pub fn line_as(&self, name: &str) -> DiffLine {
        let (sign, text) = match (&self.old, &self.new) {
            // The values differ only in their secrets, which the mask hides.
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

/// Maximum number of characters of a value; longer values are truncated.
const LONGEST: usize = 160;
/// Number of unchanged characters that are shown around a difference in a long text.
const AROUND: usize = 16;
/// Changed strings of at most this number of characters are shown completely.
const SHORT: usize = 60;

/// Formats a change as `old → new`. Of long strings, shows only the part that differs: `…same [-old-]{+new+} same…`.
fn transition(old: &Json, new: &Json) -> String {
    if let (Some(before), Some(after)) = (old.view().as_str(), new.view().as_str())
        && before.chars().count().max(after.chars().count()) > SHORT
        && let Some(words) = words(&before, &after)
    {
        return words;
    }
    format!("{} → {}", short_text(old), short_text(new))
}

/// The text of a value, truncated if it is long.
pub fn short_text(value: &Json) -> String {
    cut(value.as_str())
}

/// Truncates a text after [`LONGEST`] characters.
fn cut(text: &str) -> String {
    if text.chars().count() <= LONGEST {
        return text.to_owned();
    }
    let start: String = text.chars().take(LONGEST).collect();
    format!("{start}… ({} bytes)", text.len())
}

/// Formats the difference between two texts, from the first to the last differing word. Returns `None` if the texts
/// have no common word at the beginning or end.
fn words(old: &str, new: &str) -> Option<String> {
    let (old, new): (Vec<char>, Vec<char>) = (old.chars().collect(), new.chars().collect());
    let both = old.len().min(new.len());
    let same = |pairs: &mut dyn Iterator<Item = (&char, &char)>| pairs.take_while(|(a, b)| a == b).count();
    let mut head = same(&mut old.iter().zip(&new));
    let mut tail = same(&mut old.iter().rev().zip(new.iter().rev())).min(both - head);
    let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    // Extend the difference at both ends to whole words.
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
    let (removed, added) = (&old[head..old.len() - tail], &new[head..new.len() - tail]);
    let part_text = |open: &str, part: &[char], close: &str| {
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
        part_text("[-", removed, "-]"),
        part_text("{+", added, "+}"),
        text(&after[..after.len().min(AROUND)]),
        if tail > AROUND { "…" } else { "" },
    ))
}

#[cfg(test)]
mod tests {
    use super::transition;
    use crate::json::Json;

    fn shown(old: &str, new: &str) -> String {
        transition(&Json::from_string(old), &Json::from_string(new))
    }

    #[test]
    fn short_values_are_shown_completely() {
        assert_eq!(shown("a", "b"), r#""a" → "b""#);
    }

    #[test]
    fn long_texts_show_only_the_differing_words() {
        let line = "the quick brown fox jumps over the lazy dog and runs away into the forest";
        assert_eq!(
            shown(line, &line.replace("lazy", "hazy")),
            r#""… jumps over the [-lazy-]{+hazy+} dog and runs aw…""#
        );
        assert_eq!(
            shown(line, &format!("{line} again")),
            r#""…s away into the [-forest-]{+forest again+}""#
        );
    }

    #[test]
    fn transition_handles_empty_and_non_ascii_texts() {
        let long = "ä".repeat(400);
        for (old, new) in [
            ("", &*long),
            (&*long, ""),
            (&*long, "äß"),
            (&*long, &*format!("{long}ä")),
        ] {
            assert!(shown(old, new).chars().count() < 900);
        }
    }
}
