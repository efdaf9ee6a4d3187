//! The frame: the document without its resources, as compact text with placeholders.
//!
//! The frame keeps all other fields of the document in their order, including unknown ones.

use super::envelope::Envelope;
use super::resource::compact;
use state_core::json::{ArrayWriter, ObjectWriter, View, write_string};
use std::iter::once;

/// First character of a placeholder. JSON text contains no raw control character.
const ESCAPE: char = '\u{1}';

/// The text that replaces a placeholder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placeholder {
    /// The version number of the document.
    Version,
    /// The array of features.
    Features,
    /// The member `features`, omitted without features.
    MaybeFeatures,
    /// The array of resources.
    Resources,
    /// The array of resources, or `null` without resources.
    ResourcesOrNull,
    /// The member `resources`, omitted without resources.
    MaybeResources,
    /// The array of pending operations.
    Operations,
    /// The array of pending operations, or `null` without operations.
    OperationsOrNull,
    /// The member `pending_operations`, omitted without operations.
    MaybeOperations,
    /// The deployment, or `null` without resources and operations.
    LatestOrNull,
    /// The member `latest`, omitted without resources and operations.
    MaybeLatest,
}

impl Placeholder {
    const ALL: [(char, Self); 11] = [
        ('V', Self::Version),
        ('F', Self::Features),
        ('f', Self::MaybeFeatures),
        ('R', Self::Resources),
        ('N', Self::ResourcesOrNull),
        ('r', Self::MaybeResources),
        ('O', Self::Operations),
        ('Q', Self::OperationsOrNull),
        ('o', Self::MaybeOperations),
        ('M', Self::LatestOrNull),
        ('l', Self::MaybeLatest),
    ];
}

/// A text or placeholder of a frame.
pub(super) enum Piece<'f> {
    Text(&'f str),
    Placeholder(Placeholder),
}

/// Iterates over the pieces of a frame, in order.
pub(super) fn pieces(frame: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut parts = frame.split(ESCAPE);
    let first = parts.next().unwrap_or_default();
    let rest = parts.flat_map(|part| {
        let letter = part.chars().next().unwrap_or_default();
        let placeholder = Placeholder::ALL.iter().find(|(known, _)| *known == letter);
        let placeholder = placeholder.map(|(_, placeholder)| Piece::Placeholder(*placeholder));
        let text = Piece::Text(&part[letter.len_utf8().min(part.len())..]);
        placeholder.into_iter().chain(once(text))
    });
    once(Piece::Text(first)).chain(rest)
}

/// The frame for a document whose own frame was masked.
pub(super) fn plain(is_bare: bool) -> String {
    let (begin, end) = if is_bare {
        ("{\"stack\":\"\",\"latest\":", "}")
    } else {
        ("{\"version\":\u{1}V\u{1}f,\"deployment\":", "}")
    };
    format!("{begin}{}{end}", empty_deployment())
}

/// The frame of a deployment with an empty manifest.
pub(super) fn empty_deployment() -> String {
    let manifest = r#"{"time":"0001-01-01T00:00:00Z","magic":"","version":""}"#;
    format!("{{\"manifest\":{manifest}\u{1}r\u{1}o}}")
}

/// Creates the frame of a document. `magic` replaces the magic of the manifest.
pub(super) fn frame_of(root: View<'_>, envelope: &Envelope<'_>, magic: Option<&str>) -> String {
    let maker = FrameWriter { envelope, magic };
    let mut frame = String::new();
    maker.top(root, &mut frame);
    frame
}

struct FrameWriter<'e, 'a> {
    envelope: &'e Envelope<'a>,
    magic: Option<&'e str>,
}

impl FrameWriter<'_, '_> {
    fn top(&self, root: View<'_>, out: &mut String) {
        if self.envelope.version.is_none() {
            return self.checkpoint(root, out);
        }
        let has_features = root.get("features").is_some();
        object(root, out, |key, value, out| match key {
            "version" => {
                placeholder(Placeholder::Version, out);
                if !has_features {
                    placeholder(Placeholder::MaybeFeatures, out);
                }
            }
            "features" if !value.is_null() => placeholder(Placeholder::Features, out),
            "checkpoint" => self.checkpoint(value, out),
            "deployment" => self.deployment(value, out),
            _ => out.push_str(&compact(value)),
        });
    }

    fn checkpoint(&self, view: View<'_>, out: &mut String) {
        object(view, out, |key, value, out| match key {
            "latest" if value.is_null() => placeholder(Placeholder::LatestOrNull, out),
            "latest" => self.deployment(value, out),
            _ => out.push_str(&compact(value)),
        });
        if view.get("latest").is_none() {
            before_closing_brace(Placeholder::MaybeLatest, out);
        }
    }

    fn deployment(&self, view: View<'_>, out: &mut String) {
        let has_operations = view.get("pending_operations").is_some();
        object(view, out, |key, value, out| match key {
            "resources" => {
                let null = value.is_null();
                placeholder(
                    if null {
                        Placeholder::ResourcesOrNull
                    } else {
                        Placeholder::Resources
                    },
                    out,
                );
                if !has_operations {
                    placeholder(Placeholder::MaybeOperations, out);
                }
            }
            "pending_operations" if value.is_null() => placeholder(Placeholder::OperationsOrNull, out),
            "pending_operations" => placeholder(Placeholder::Operations, out),
            "manifest" => self.manifest(value, out),
            _ => out.push_str(&compact(value)),
        });
        if view.get("resources").is_none() {
            before_closing_brace(Placeholder::MaybeResources, out);
            if !has_operations {
                before_closing_brace(Placeholder::MaybeOperations, out);
            }
        }
    }

    fn manifest(&self, view: View<'_>, out: &mut String) {
        if view.members().is_none() {
            return out.push_str(&compact(view));
        }
        object(view, out, |key, value, out| match (key, self.magic) {
            ("magic", Some(magic)) => write_string(out, magic),
            _ => out.push_str(&compact(value)),
        });
    }
}

fn object(view: View<'_>, out: &mut String, mut value: impl FnMut(&str, View<'_>, &mut String)) {
    let mut object = ObjectWriter::new(out);
    for (key, view) in view.members().into_iter().flatten() {
        value(&key, view, object.member(&key));
    }
    object.finish();
}

fn placeholder(placeholder: Placeholder, out: &mut String) {
    let letter = Placeholder::ALL.iter().find(|(_, known)| *known == placeholder);
    out.push(ESCAPE);
    out.extend(letter.map(|(letter, _)| *letter));
}

/// Inserts a placeholder before the closing brace that was written last.
fn before_closing_brace(what: Placeholder, out: &mut String) {
    out.pop();
    placeholder(what, out);
    out.push('}');
}

/// Writes the features as an array.
pub(super) fn features(features: &[String]) -> String {
    let mut text = String::new();
    let mut array = ArrayWriter::new(&mut text);
    features.iter().for_each(|name| _ = array.string(name));
    array.finish();
    text
}
