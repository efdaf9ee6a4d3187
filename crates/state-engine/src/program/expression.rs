//! Expressions: the values of inputs and outputs in a document, which may contain references. `evaluation.rs` evaluates
//! them.

use super::node::{Member, Node, OPENING, Path, Place, Value, object};
use super::problem::{Problem, Problems};
use super::template::{Piece, Reference, Template};
use state_core::Json;

/// A value that may contain references.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Expression {
    pub(super) place: Place,
    /// Path of the value in the document, for errors.
    pub(super) path: String,
    pub(super) form: Form,
}

/// The form of an [`Expression`].
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Form {
    /// A JSON value without references.
    Plain(String),
    /// A single reference. The result has the type of the referenced value.
    Reference(Reference),
    /// A string with embedded references.
    Joined(Vec<Piece>),
    /// A list with references in at least one element.
    List(Vec<Expression>),
    /// A mapping with references in at least one value. Its names are unique.
    Map(Vec<(String, Expression)>),
}

impl Expression {
    /// Reads a value of the document, and reports malformed references in it.
    pub(super) fn read(node: &Node, path: &Path<'_>, problems: &mut Problems) -> Self {
        let form = match &node.value {
            Value::Text(text) => match Template::read(text, node.place, path, problems) {
                Template::Plain(text) => Form::Plain(Json::from_string(&text).as_str().to_owned()),
                Template::Whole(reference) => Form::Reference(reference),
                Template::Joined(pieces) => Form::Joined(pieces),
            },
            Value::List(elements) => {
                let elements = elements.iter().enumerate();
                let read = elements.map(|(at, element)| Self::read(element, &path.element(at), problems));
                list(read.collect())
            }
            Value::Map(members) => map(Self::members(members, path, problems)),
            _ => Form::Plain(node.json()),
        };
        Self {
            place: node.place,
            path: path.to_string(),
            form,
        }
    }

    /// Reads the members of a mapping.
    pub(super) fn members(
        members: &[Member],
        path: &Path<'_>,
        problems: &mut Problems,
    ) -> Vec<(String, Self)> {
        let mut read = Vec::with_capacity(members.len());
        for Member { name, place, value } in members {
            let path = path.member(name);
            if name.contains(OPENING) {
                let reason = "references are allowed in values only, not in names";
                problems.add(Problem::at(*place, &path, reason));
            }
            read.push((name.clone(), Self::read(value, &path, problems)));
        }
        read
    }

    fn plain(&self) -> Option<&str> {
        match &self.form {
            Form::Plain(json) => Some(json),
            _ => None,
        }
    }

    /// Creates a problem at the position of the expression.
    pub(super) fn problem(&self, reason: String) -> Problem {
        self.problem_at(self.place, reason)
    }

    /// Creates a problem at a position inside the expression.
    pub(super) fn problem_at(&self, place: Place, reason: String) -> Problem {
        Problem::of(place, self.path.clone(), reason)
    }

    /// Every reference in the expression, with the path of the value that contains it.
    pub(super) fn references(&self) -> Vec<(&str, &Reference)> {
        let mut found = Vec::new();
        let mut open = vec![self];
        while let Some(expression) = open.pop() {
            match &expression.form {
                Form::Plain(_) => {}
                Form::Reference(reference) => found.push((expression.path.as_str(), reference)),
                Form::Joined(pieces) => {
                    let references = pieces.iter().filter_map(|piece| match piece {
                        Piece::Reference(reference) => Some(reference),
                        Piece::Text(_) => None,
                    });
                    found.extend(references.map(|reference| (expression.path.as_str(), reference)));
                }
                Form::List(elements) => open.extend(elements),
                Form::Map(members) => open.extend(members.iter().map(|(_, member)| member)),
            }
        }
        found
    }
}

fn list(elements: Vec<Expression>) -> Form {
    let plain: Option<Vec<&str>> = elements.iter().map(Expression::plain).collect();
    match plain {
        Some(plain) => Form::Plain(format!("[{}]", plain.join(","))),
        None => Form::List(elements),
    }
}

fn map(members: Vec<(String, Expression)>) -> Form {
    let plain = members
        .iter()
        .map(|(name, member)| Some((&**name, member.plain()?)));
    match plain.collect::<Option<Vec<(&str, &str)>>>() {
        Some(plain) => Form::Plain(object(plain)),
        None => Form::Map(members),
    }
}
