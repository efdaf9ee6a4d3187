//! Parses the strings of a program into templates: literal text and references, such as `${config.dir}`.

use super::node::{OPENING, Path, Place, Text, is_name_character};
use super::problem::{Problem, Problems};
use std::fmt;

/// The name that begins references to settings. The name is reserved, so no resource can have it.
pub(super) const CONFIG: &str = "config";

/// The output name that refers to the provider's id of an object.
pub(super) const ID: &str = "id";

/// A string, parsed for references.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Template {
    /// A literal string without references.
    Plain(String),
    /// One reference and nothing else. The result has the type of the referenced value.
    Whole(Reference),
    /// Literal pieces and references that are joined into one string.
    Joined(Vec<Piece>),
}

/// A piece of a template.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Piece {
    Text(String),
    Reference(Reference),
}

/// A reference to the value of a resource or a setting.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Reference {
    /// Position of the reference.
    pub(super) place: Place,
    /// Name of the resource. `None` for a setting.
    pub(super) resource: Option<String>,
    /// Name of the output or `id`, or name of the setting.
    pub(super) name: String,
    /// The members and elements that lead from the output or setting to the referenced part of its value.
    pub(super) steps: Vec<Step>,
}

/// One step into a value: a member of a mapping, or an element of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Member(String),
    Element(usize),
}

/// Writes the reference in its source form.
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
    /// Parses a string and reports problems of its references, each at its position.
    pub(super) fn read(text: &Text, place: Place, path: &Path<'_>, problems: &mut Problems) -> Self {
        let mut pieces = Vec::new();
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
                        pieces.push(Piece::Text(std::mem::take(&mut plain)));
                    }
                    pieces.push(Piece::Reference(reference));
                    // A quoted key in the reference may contain `${` too. `openings` contains the position of this
                    // `${`, which must not be used for the next reference.
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
        match pieces.as_slice() {
            [] => return Self::Plain(plain),
            [Piece::Reference(reference)] if plain.is_empty() => return Self::Whole(reference.clone()),
            _ => {}
        }
        if !plain.is_empty() {
            pieces.push(Piece::Text(plain));
        }
        Self::Joined(pieces)
    }
}

/// The text after the parsed part of a reference.
struct Scan<'t>(&'t str);

impl<'t> Scan<'t> {
    /// Parses a reference after its opening. Returns the reference and the text after it.
    fn reference(mut self, place: Place) -> Result<(Reference, &'t str), String> {
        let first = self
            .name()
            .ok_or("a reference must begin with the name of a resource, or with `config`")?;
        let mut steps = Vec::new();
        while let Some(step) = self.step()? {
            steps.push(step);
        }
        let Some(behind) = self.0.strip_prefix('}') else {
            return Err(match self.0.chars().next() {
                Some(character) if !character.is_whitespace() => {
                    format!("unexpected `{}` in a reference", character.escape_debug())
                }
                _ => format!("the reference to `{first}` has no closing `}}`"),
            });
        };
        let mut steps = steps.into_iter();
        let resource = (first != CONFIG).then(|| first.to_owned());
        let Some(Step::Member(name)) = steps.next() else {
            return Err(match resource {
                Some(name) => {
                    format!("`{name}` is incomplete: add an output, as in `${{{name}.{ID}}}`")
                }
                None => "`config` is incomplete: add a setting, as in `${config.name}`".to_owned(),
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

    /// Parses one step: `.name`, `[0]` or `["any key"]`. `None` if the text begins with no step.
    fn step(&mut self) -> Result<Option<Step>, String> {
        if let Some(rest) = self.0.strip_prefix('.') {
            self.0 = rest;
            let name = self.name().ok_or("a name is missing after the `.`")?;
            return Ok(Some(Step::Member(name.to_owned())));
        }
        let Some(rest) = self.0.strip_prefix('[') else {
            return Ok(None);
        };
        let (step, rest) = match rest.strip_prefix('"') {
            Some(rest) => quoted(rest).map(|(name, rest)| (Step::Member(name), rest)),
            None => element(rest),
        }
        .ok_or("expected a number or a key in double quotes between `[` and `]`")?;
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

/// Parses a key up to `"]`, in which `\` escapes the next character. Returns the key and the text after `"]`. `None` if
/// the key has no end.
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
