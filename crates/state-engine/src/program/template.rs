//! Texts with references in them.

use super::node::{OPENING, Path, Place, Text, is_name_character};
use super::problem::{Problem, Problems};
use std::fmt;

/// The name that references to settings begin with; no resource has it.
pub(super) const CONFIG: &str = "config";

/// The step that leads to the provider's name for an object.
pub(super) const ID: &str = "id";

/// What a text is.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Template {
    /// Nothing but text.
    Plain(String),
    /// One reference and nothing else: the value as it is.
    Whole(Reference),
    /// Pieces that are joined to a text.
    Joined(Vec<Piece>),
}

/// A piece of a text.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Piece {
    Text(String),
    Reference(Reference),
}

/// Stands for a value of something else.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Reference {
    /// Where it stands.
    pub(super) place: Place,
    /// A resource; none for the settings.
    pub(super) resource: Option<String>,
    /// An output of the resource, or `id`; a setting.
    pub(super) name: String,
    /// The way on from there.
    pub(super) steps: Vec<Step>,
}

/// A step into a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Member(String),
    Element(usize),
}

/// As it is written.
impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = Path::Whole;
        let path = path.member(self.resource.as_deref().unwrap_or(CONFIG));
        write!(f, "${{{}", path.member(&self.name))?;
        for step in &self.steps {
            write!(f, "{step}")?;
        }
        f.write_str("}")
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Member(name) if !name.is_empty() && name.chars().all(is_name_character) => {
                write!(f, ".{name}")
            }
            Self::Member(name) => write!(f, "[{name:?}]"),
            Self::Element(index) => write!(f, "[{index}]"),
        }
    }
}

impl Template {
    /// Reads a text; what is wrong with its references is told, each at its place.
    pub(super) fn read(text: &Text, place: Place, path: &Path<'_>, problems: &mut Problems) -> Self {
        let mut stored_items = Vec::new();
        let mut plain = String::new();
        let mut rest = text.text.as_str();
        let mut openings = text.openings.iter();
        while let Some(at) = rest.find(OPENING) {
            let place = openings.next().copied().unwrap_or(place);
            let (before, inside) = (&rest[..at], &rest[at + OPENING.len()..]);
            if let Some(before) = before.strip_suffix('$') {
                plain.push_str(before);
                plain.push_str(OPENING);
                rest = inside;
                continue;
            }
            plain.push_str(before);
            match Scan(inside).reference(place) {
                Ok((reference, after)) => {
                    if !plain.is_empty() {
                        stored_items.push(Piece::Text(std::mem::take(&mut plain)));
                    }
                    stored_items.push(Piece::Reference(reference));
                    // What stands in quotes in the reference may look like an opening.
                    let inner = &inside[..inside.len() - after.len()];
                    openings
                        .by_ref()
                        .take(inner.matches(OPENING).count())
                        .for_each(drop);
                    rest = after;
                }
                Err(reason) => {
                    let hint = format!("write `$${{` for a literal `{OPENING}`");
                    problems.add(Problem::at(place, path, reason).with_hint(hint));
                    rest = inside;
                }
            }
        }
        plain.push_str(rest);
        match stored_items.as_slice() {
            [] => return Self::Plain(plain),
            [Piece::Reference(reference)] if plain.is_empty() => return Self::Whole(reference.clone()),
            _ => {}
        }
        if !plain.is_empty() {
            stored_items.push(Piece::Text(plain));
        }
        Self::Joined(stored_items)
    }
}

/// What is left to read of a reference.
struct Scan<'t>(&'t str);

impl<'t> Scan<'t> {
    /// The reference behind its opening, and what stands behind it.
    fn reference(mut self, place: Place) -> Result<(Reference, &'t str), String> {
        let first = self
            .name()
            .ok_or("a reference begins with the name of a resource, or with `config`")?;
        let mut steps = Vec::new();
        while let Some(step) = self.step()? {
            steps.push(step);
        }
        let Some(behind) = self.0.strip_prefix('}') else {
            return Err(match self.0.chars().next() {
                Some(character) if !character.is_whitespace() => {
                    format!("`{}` can't stand in a reference", character.escape_debug())
                }
                _ => format!("the reference to `{first}` isn't closed with a `}}`"),
            });
        };
        let mut steps = steps.into_iter();
        let resource = (first != CONFIG).then(|| first.to_owned());
        let Some(Step::Member(name)) = steps.next() else {
            return Err(match resource {
                Some(name) => {
                    format!("`{name}` alone is no value: say which output, as in `${{{name}.{ID}}}`")
                }
                None => "`config` alone is no value: say which setting, as in `${config.name}`".to_owned(),
            });
        };
        let steps = steps.collect();
        let reference = Reference {
            place,
            resource,
            name,
            steps,
        };
        Ok((reference, behind))
    }

    fn name(&mut self) -> Option<&'t str> {
        let end = self.0.find(|character| !is_name_character(character));
        let (name, rest) = self.0.split_at(end.unwrap_or(self.0.len()));
        self.0 = rest;
        (!name.is_empty()).then_some(name)
    }

    /// `.name`, `[0]` or `["any key"]`.
    fn step(&mut self) -> Result<Option<Step>, String> {
        if let Some(rest) = self.0.strip_prefix('.') {
            self.0 = rest;
            let name = self.name().ok_or("a name is missing behind the `.`")?;
            return Ok(Some(Step::Member(name.to_owned())));
        }
        let Some(rest) = self.0.strip_prefix('[') else {
            return Ok(None);
        };
        let (step, rest) = match rest.strip_prefix('"') {
            Some(rest) => quoted(rest).map(|(name, rest)| (Step::Member(name), rest)),
            None => element(rest),
        }
        .ok_or("between `[` and `]` stands a number, or a key in double quotes")?;
        self.0 = rest;
        Ok(Some(step))
    }
}

fn element(text: &str) -> Option<(Step, &str)> {
    let (digits, rest) = text.split_once(']')?;
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let index = is_number.then(|| digits.parse().ok()).flatten()?;
    Some((Step::Element(index), rest))
}

/// The key up to `"]`, and what stands behind; `\` takes the next character as it is.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut key = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => key.push(characters.next()?.1),
            '"' => return Some((key, text[at + 1..].strip_prefix(']')?)),
            _ => key.push(character),
        }
    }
    None
}
