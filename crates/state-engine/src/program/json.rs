//! JSON as a tree with places.

use super::document::{MAX_DEPTH, MAX_NODES};
use super::node::{Member, Node, Place, Text, Value};
use state_core::json::{Document, Kind, Limits, View};

/// The tree of a text that is strict JSON; none for any other text.
pub(super) fn read(text: &str) -> Option<Node> {
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

/// Goes through the text once, and counts lines on the way.
struct Reader<'t> {
    text: &'t str,
    at: usize,
    place: Place,
    nodes: usize,
}

impl Reader<'_> {
    /// The place of an offset that isn't behind.
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
                // Behind the bracket, for the first key.
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
