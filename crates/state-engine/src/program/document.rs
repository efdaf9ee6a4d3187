//! From bytes to a tree: what is read, by which reader, and how much of it.
//!
//! What is strict JSON is read by the reader of states: it knows the escapes that YAML doesn't (pairs of surrogates), and
//! takes tabs. All else is YAML. Both give the same tree for the same document.

use super::json;
use super::node::{Node, Path, Place};
use super::problem::{Problem, Problems};
use super::yaml;

/// A longer document isn't read.
const MAX_BYTES: usize = 16 << 20;

/// Lists and mappings may stand so deep in one another: as deep as in a state.
pub(super) const MAX_DEPTH: usize = 64;

/// A document of more values isn't read.
pub(super) const MAX_NODES: usize = 1_000_000;

/// Reads a document; names that stand twice are told.
pub(super) fn read(bytes: &[u8], problems: &mut Problems) -> Option<Node> {
    match tree(bytes) {
        Ok(root) => {
            root.find_twins(&Path::Whole, problems);
            Some(root)
        }
        Err(problem) => {
            problems.add(problem);
            None
        }
    }
}

fn tree(bytes: &[u8]) -> Result<Node, Problem> {
    if bytes.len() > MAX_BYTES {
        let reason = format!("it is longer than {} MiB", MAX_BYTES >> 20);
        return Err(wrong(Place::START, reason));
    }
    let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let valid = std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default();
        let place = Place::START.behind_all(valid);
        wrong(place, "this isn't UTF-8").with_hint("save the document as UTF-8")
    })?;
    if let Some((at, control)) = text.char_indices().find(|(_, character)| is_control(*character)) {
        let place = Place::START.behind_all(&text[..at]);
        let reason = format!("a control character (U+{:04X}) stands here", u32::from(control));
        return Err(wrong(place, reason));
    }
    match json::read(text) {
        Some(root) => Ok(root),
        None => yaml::read(text),
    }
}

/// What neither JSON nor YAML may hold.
const fn is_control(character: char) -> bool {
    matches!(character, '\0'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}')
}

/// A problem of the text, not of a member.
pub(super) fn wrong(place: Place, reason: impl Into<String>) -> Problem {
    Problem::at(place, &Path::Whole, reason)
}
