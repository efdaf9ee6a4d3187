//! The value of one field while it is encoded, borrowed from the model.

use crate::address::{Address, Dependency};
use crate::entry::Provider;
use crate::json::{Document, Json, JsonMap, Limits, canonical, write_string};
use crate::snapshot::FactoryInfo;
use serde::Serialize;
use std::collections::BTreeMap;

/// A value that the encoders write as canonical text.
pub(super) enum Value<'a> {
    Text(&'a str),
    Number(u64),
    True,
    Json(&'a Json),
    Texts(&'a [String]),
    Addresses(&'a [Address]),
    Dependencies(&'a [Dependency]),
    DependencyMap(&'a BTreeMap<String, Vec<Dependency>>),
    Map(&'a BTreeMap<String, Json>),
    /// The extensions of an entry or a snapshot.
    Rest(&'a JsonMap),
    Provider(&'a Provider),
    /// A factory, whose keys have a special order in the pretty form.
    Factory(&'a FactoryInfo),
    /// A text that is canonical already.
    Canonical(String),
}

impl Value<'_> {
    /// Encodes a model type with its `Serialize` implementation, and sorts the keys.
    pub(super) fn of<T: Serialize>(value: &T) -> Self {
        // Serialization can't fail: the model contains only strings, numbers, lists and maps with string keys.
        let text = serde_json::to_string(value).unwrap_or_default();
        let mut sorted = String::with_capacity(text.len());
        with_unlimited_document(&text, |document| canonical(document.root(), &mut sorted));
        Self::Canonical(sorted)
    }

    /// Appends the canonical text.
    pub(super) fn write(&self, out: &mut String) {
        match self {
            Self::Text(text) => write_string(out, text),
            Self::Number(number) => out.push_str(&number.to_string()),
            Self::True => out.push_str("true"),
            Self::Json(json) => out.push_str(json.as_str()),
            Self::Texts(texts) => list(out, texts, |out, text| write_string(out, text)),
            Self::Addresses(addresses) => list(out, addresses, |out, a| write_string(out, a.as_str())),
            Self::Dependencies(dependencies) => list(out, dependencies, dependency),
            Self::DependencyMap(map) => object(out, *map, |out, on| list(out, on, dependency)),
            Self::Map(map) => object(out, *map, |out, json| out.push_str(json.as_str())),
            Self::Rest(map) => object(out, map.iter(), |out, json| out.push_str(json.as_str())),
            Self::Provider(value) => provider(out, value),
            Self::Factory(info) => Value::of(info).write(out),
            Self::Canonical(text) => out.push_str(text),
        }
    }
}

/// Parses a text that an encoder just wrote, without the size and depth limits of [`decode`](super::decode): a snapshot
/// that was built in memory may exceed them.
pub(super) fn with_unlimited_document(text: &str, read: impl FnOnce(&Document<'_>)) {
    let document = Document::parse(text.as_bytes(), &Limits::UNLIMITED);
    debug_assert!(document.is_ok(), "an encoder wrote invalid JSON");
    if let Ok(document) = document {
        read(&document);
    }
}

fn list<T>(out: &mut String, items: &[T], write: impl Fn(&mut String, &T)) {
    out.push('[');
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        write(out, item);
    }
    out.push(']');
}

fn object<'m, N: AsRef<str>, T: 'm>(
    out: &mut String,
    map: impl IntoIterator<Item = (N, &'m T)>,
    write: impl Fn(&mut String, &T),
) {
    out.push('{');
    for (index, (key, value)) in map.into_iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        write_string(out, key.as_ref());
        out.push(':');
        write(out, value);
    }
    out.push('}');
}

fn dependency(out: &mut String, dependency: &Dependency) {
    match dependency {
        Dependency::Entry(address) => write_string(out, address.as_str()),
        Dependency::Group(address) => {
            out.push_str("{\"group\":");
            write_string(out, address.as_str());
            out.push('}');
        }
    }
}

fn provider(out: &mut String, provider: &Provider) {
    let Provider { address, id } = provider;
    out.push_str("{\"address\":");
    write_string(out, address.as_str());
    if let Some(id) = id {
        out.push_str(",\"id\":");
        write_string(out, id);
    }
    out.push('}');
}
