//! The tree of a document ([`Node`]), with the position ([`Place`]) and the path ([`Path`]) of every value.

use super::problem::{Problem, Problems};
use state_core::Json;
use state_core::json::ObjectWriter;
use std::collections::BTreeMap;
use std::fmt;

/// A position in a document. Lines and columns count from 1, columns in characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) line: u64,
    pub(super) column: u64,
}

impl Place {
    /// The beginning of a document.
    pub(super) const START: Self = Self { line: 1, column: 1 };

    /// The position after a character at this position. `next` is the character that follows: as in YAML, `\r` and `\n`
    /// end a line, and `\r\n` ends one line.
    pub(super) const fn behind(self, character: char, next: Option<char>) -> Self {
        match (character, next) {
            ('\n', _) | ('\r', None) => self.next_line(),
            ('\r', Some(next)) if next != '\n' => self.next_line(),
            _ => Self {
                line: self.line,
                column: self.column + 1,
            },
        }
    }

    const fn next_line(self) -> Self {
        Self {
            line: self.line + 1,
            column: 1,
        }
    }

    /// The position after a text at this position.
    pub(super) fn behind_all(self, text: &str) -> Self {
        let mut characters = text.chars().peekable();
        let mut place = self;
        while let Some(character) = characters.next() {
            place = place.behind(character, characters.peek().copied());
        }
        place
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// A value and its position.
pub(super) struct Node {
    pub(super) place: Place,
    pub(super) value: Value,
}

/// The value of a node.
pub(super) enum Value {
    Null,
    Bool(bool),
    /// A number in JSON syntax, with all digits.
    Number(String),
    Text(Text),
    List(Vec<Node>),
    Map(Vec<Member>),
}

/// A string that may contain references.
pub(super) struct Text {
    pub(super) text: String,
    /// Positions of every `${` of the text in the document. Empty if they can't be determined, because an escape
    /// sequence in the source encodes one of the characters.
    pub(super) openings: Vec<Place>,
}

/// The characters that begin a reference.
pub(super) const OPENING: &str = "${";

impl Text {
    /// Creates a text from its value and from `written`, its form in the document: with quotes and escape sequences,
    /// and possibly on several lines. `place` is the position of `written`.
    pub(super) fn new(text: String, written: &str, place: Place) -> Self {
        let mut openings = Vec::new();
        let count = text.matches(OPENING).count();
        if count > 0 && written.matches(OPENING).count() == count {
            let (mut at, mut from) = (place, 0);
            for (opening, _) in written.match_indices(OPENING) {
                at = at.behind_all(&written[from..opening]);
                from = opening;
                openings.push(at);
            }
        }
        Self { text, openings }
    }
}

/// One member of a mapping.
pub(super) struct Member {
    pub(super) name: String,
    pub(super) place: Place,
    pub(super) value: Node,
}

impl Node {
    /// Name of the value's type, for messages.
    pub(super) const fn kind(&self) -> &'static str {
        match self.value {
            Value::Null => "nothing",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::Text(_) => "a string",
            Value::List(_) => "a list",
            Value::Map(_) => "a mapping",
        }
    }

    /// The node as JSON. Duplicate names in the document stay duplicate.
    pub(super) fn json(&self) -> String {
        match &self.value {
            Value::Null => "null".to_owned(),
            Value::Bool(value) => value.to_string(),
            Value::Number(number) => number.clone(),
            Value::Text(Text { text, .. }) => Json::from_string(text).as_str().to_owned(),
            Value::List(elements) => {
                let elements: Vec<String> = elements.iter().map(Self::json).collect();
                format!("[{}]", elements.join(","))
            }
            Value::Map(members) => object(
                members
                    .iter()
                    .map(|Member { name, value, .. }| (&**name, value.json())),
            ),
        }
    }

    /// Reports every name that occurs twice in one mapping.
    pub(super) fn report_duplicates(&self, path: &Path<'_>, problems: &mut Problems) {
        match &self.value {
            Value::List(elements) => {
                for (index, element) in elements.iter().enumerate() {
                    element.report_duplicates(&path.element(index), problems);
                }
            }
            Value::Map(members) => {
                let mut first: BTreeMap<&str, Place> = BTreeMap::new();
                for Member { name, place, value } in members {
                    let path = path.member(name);
                    if let Some(before) = first.get(name.as_str()) {
                        let reason = format!("duplicate name, first used at {before}");
                        let hint = "rename one of them";
                        problems.add(Problem::at(*place, &path, reason).with_hint(hint));
                    } else {
                        first.insert(name, *place);
                    }
                    value.report_duplicates(&path, problems);
                }
            }
            _ => {}
        }
    }
}

/// Builds a JSON object from names and values. The values are JSON texts.
pub(super) fn object<'m>(members: impl IntoIterator<Item = (&'m str, impl AsRef<str>)>) -> String {
    let mut json = String::new();
    let mut object = ObjectWriter::new(&mut json);
    for (name, value) in members {
        object.raw(name, value.as_ref());
    }
    object.finish();
    json
}

/// Writes a comma unless `count`, the number of preceding elements, is 0.
pub(super) fn separate(out: &mut String, count: usize) {
    if count > 0 {
        out.push(',');
    }
}

/// Path of a value in a document, such as `resources.page.inputs.tags[0]`.
pub(super) enum Path<'p> {
    Whole,
    Member(&'p Path<'p>, &'p str),
    Element(&'p Path<'p>, usize),
}

impl<'p> Path<'p> {
    pub(super) const fn member(&'p self, name: &'p str) -> Self {
        Self::Member(self, name)
    }

    pub(super) const fn element(&'p self, index: usize) -> Self {
        Self::Element(self, index)
    }
}

/// Maximum number of characters of a name in a path. A longer name is truncated.
const LONGEST_NAME: usize = 60;

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole => Ok(()),
            Self::Member(Self::Whole, name) if is_plain(name) => f.write_str(name),
            Self::Member(before, name) if is_plain(name) => write!(f, "{before}.{name}"),
            Self::Member(before, name) => {
                let shown: String = name.chars().take(LONGEST_NAME).collect();
                write!(f, "{before}[{shown:?}]")
            }
            Self::Element(before, index) => write!(f, "{before}[{index}]"),
        }
    }
}

/// Whether a name needs no quotes in a path or a reference.
pub(super) fn is_plain(name: &str) -> bool {
    (1..=LONGEST_NAME).contains(&name.len()) && name.chars().all(is_name_character)
}

/// Whether a character is allowed in names of resources, settings and outputs.
pub(super) const fn is_name_character(character: char) -> bool {
    matches!(character, 'A'..='Z' | 'a'..='z' | '0'..='9' | '_' | '-')
}
