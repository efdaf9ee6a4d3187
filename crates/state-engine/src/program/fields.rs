//! Typed access to the members of a mapping in a document. Members of a wrong type are reported as problems.

use super::node::{Member, Node, OPENING, Path, Place, Text, Value, is_name_character};
use super::problem::{Problem, Problems};

/// A mapping with a fixed set of member names.
pub(super) struct Fields<'n, 'p> {
    members: &'n [Member],
    pub(super) path: &'p Path<'p>,
    /// Collects the problems of the members.
    pub(super) problems: &'p mut Problems,
}

/// A string and its position.
pub(super) struct Named<'n> {
    pub(super) text: &'n str,
    pub(super) place: Place,
}

impl<'n, 'p> Fields<'n, 'p> {
    /// Reads a node that must be a mapping, and reports members whose names aren't in `known`. Reports a node that
    /// isn't a mapping, and returns `None`.
    pub(super) fn of(
        node: &'n Node,
        known: &[&str],
        path: &'p Path<'p>,
        problems: &'p mut Problems,
    ) -> Option<Self> {
        let members = members(node, path, problems)?;
        for Member { name, place, .. } in members {
            if !known.contains(&name.as_str()) {
                let reason = match path {
                    Path::Whole => "unknown member of a program",
                    _ => "unknown member",
                };
                let problem = Problem::at(*place, &path.member(name), reason);
                problems.add_named(problem, name, known.iter().copied());
            }
        }
        Some(Self {
            members,
            path,
            problems,
        })
    }

    pub(super) fn get(&self, name: &str) -> Option<&'n Node> {
        let member = self.members.iter().find(|member| member.name == name);
        member.map(|member| &member.value)
    }

    /// A descriptive text, in which `${` has no special meaning. `None` if the member is missing or isn't a string.
    pub(super) fn prose(&mut self, name: &str) -> Option<String> {
        let node = self.get(name)?;
        text(node, &self.path.member(name), self.problems).map(|text| text.text.clone())
    }

    /// A string that must not contain references. `None` if the member is missing or invalid.
    pub(super) fn text(&mut self, name: &str) -> Option<Named<'n>> {
        literal(self.get(name)?, &self.path.member(name), self.problems)
    }

    /// A boolean; false if the member is missing.
    pub(super) fn flag(&mut self, name: &str) -> bool {
        self.choice(name) == Some(true)
    }

    /// A boolean. `None` if the member is missing or isn't a boolean.
    pub(super) fn choice(&mut self, name: &str) -> Option<bool> {
        let node = self.get(name)?;
        match node.value {
            Value::Bool(value) => Some(value),
            _ => {
                self.problem(other(node, &self.path.member(name), "`true` or `false`"));
                None
            }
        }
    }

    /// A list of strings that must not contain references. Invalid elements are reported and left out.
    pub(super) fn texts(&mut self, name: &str) -> Vec<Named<'n>> {
        let Some(node) = self.get(name) else {
            return Vec::new();
        };
        let path = self.path.member(name);
        let Value::List(elements) = &node.value else {
            self.problem(other(node, &path, "a list of strings"));
            return Vec::new();
        };
        let elements = elements.iter().enumerate();
        elements
            .filter_map(|(at, element)| literal(element, &path.element(at), self.problems))
            .collect()
    }

    /// Reads each member of an optional mapping with `read`, and leaves out the members for which `read` returns
    /// `None`. Members with invalid names are reported and left out.
    pub(super) fn named<T>(
        &mut self,
        name: &str,
        read: impl Fn(&Member, &Path<'_>, &mut Problems) -> Option<T>,
    ) -> Vec<T> {
        let path = self.path.member(name);
        let members = optional_members(self.get(name), &path, self.problems).iter();
        members
            .filter_map(|member| {
                let value = read(member, &path.member(&member.name), self.problems)?;
                is_name(member, &path, self.problems).then_some(value)
            })
            .collect()
    }

    pub(super) fn problem(&mut self, problem: Problem) {
        self.problems.add(problem);
    }
}

/// Returns the members of a mapping. Reports a node that isn't a mapping, and returns `None`.
pub(super) fn members<'n>(node: &'n Node, path: &Path<'_>, problems: &mut Problems) -> Option<&'n [Member]> {
    match &node.value {
        Value::Map(members) => Some(members),
        _ => {
            problems.add(other(node, path, "a mapping"));
            None
        }
    }
}

/// Returns the members of an optional mapping; none if the node is missing or null. Reports a node of another type.
pub(super) fn optional_members<'n>(
    node: Option<&'n Node>,
    path: &Path<'_>,
    problems: &mut Problems,
) -> &'n [Member] {
    let node = node.filter(|node| !matches!(node.value, Value::Null));
    let members = node.and_then(|node| members(node, path, problems));
    members.unwrap_or_default()
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
        let reason = "references are allowed in inputs and outputs only";
        problems.add(Problem::at(place, path, reason));
        return None;
    }
    Some(Named {
        text: &text.text,
        place: node.place,
    })
}

/// Creates a problem about a value of a wrong type.
pub(super) fn other(node: &Node, path: &Path<'_>, wanted: &str) -> Problem {
    let reason = format!("it must be {wanted}, not {}", node.kind());
    Problem::at(node.place, path, reason)
}

/// Whether a member's name is valid for a resource, a setting or an output. Reports an invalid name.
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
