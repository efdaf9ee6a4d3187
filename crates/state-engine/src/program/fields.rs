//! Members of a mapping by name, each of the type that it must have.

use super::node::{Member, Node, OPENING, Path, Place, Text, Value, is_name_character};
use super::problem::{Problem, Problems};

/// A mapping whose members are known by name.
pub(super) struct Fields<'n, 'p> {
    members: &'n [Member],
    path: &'p Path<'p>,
}

/// A text and its place.
pub(super) struct Named<'n> {
    pub(super) text: &'n str,
    pub(super) place: Place,
}

impl<'n, 'p> Fields<'n, 'p> {
    /// The members of a node that must be a mapping. Those that nobody knows are told.
    pub(super) fn of(
        node: &'n Node,
        known: &[&str],
        path: &'p Path<'p>,
        problems: &mut Problems,
    ) -> Option<Self> {
        let members = members(node, path, problems)?;
        for Member { name, place, .. } in members {
            if !known.contains(&name.as_str()) {
                let reason = match path {
                    Path::Whole => "a program has no such member",
                    _ => "there is no such member",
                };
                let problem = Problem::at(*place, &path.member(name), reason);
                problems.add_named(problem, name, known.iter().copied());
            }
        }
        Some(Self { members, path })
    }

    pub(super) fn get(&self, name: &str) -> Option<&'n Node> {
        let member = self.members.iter().find(|member| member.name == name);
        member.map(|member| &member.value)
    }

    /// A text for people, taken as it is.
    pub(super) fn prose(&self, name: &str, problems: &mut Problems) -> Option<String> {
        let node = self.get(name)?;
        text(node, &self.path.member(name), problems).map(|text| text.text.clone())
    }

    /// A text in which no references stand.
    pub(super) fn text(&self, name: &str, problems: &mut Problems) -> Option<Named<'n>> {
        literal(self.get(name)?, &self.path.member(name), problems)
    }

    /// A boolean; false if it isn't there.
    pub(super) fn flag(&self, name: &str, problems: &mut Problems) -> bool {
        self.choice(name, problems) == Some(true)
    }

    /// A boolean, if it is there.
    pub(super) fn choice(&self, name: &str, problems: &mut Problems) -> Option<bool> {
        let node = self.get(name)?;
        match node.value {
            Value::Bool(value) => Some(value),
            _ => {
                problems.add(other(node, &self.path.member(name), "`true` or `false`"));
                None
            }
        }
    }

    /// A list of texts in which no references stand.
    pub(super) fn texts(&self, name: &str, problems: &mut Problems) -> Vec<Named<'n>> {
        let Some(node) = self.get(name) else {
            return Vec::new();
        };
        let path = self.path.member(name);
        let Value::List(elements) = &node.value else {
            problems.add(other(node, &path, "a list of strings"));
            return Vec::new();
        };
        let elements = elements.iter().enumerate();
        elements
            .filter_map(|(at, element)| literal(element, &path.element(at), problems))
            .collect()
    }
}

/// The members of what must be a mapping.
pub(super) fn members<'n>(node: &'n Node, path: &Path<'_>, problems: &mut Problems) -> Option<&'n [Member]> {
    match &node.value {
        Value::Map(members) => Some(members),
        _ => {
            problems.add(other(node, path, "a mapping"));
            None
        }
    }
}

/// The same where nothing stands for an empty one.
pub(super) fn optional_members<'n>(
    node: Option<&'n Node>,
    path: &Path<'_>,
    problems: &mut Problems,
) -> &'n [Member] {
    match node {
        None
        | Some(Node {
            value: Value::Null, ..
        }) => &[],
        Some(node) => members(node, path, problems).unwrap_or_default(),
    }
}

fn text<'n>(node: &'n Node, path: &Path<'_>, problems: &mut Problems) -> Option<&'n Text> {
    match &node.value {
        Value::Text(text) => Some(text),
        _ => {
            problems.add(other(node, path, "a string").with_hint("put it in quotes"));
            None
        }
    }
}

fn literal<'n>(node: &'n Node, path: &Path<'_>, problems: &mut Problems) -> Option<Named<'n>> {
    let text = text(node, path, problems)?;
    if text.text.contains(OPENING) {
        let place = text.openings.first().copied().unwrap_or(node.place);
        let reason = "this is taken as it is: references stand in inputs and outputs only";
        problems.add(Problem::at(place, path, reason));
        return None;
    }
    Some(Named {
        text: &text.text,
        place: node.place,
    })
}

/// Something has another type than it must have.
pub(super) fn other(node: &Node, path: &Path<'_>, wanted: &str) -> Problem {
    Problem::at(
        node.place,
        path,
        format!("it must be {wanted}, not {}", node.kind()),
    )
}

/// Whether a member's name is one of a resource, a setting or an output; else it is told.
pub(super) fn is_name(member: &Member, path: &Path<'_>, problems: &mut Problems) -> bool {
    const MAX_CHARACTERS: usize = 200;
    let Member { name, place, .. } = member;
    let is_right = !name.is_empty() && name.len() <= MAX_CHARACTERS && name.chars().all(is_name_character);
    if !is_right {
        let reason = format!("a name is 1 to {MAX_CHARACTERS} characters of A-Z, a-z, 0-9, `_` and `-`");
        problems.add(Problem::at(*place, &path.member(name), reason));
    }
    is_right
}
