//! Reads the bytes of a document into a tree of [`Node`]s: chooses the JSON or YAML reader and enforces size limits.
//!
//! The reader of state files reads strict JSON, because it supports surrogate pairs and tabs, which the YAML parser
//! doesn't support. All other text is read as YAML. Both readers build the same tree for the same document.

use super::node::{Member, Node, Path, Place, Text, Value};
use super::problem::{Problem, Problems};
use super::yaml;
use state_core::json::{Document, Kind, Limits, View};

/// Maximum size of a document in bytes.
const MAX_BYTES: usize = 16 << 20;

/// Maximum nesting depth, the same as in a state.
pub(super) const MAX_DEPTH: usize = 64;

/// Maximum number of values in a document.
pub(super) const MAX_NODES: usize = 1_000_000;

/// Reads a document and adds its problems to `problems`. `None` if the document can't be read. A document with
/// duplicate names is reported and returned.
pub(super) fn read(bytes: &[u8], problems: &mut Problems) -> Option<Node> {
    let root = tree(bytes).map_err(|problem| problems.add(problem)).ok()?;
    root.report_duplicates(&Path::Whole, problems);
    Some(root)
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
        let reason = format!("control character (U+{:04X}) isn't allowed", u32::from(control));
        return Err(wrong(place, reason));
    }
    match json(text) {
        Some(root) => Ok(root),
        None => yaml::read(text),
    }
}

/// Whether the character is a control character that neither JSON nor YAML allows.
const fn is_control(character: char) -> bool {
    matches!(character, '\0'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}')
}

/// Creates a problem at a position of the text that belongs to no single member.
pub(super) fn wrong(place: Place, reason: impl Into<String>) -> Problem {
    Problem::at(place, &Path::Whole, reason)
}

/// Parses a strict JSON object. `None` for any other text, and for JSON that exceeds a limit: the YAML reader then
/// reads the text and reports the problem.
pub(super) fn json(text: &str) -> Option<Node> {
    if !text.trim_start().starts_with('{') {
        return None;
    }
    let limits = Limits {
        max_depth: MAX_DEPTH,
        max_bytes: usize::MAX,
        max_string_bytes: usize::MAX,
    };
    let document = Document::parse(text.as_bytes(), &limits).ok()?;
    let mut reader = Reader {
        text,
        at: 0,
        place: Place::START,
        nodes: 0,
    };
    let root = reader.node(document.root());
    (reader.nodes <= MAX_NODES).then_some(root)
}

/// Converts parsed JSON into nodes. Moves forward through the text once, and counts lines to determine the positions.
struct Reader<'t> {
    text: &'t str,
    at: usize,
    place: Place,
    nodes: usize,
}

impl Reader<'_> {
    /// The position of an offset, which must not be less than the current offset `at`.
    fn place_of(&mut self, offset: usize) -> Place {
        self.place = self.place.behind_all(&self.text[self.at..offset]);
        self.at = offset;
        self.place
    }

    fn node(&mut self, view: View<'_>) -> Node {
        self.nodes += 1;
        let place = self.place_of(view.offset());
        let value = match view.kind() {
            Kind::Null => Value::Null,
            Kind::Bool => Value::Bool(view.as_bool() == Some(true)),
            Kind::Number => Value::Number(view.text().to_owned()),
            Kind::String => {
                let text = view.as_str().unwrap_or_default().into_owned();
                Value::Text(Text::new(text, view.text(), place))
            }
            Kind::Array => {
                let elements = view.elements().into_iter().flatten();
                Value::List(elements.map(|element| self.node(element)).collect())
            }
            Kind::Object => {
                // Moves past the bracket, so that the search for the first key begins after it.
                self.place_of(view.offset() + 1);
                let members = view.members().into_iter().flatten();
                Value::Map(members.map(|(name, value)| self.member(&name, value)).collect())
            }
        };
        self.place_of(view.offset() + view.text().len());
        Node { place, value }
    }

    fn member(&mut self, name: &str, value: View<'_>) -> Member {
        let before = &self.text[self.at..];
        let key = before.find('"').unwrap_or_default();
        let place = self.place_of(self.at + key);
        Member {
            name: name.to_owned(),
            place,
            value: self.node(value),
        }
    }
}
