//! Reads YAML into a tree of [`Node`]s with positions. The tree is built from the events of the crate `saphyr_parser`.

use super::document::{MAX_DEPTH, MAX_NODES, wrong};
use super::node::{Member, Node, OPENING, Place, Text, Value};
use super::problem::Problem;
use super::scalar;
use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Span, StrInput, Tag};
use std::borrow::Cow;

/// Reads the single document of a text.
pub(super) fn read(text: &str) -> Result<Node, Problem> {
    let mut reader = Reader {
        cursor: Cursor {
            text,
            index: 0,
            at: 0,
        },
        open: Vec::new(),
        root: None,
        documents: 0,
        nodes: 0,
    };
    let mut parser: Parser<'_, StrInput<'_>> = Parser::new_from_str(text);
    while let Some(event) = parser.next_event() {
        let (event, span) = event.map_err(|error| malformed(text, &error))?;
        reader.take(event, span)?;
    }
    reader.root.ok_or_else(|| {
        wrong(Place::START, "the document is empty")
            .with_hint("a program needs at least the member `resources`")
    })
}

fn malformed(text: &str, error: &ScanError) -> Problem {
    let place = place_of(*error.marker());
    let mut characters = text.chars().skip(error.marker().index().saturating_sub(1));
    let hint = match (characters.next(), characters.next()) {
        // In `{ a: ${b.c} }` the brace opens a mapping, which the parser's message doesn't explain.
        (Some('$'), Some('{')) => "quote a string with a reference inside `{ }` and `[ ]`",
        _ => "the document must be YAML 1.2 or JSON",
    };
    wrong(place, format!("syntax error: {}", error.info())).with_hint(hint)
}

fn place_of(marker: Marker) -> Place {
    Place {
        line: marker.line() as u64,
        column: marker.col() as u64 + 1,
    }
}

struct Reader<'t> {
    cursor: Cursor<'t>,
    /// The lists and mappings whose end wasn't read yet, the innermost last.
    open: Vec<Open>,
    root: Option<Node>,
    documents: usize,
    nodes: usize,
}

/// A list or mapping whose end wasn't read yet.
struct Open {
    place: Place,
    inside: Inside,
}

enum Inside {
    List(Vec<Node>),
    Map {
        members: Vec<Member>,
        /// The key whose value comes next.
        key: Option<(String, Place)>,
    },
}

impl Open {
    /// Whether the next value is a key of a mapping.
    const fn wants_key(&self) -> bool {
        matches!(&self.inside, Inside::Map { key: None, .. })
    }
}

impl<'t> Reader<'t> {
    fn take(&mut self, event: Event<'t>, span: Span) -> Result<(), Problem> {
        let place = place_of(span.start);
        match event {
            Event::DocumentStart(_) => {
                self.documents += 1;
                if self.documents > 1 {
                    return Err(wrong(place, "a second document begins here")
                        .with_hint("a program is a single document"));
                }
                Ok(())
            }
            Event::Alias(_) => Err(anchored(place)),
            Event::Scalar(_, _, anchor, _)
            | Event::SequenceStart(anchor, _)
            | Event::MappingStart(anchor, _)
                if anchor != 0 =>
            {
                Err(anchored(place))
            }
            Event::Scalar(text, style, _, tag) => self.scalar(text, style, tag.as_deref(), span),
            Event::SequenceStart(_, tag) => {
                self.begin(place, Inside::List(Vec::new()), tag.as_deref(), "seq")
            }
            Event::MappingStart(_, tag) => {
                let (members, key) = (Vec::new(), None);
                self.begin(place, Inside::Map { members, key }, tag.as_deref(), "map")
            }
            Event::SequenceEnd | Event::MappingEnd => {
                self.end();
                Ok(())
            }
            Event::StreamStart | Event::StreamEnd | Event::DocumentEnd | Event::Nothing => Ok(()),
        }
    }

    fn scalar(
        &mut self,
        text: Cow<'t, str>,
        style: ScalarStyle,
        tag: Option<&Tag>,
        span: Span,
    ) -> Result<(), Problem> {
        let place = place_of(span.start);
        if let Some(Open {
            inside: Inside::Map { key: key @ None, .. },
            ..
        }) = self.open.last_mut()
        {
            if style == ScalarStyle::Plain && text == "<<" {
                return Err(wrong(place, "merge keys aren't supported").with_hint("write out the members"));
            }
            if tag.is_some() {
                return Err(wrong(place, "a key can't have a tag"));
            }
            *key = Some((text.into_owned(), place));
            return Ok(());
        }
        let value = self.value(text, style, tag, span)?;
        self.attach(Node { place, value });
        self.count(place)
    }

    fn value(
        &mut self,
        text: Cow<'t, str>,
        style: ScalarStyle,
        tag: Option<&Tag>,
        span: Span,
    ) -> Result<Value, Problem> {
        let place = place_of(span.start);
        let is_plain = style == ScalarStyle::Plain;
        let plain = |text: &str| scalar::plain(text).map_err(|reason| wrong(place, reason));
        let found = match tag.map(core_tag) {
            None if is_plain => plain(&text)?,
            None | Some(Some("str")) => None,
            Some(Some(name)) => {
                let found = plain(&text)?;
                let fits = match &found {
                    Some(Value::Null) => name == "null",
                    Some(Value::Bool(_)) => name == "bool",
                    Some(Value::Number(number)) => {
                        name == "float" || name == "int" && !number.contains(['.', 'e', 'E'])
                    }
                    _ => false,
                };
                if !fits {
                    return Err(wrong(place, format!("this value isn't a valid `!!{name}`")));
                }
                found
            }
            Some(None) => return Err(foreign_tag(place)),
        };
        Ok(found.unwrap_or_else(|| {
            let written = match text.contains(OPENING) {
                true => self.cursor.between(span),
                false => "",
            };
            Value::Text(Text::new(text.into_owned(), written, place))
        }))
    }

    fn begin(&mut self, place: Place, inside: Inside, tag: Option<&Tag>, name: &str) -> Result<(), Problem> {
        if tag.is_some_and(|tag| core_tag(tag) != Some(name)) {
            return Err(foreign_tag(place));
        }
        if self.open.last().is_some_and(Open::wants_key) {
            return Err(wrong(place, "a key must be a scalar, not a list or a mapping"));
        }
        if self.open.len() == MAX_DEPTH {
            return Err(wrong(
                place,
                format!("it is nested deeper than {MAX_DEPTH} levels"),
            ));
        }
        self.open.push(Open { place, inside });
        self.count(place)
    }

    /// Closes the innermost list or mapping. The parser sends one end event for each start event, so one is open.
    fn end(&mut self) {
        let Some(Open { place, inside }) = self.open.pop() else {
            return;
        };
        let value = match inside {
            Inside::List(elements) => Value::List(elements),
            Inside::Map { members, .. } => Value::Map(members),
        };
        self.attach(Node { place, value });
    }

    fn count(&mut self, place: Place) -> Result<(), Problem> {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            return Err(wrong(place, format!("it has more than {MAX_NODES} values")));
        }
        Ok(())
    }

    fn attach(&mut self, value: Node) {
        match self.open.last_mut().map(|open| &mut open.inside) {
            None => self.root = Some(value),
            Some(Inside::List(elements)) => elements.push(value),
            Some(Inside::Map { members, key }) => {
                if let Some((name, place)) = key.take() {
                    members.push(Member { name, place, value });
                }
            }
        }
    }
}

fn anchored(place: Place) -> Problem {
    let hint = "write out the value, or make it a setting under `config`";
    wrong(place, "anchors and aliases aren't supported").with_hint(hint)
}

fn foreign_tag(place: Place) -> Problem {
    wrong(place, "unknown tag").with_hint("remove it")
}

/// Returns the name of a tag of the core schema. The tag `!` means a string, so its name is `str`. Returns `None` for
/// any other tag.
fn core_tag(tag: &Tag) -> Option<&str> {
    const NAMES: [&str; 7] = ["str", "int", "float", "bool", "null", "seq", "map"];
    if tag.is_yaml_core_schema() {
        return NAMES.into_iter().find(|name| *name == tag.suffix);
    }
    (tag.handle.is_empty() && tag.suffix == "!" || tag.handle == "!" && tag.suffix.is_empty())
        .then_some("str")
}

/// Converts the parser's positions, which count characters, to byte offsets. Positions in ascending order need only one
/// pass over the text.
struct Cursor<'t> {
    text: &'t str,
    /// Current position in characters.
    index: usize,
    /// Current position in bytes.
    at: usize,
}

impl<'t> Cursor<'t> {
    fn offset(&mut self, marker: Marker) -> usize {
        if marker.index() < self.index {
            (self.index, self.at) = (0, 0);
        }
        let mut characters = self.text[self.at..].char_indices();
        let ahead = characters.nth(marker.index() - self.index);
        self.at = ahead.map_or(self.text.len(), |(ahead, _)| self.at + ahead);
        self.index = marker.index();
        self.at
    }

    /// Returns the text of a span as it is written in the document.
    fn between(&mut self, span: Span) -> &'t str {
        let begin = self.offset(span.start);
        let end = self.offset(span.end);
        self.text.get(begin..end).unwrap_or_default()
    }
}
