//! Converts the snapshots of later unobin releases, up to 0.11, to the field names of 0.4.0 and back.
//!
//! | 0.4.0 | later |
//! |---|---|
//! | `stack`, `deployment-id` | `factory`, `stack` |
//! | `type` | `entry-kind`; its additional value `data-source` becomes the type `leaf` with `external: true` |
//! | `kind`, with the form `alias.kind` | `alias` and `kind` of `binding` |
//! | `library`, `library-type` | `alias` and `kind` of `binding` |
//! | – | `category` |
//!
//! An import keeps the category and the binding in `extensions["unobin"]` of the entry. An export takes the alias and
//! the kind of a binding from the entry: from its `kind`, which has the form `alias.kind`, or from `library` and
//! `library-type`. The other members of the binding are exported as they were kept. The kept category is exported. For
//! an entry that wasn't imported, the category is derived from its type.

use crate::error::{Error, Result};
use crate::extension::Extension;
use crate::fields::{TopLevel, scan_unlimited};
use crate::layout::go_formatted;
use state_core::json::{ArrayWriter, Document, Json, Kind, ObjectWriter, View};

/// The extension of unobin.
pub(super) const EXTENSION: Extension = Extension {
    name: "unobin",
    system: "unobin",
};

/// The categories that a library call may have.
const CATEGORIES: [&str; 3] = ["resource", "data-source", "action"];

/// Fields of an entry in the form of 0.4.0 that an entry of a later release doesn't have.
const REPLACED: [&str; 6] = [
    "type",
    "kind",
    "library",
    "library-type",
    "external",
    "extensions",
];

/// Whether a document is a snapshot of a later release.
pub(super) fn is_later_release(root: &TopLevel<'_>) -> bool {
    let is = |key: &str, kind: Kind| root.get(key).is_some_and(|view| view.kind() == kind);
    is("factory", Kind::Object) && is("stack", Kind::String)
}

/// Rewrites a snapshot of a later release with the field names of 0.4.0.
pub(super) fn to_old(document: &Document<'_>) -> Result<String> {
    let root = document.root();
    let mut text = String::new();
    let mut object = ObjectWriter::new(&mut text);
    for (key, value) in root.members().into_iter().flatten() {
        match &*key {
            "factory" => _ = object.raw("stack", value.text()),
            "stack" => _ = object.raw("deployment-id", value.text()),
            "deployment-id" => return Err(mixed_releases(document, &value)),
            "entries" if value.kind() == Kind::Array => {
                let mut entries = object.array("entries");
                for entry in value.elements().into_iter().flatten() {
                    old_entry(document, entry, &mut entries)?;
                }
                entries.finish();
            }
            _ => _ = object.raw(&key, value.text()),
        }
    }
    object.finish();
    Ok(text)
}

/// The type and the kind of an entry, in the fields of a later release.
struct Binding {
    /// Value of the field `entry-kind`.
    kind: String,
    /// Value of the field `category`.
    category: String,
    /// Value of the member `alias` of the field `binding`.
    alias: String,
    /// Value of the member `kind` of the field `binding`.
    bound: String,
}

impl Binding {
    fn of(document: &Document<'_>, view: View<'_>) -> Result<Self> {
        let error = |view: &View<'_>, message: &str| Error::at(document, view, message);
        let text = |key: &str| {
            let value = view.get(key);
            let text = value.and_then(|value| Some(value.as_str()?.into_owned()));
            text.ok_or_else(|| {
                error(
                    &value.unwrap_or(view),
                    &format!("an entry must have a string `{key}`"),
                )
            })
        };
        let (kind, category) = (text("entry-kind")?, text("category")?);
        let is_fit = match &*kind {
            "leaf" => category == "resource",
            "action" | "data-source" => category == kind,
            "library-call" => CATEGORIES.contains(&&*category),
            _ => {
                let view = view.get("entry-kind").unwrap_or(view);
                return Err(error(&view, "unknown `entry-kind`"));
            }
        };
        if !is_fit {
            let view = view.get("category").unwrap_or(view);
            return Err(error(&view, "`category` doesn't match `entry-kind`"));
        }
        let binding = view.get("binding").unwrap_or(view);
        let part = |key: &str| {
            let part = binding
                .get(key)
                .and_then(|value| Some(value.as_str()?.into_owned()));
            part.filter(|text| !text.is_empty()).ok_or_else(|| {
                error(
                    &binding,
                    &format!("an entry must have a `binding` with a string `{key}`"),
                )
            })
        };
        Ok(Self {
            kind,
            category,
            alias: part("alias")?,
            bound: part("kind")?,
        })
    }
}

fn old_entry(document: &Document<'_>, view: View<'_>, out: &mut ArrayWriter<'_>) -> Result<()> {
    let Some(members) = view.members() else {
        return Err(Error::at(document, &view, "an entry must be an object"));
    };
    let Binding {
        kind,
        category,
        alias,
        bound,
    } = Binding::of(document, view)?;
    let mut object = out.object();
    object.string("type", if kind == "data-source" { "leaf" } else { &kind });
    if kind == "library-call" {
        object.string("library", &alias).string("library-type", &bound);
    } else {
        object.string("kind", &format!("{alias}.{bound}"));
    }
    if kind == "data-source" {
        object.bool("external", true);
    }
    let mut extensions = object.object("extensions");
    let mut kept = extensions.object(EXTENSION.name);
    let binding = view.get("binding").map_or("{}", |binding| binding.text());
    kept.raw("binding", binding).string("category", &category);
    kept.finish();
    extensions.finish();
    for (key, value) in members {
        match &*key {
            "entry-kind" | "category" | "binding" => {}
            replaced if REPLACED.contains(&replaced) => return Err(mixed_releases(document, &value)),
            _ => _ = object.raw(&key, value.text()),
        }
    }
    object.finish();
    Ok(())
}

fn mixed_releases(document: &Document<'_>, view: &View<'_>) -> Error {
    Error::at(
        document,
        view,
        "this field belongs to another release of unobin than the other fields",
    )
}

/// Rewrites a snapshot of 0.4.0 as later releases write it.
pub(super) fn to_new(old: &str) -> Result<String> {
    let document = scan_unlimited(old.as_bytes()).map_err(Error::malformed)?;
    let mut compact = String::new();
    let mut object = ObjectWriter::new(&mut compact);
    for (key, value) in document.root().members().into_iter().flatten() {
        match &*key {
            "stack" => _ = object.raw("factory", value.text()),
            "deployment-id" => _ = object.raw("stack", value.text()),
            "entries" if value.kind() == Kind::Array => {
                let mut entries = object.array("entries");
                for entry in value.elements().into_iter().flatten() {
                    new_entry(entry, entries.object())?;
                }
                entries.finish();
            }
            _ => _ = object.raw(&key, value.text()),
        }
    }
    object.finish();
    go_formatted(&compact)
}

fn new_entry(view: View<'_>, mut object: ObjectWriter<'_>) -> Result<()> {
    let text = |key: &str| view.get(key).and_then(|value| value.as_str());
    let address = text("address").unwrap_or_default();
    let entry_type = text("type").unwrap_or_default();
    let refuse = |reason: &str| Err(EXTENSION.not_exportable(&*address, reason));
    let (alias, bound) = match (text("library"), text("library-type"), text("kind")) {
        (Some(library), Some(name), _) => (library.into_owned(), name.into_owned()),
        (_, _, Some(kind)) => match kind.split_once('.') {
            Some((alias, bound)) => (alias.to_owned(), bound.to_owned()),
            None => return refuse("its kind doesn't have the form `alias.kind`"),
        },
        _ => return refuse("it has neither a kind nor a library"),
    };
    if view.get("configuration").is_some() {
        return refuse("it has a library configuration, which later releases of unobin don't store");
    }
    let kept = view.pointer("/extensions/unobin");
    let category = kept.and_then(|kept| kept.get("category")?.as_str().map(std::borrow::Cow::into_owned));
    let is_data_source = view.get("external").and_then(|view| view.as_bool()) == Some(true);
    let kind = if is_data_source {
        "data-source"
    } else {
        &*entry_type
    };
    let category = category.unwrap_or_else(|| match kind {
        "leaf" | "library-call" => "resource".to_owned(),
        kind => kind.to_owned(),
    });
    object
        .string("address", &address)
        .string("entry-kind", kind)
        .string("category", &category);
    write_binding(
        kept.and_then(|kept| kept.get("binding")),
        &alias,
        &bound,
        object.object("binding"),
    );
    for (key, value) in view.members().into_iter().flatten() {
        if key != "address" && !REPLACED.contains(&&*key) {
            object.raw(&key, value.text());
        }
    }
    object.finish();
    Ok(())
}

/// Writes a binding: alias, library path and kind in this order, then the other kept members.
fn write_binding(kept: Option<View<'_>>, alias: &str, bound: &str, mut object: ObjectWriter<'_>) {
    object.string("alias", alias);
    if let Some(path) = kept.and_then(|kept| kept.get("library-path")) {
        object.raw("library-path", path.text());
    }
    object.string("kind", bound);
    for (key, value) in kept.and_then(|kept| kept.members()).into_iter().flatten() {
        if !["alias", "library-path", "kind"].contains(&&*key) {
            object.raw(&key, Json::from_view(value).as_str());
        }
    }
    object.finish();
}
