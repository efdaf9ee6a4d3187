//! Stretches of a JSON text: which values in it are sealed or to be sealed, and the text with them replaced.

use crate::error::{Error, Result};
use crate::place::Place;
use state_core::json::{Document, Kind, Limits, View, write_string};
use state_core::sensitive::SecretStretch;
use state_core::{Json, sealed};
use std::borrow::Cow;
use std::ops::Range;

/// A sealed value is an object, one level deeper than a string: values that stand very deep are sealed with what is
/// around them, so that what was legal stays readable.
const MAX_STEPS: usize = 60;

/// The longest string of a sealed value, in bytes; more go to an array. Readers refuse strings of 16 MiB.
const MAX_STRING: usize = 8 << 20;

/// One value in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub(crate) pointer: String,
    pub(crate) range: Range<usize>,
}

impl Stretch {
    pub(crate) fn of(pointer: String, view: View<'_>) -> Self {
        Self {
            pointer,
            range: view.offset()..view.offset() + view.text().len(),
        }
    }

    pub(crate) fn contains(&self, other: &Self) -> bool {
        self.range.start <= other.range.start && other.range.end <= self.range.end
    }
}

impl From<SecretStretch> for Stretch {
    fn from(stretch: SecretStretch) -> Self {
        Self {
            pointer: stretch.pointer,
            range: stretch.range,
        }
    }
}

/// A key or index as a step of a JSON pointer.
pub(crate) fn step(key: &str) -> String {
    format!("/{}", key.replace('~', "~0").replace('/', "~1"))
}

/// All objects that have a member `$sealed`, outermost only, in the order of the text.
pub(crate) fn with_member(json: &Json) -> Vec<Stretch> {
    // Canonical text escapes nothing in this name.
    if !json.as_str().contains("\"$sealed\":") {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut open = vec![(String::new(), json.view())];
    while let Some((pointer, view)) = open.pop() {
        match view.kind() {
            Kind::Object if view.get(sealed::MEMBER).is_some() => found.push(Stretch::of(pointer, view)),
            Kind::Object => {
                let members = view.members().into_iter().flatten();
                open.extend(members.map(|(key, value)| (format!("{pointer}{}", step(&key)), value)));
            }
            Kind::Array => {
                let elements = view.elements().into_iter().flatten().enumerate();
                open.extend(elements.map(|(index, value)| (format!("{pointer}/{index}"), value)));
            }
            _ => {}
        }
    }
    found.sort_by_key(|stretch| stretch.range.start);
    found
}

/// The members of an object, each as a stretch.
pub(crate) fn fields(json: &Json) -> Vec<Stretch> {
    let members = json.view().members().into_iter().flatten();
    members
        .map(|(key, value)| Stretch::of(step(&key), value))
        .collect()
}

/// The union of stretches of one text: in order, none in another, none too deep.
pub(crate) fn united(json: &Json, stretches: impl IntoIterator<Item = Stretch>) -> Vec<Stretch> {
    let mut all: Vec<Stretch> = stretches
        .into_iter()
        .map(|stretch| raised(json, stretch))
        .collect();
    all.sort_by_key(|stretch| (stretch.range.start, usize::MAX - stretch.range.end));
    let mut united: Vec<Stretch> = Vec::with_capacity(all.len());
    for stretch in all {
        if !united.last().is_some_and(|outer| outer.contains(&stretch)) {
            united.push(stretch);
        }
    }
    united
}

fn raised(json: &Json, stretch: Stretch) -> Stretch {
    let Some((end, _)) = stretch.pointer.match_indices('/').nth(MAX_STEPS) else {
        return stretch;
    };
    let pointer = &stretch.pointer[..end];
    let view = json.view().pointer(pointer);
    view.map_or_else(|| stretch.clone(), |view| Stretch::of(pointer.to_owned(), view))
}

/// The token of a sealed value, if it has exactly its form.
pub(crate) fn token(view: View<'_>) -> Option<Cow<'_, str>> {
    sealed::key_of(view)?;
    let held = view.get(sealed::MEMBER)?;
    let Some(parts) = held.elements() else {
        return held.as_str().filter(|token| token.len() <= MAX_STRING);
    };
    let parts: Vec<Cow<'_, str>> = parts.map(|part| part.as_str()).collect::<Option<_>>()?;
    let (last, full) = parts.split_last()?;
    let is_cut_right = !full.is_empty()
        && full.iter().all(|part| part.len() == MAX_STRING)
        && (1..=MAX_STRING).contains(&last.len());
    is_cut_right.then(|| parts.concat().into())
}

/// Appends the sealed value of a token.
pub(crate) fn push_sealed(out: &mut String, token: &str) {
    out.push_str("{\"$sealed\":");
    if token.len() <= MAX_STRING {
        write_string(out, token);
    } else {
        // Tokens are ASCII: every cut is a boundary of characters.
        let mut rest = token;
        let mut open = '[';
        while !rest.is_empty() {
            let (part, more) = rest.split_at(rest.len().min(MAX_STRING));
            out.push(open);
            write_string(out, part);
            (rest, open) = (more, ',');
        }
        out.push(']');
    }
    out.push('}');
}

/// The value of a text that was put together here, of any size and depth.
pub(crate) fn json_of(text: &str, place: &Place<'_>, path: &str) -> Result<Json> {
    let limits = Limits {
        max_depth: usize::MAX,
        max_bytes: usize::MAX,
        max_string_bytes: usize::MAX,
    };
    let json = Document::parse(text.as_bytes(), &limits).map(|document| Json::from_view(document.root()));
    json.ok()
        .filter(|json| json.as_str() == text)
        .ok_or_else(|| Error::Malformed {
            place: place.at(path),
            reason: "what was sealed isn't canonical JSON",
        })
}

#[cfg(test)]
mod tests;
