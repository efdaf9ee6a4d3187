//! Reads typed values from a document; every error contains the position of the value.

use crate::address::Address;
use crate::hashing::FastSet;
use crate::ids::ParseIdError;
use crate::json::{Document, Json, JsonError, JsonMap, Kind, Limits, Members, Properties, View};
use serde::de::DeserializeOwned;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The depth limit of user values: inputs, outputs, extensions, unknown fields.
pub(super) const MAX_VALUE_DEPTH: usize = 64;
/// The largest number of arrays and objects that the format itself puts around a user value. It is reached by an
/// extension of an entry in the result of a pending operation.
const OUR_DEPTH: usize = 8;
/// The largest document that is decoded, in bytes.
const MAX_BYTES: usize = 4 << 30;
/// The largest string, in bytes. More than the size limit of an entry (32 MiB), so that every written entry can be
/// read.
const MAX_STRING: usize = 64 << 20;

/// Parses a document. The returned flag is true if the whole document is within the depth limit of values, so that no
/// value in it needs a depth check.
pub(super) fn parse(bytes: &[u8]) -> Result<(Document<'_>, bool), JsonError> {
    let shallow = Limits {
        max_depth: MAX_VALUE_DEPTH,
        max_bytes: MAX_BYTES,
        max_string_bytes: MAX_STRING,
    };
    let deep = Limits {
        max_depth: MAX_VALUE_DEPTH + OUR_DEPTH,
        ..shallow
    };
    match Document::parse(bytes, &shallow) {
        Ok(document) => Ok((document, true)),
        Err(_) => Document::parse(bytes, &deep).map(|document| (document, false)),
    }
}

/// Reads the values of one document.
pub(super) struct Reader<'d, 'a> {
    document: &'d Document<'a>,
    /// Whether the whole document is within [`MAX_VALUE_DEPTH`], so that no value in it needs a depth check.
    is_shallow: bool,
    /// Whether two entries may have the same key.
    allows_duplicates: bool,
    /// The pool in which equal texts share one allocation. `None` allocates each text separately.
    shared: Option<&'d RefCell<TextPool>>,
}

impl<'d, 'a> Reader<'d, 'a> {
    pub(super) const fn new(document: &'d Document<'a>, is_shallow: bool) -> Self {
        Self {
            document,
            is_shallow,
            allows_duplicates: false,
            shared: None,
        }
    }

    /// Makes equal texts share one allocation in a pool.
    pub(super) const fn sharing(self, shared: &'d RefCell<TextPool>) -> Self {
        Self {
            shared: Some(shared),
            ..self
        }
    }

    /// Returns the text as a shared string, from the pool if there is one.
    fn text(&self, text: &str) -> Arc<str> {
        match self.shared {
            Some(shared) => shared.borrow_mut().text(text),
            None => text.into(),
        }
    }

    /// Sets whether two entries may have the same key.
    pub(super) const fn allowing_duplicates(self, allows_duplicates: bool) -> Self {
        Self {
            allows_duplicates,
            ..self
        }
    }

    /// Returns whether two entries may have the same key.
    pub(super) const fn allows_duplicates(&self) -> bool {
        self.allows_duplicates
    }

    /// Returns the value of the whole document.
    pub(super) fn root(&self) -> View<'a> {
        self.document.root()
    }

    pub(super) fn error(&self, view: View<'_>, message: impl Into<String>) -> JsonError {
        self.document.error_at(&view, message)
    }

    pub(super) fn expected(&self, view: View<'_>, what: &str) -> JsonError {
        self.error(view, format!("expected {what}, found {}", with_article(view)))
    }

    /// Returns a required member.
    pub(super) fn required(&self, object: View<'a>, key: &str) -> Result<View<'a>, JsonError> {
        self.members(object)?;
        object
            .get(key)
            .ok_or_else(|| self.error(object, format!("the field `{key}` is missing")))
    }

    /// Returns the members of a value that must be an object.
    pub(super) fn members(&self, view: View<'a>) -> Result<Members<'a>, JsonError> {
        view.members().ok_or_else(|| self.expected(view, "an object"))
    }

    pub(super) fn string(&self, view: View<'a>) -> Result<String, JsonError> {
        match view.as_str() {
            Some(text) => Ok(text.into_owned()),
            None => Err(self.expected(view, "a string")),
        }
    }

    pub(super) fn number(&self, view: View<'_>) -> Result<u64, JsonError> {
        view.as_u64()
            .ok_or_else(|| self.error(view, "expected a whole number from 0 to 2^64-1"))
    }

    pub(super) fn flag(&self, view: View<'_>) -> Result<bool, JsonError> {
        view.as_bool().ok_or_else(|| self.expected(view, "true or false"))
    }

    /// Reads a string and parses it with `parse`. The error contains the rule that the text breaks, but not the text,
    /// which may be secret.
    pub(super) fn parsed<T>(
        &self,
        view: View<'a>,
        parse: impl FnOnce(&str) -> Result<T, ParseIdError>,
    ) -> Result<T, JsonError> {
        let text = view.as_str().ok_or_else(|| self.expected(view, "a string"))?;
        parse(&text).map_err(|error| self.error(view, error.reason))
    }

    pub(super) fn address(&self, view: View<'a>) -> Result<Address, JsonError> {
        self.parsed(view, |text| match self.shared {
            Some(shared) => shared.borrow_mut().address(text),
            None => Address::new(text),
        })
    }

    pub(super) fn list<T>(
        &self,
        view: View<'a>,
        read: impl Fn(View<'a>) -> Result<T, JsonError>,
    ) -> Result<Vec<T>, JsonError> {
        let elements = view.elements().ok_or_else(|| self.expected(view, "an array"))?;
        elements.map(read).collect()
    }

    pub(super) fn strings(&self, view: View<'a>) -> Result<Vec<String>, JsonError> {
        self.list(view, |item| self.string(item))
    }

    pub(super) fn map<T>(
        &self,
        view: View<'a>,
        read: impl Fn(View<'a>) -> Result<T, JsonError>,
    ) -> Result<BTreeMap<String, T>, JsonError> {
        self.members(view)?
            .map(|(key, value)| Ok((key.into_owned(), read(value)?)))
            .collect()
    }

    pub(super) fn json_map(&self, view: View<'a>) -> Result<JsonMap, JsonError> {
        let members = self.members(view)?;
        members
            .map(|(key, value)| {
                let text = self.text(self.json(value)?.as_str());
                Ok((self.text(&key), Json::of_canonical(text)))
            })
            .collect()
    }

    /// Reads a user value without interpreting it. Refuses a value that is nested too deeply.
    pub(super) fn json(&self, view: View<'_>) -> Result<Json, JsonError> {
        if !self.is_shallow && depth(view.text()) > MAX_VALUE_DEPTH {
            return Err(self.error(view, format!("nested deeper than {MAX_VALUE_DEPTH} levels")));
        }
        Ok(Json::from_view(view))
    }

    pub(super) fn properties(&self, view: View<'_>) -> Result<Properties, JsonError> {
        Properties::new(self.json(view)?).ok_or_else(|| self.expected(view, "an object"))
    }

    /// Reads a model type with its `Deserialize` implementation. The error has the position that serde reports, but not
    /// serde's message, which may quote a secret value.
    pub(super) fn model<T: DeserializeOwned>(&self, view: View<'_>, what: &str) -> Result<T, JsonError> {
        serde_json::from_str(view.text()).map_err(|error| {
            let end = offset_of(view.text(), error.line(), error.column());
            // serde_json reports the position after an invalid scalar, but the start of an invalid container. Look up
            // both offsets, and report the shorter of the two values.
            let around = [end.saturating_sub(1), end].map(|at| deepest(view, view.offset() + at));
            let [scalar, container] = around;
            let culprit = if container.text().len() < scalar.text().len() {
                container
            } else {
                scalar
            };
            self.error(culprit, format!("not a valid part of {what}"))
        })
    }
}

fn with_article(view: View<'_>) -> &'static str {
    match view.kind() {
        Kind::Null => "null",
        Kind::Bool => "true or false",
        Kind::Number => "a number",
        Kind::String => "a string",
        Kind::Array => "an array",
        Kind::Object => "an object",
    }
}

/// Returns the nesting depth of arrays and objects in a text.
fn depth(text: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let (mut in_string, mut escaped) = (false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// Converts a line and column of `serde_json` to an offset in bytes: lines from 1, columns in bytes.
fn offset_of(text: &str, line: usize, column: usize) -> usize {
    let before: usize = text
        .split_inclusive('\n')
        .take(line.saturating_sub(1))
        .map(str::len)
        .sum();
    (before + column).min(text.len())
}

/// Returns the innermost value that contains `offset`.
fn deepest(view: View<'_>, offset: usize) -> View<'_> {
    let holds = |child: &View<'_>| child.range().contains(&offset);
    let mut here = view;
    loop {
        let element = here.elements().and_then(|mut all| all.find(holds));
        let member = || {
            here.members()
                .and_then(|all| all.map(|(_, value)| value).find(holds))
        };
        match element.or_else(member) {
            Some(child) => here = child,
            None => return here,
        }
    }
}

/// The length of the longest text that the pool shares, in bytes. Longer texts are seldom repeated.
const LONGEST: usize = 256;

/// A pool in which equal texts of a snapshot share one allocation while the snapshot is decoded: the same addresses and
/// extension keys occur in many entries. The texts outlive the pool.
#[derive(Debug, Default)]
pub(super) struct TextPool {
    texts: FastSet<Arc<str>>,
    addresses: FastSet<Address>,
}

impl TextPool {
    /// Returns the pool's string with this content, and adds it if it is missing. Long texts are not shared.
    pub(super) fn text(&mut self, text: &str) -> Arc<str> {
        if text.len() > LONGEST {
            return text.into();
        }
        if let Some(known) = self.texts.get(text) {
            return Arc::clone(known);
        }
        let new: Arc<str> = text.into();
        self.texts.insert(Arc::clone(&new));
        new
    }

    /// Returns the pool's address with this text, and adds it if it is missing. An address in the pool isn't validated
    /// again.
    pub(super) fn address(&mut self, text: &str) -> Result<Address, ParseIdError> {
        if let Some(known) = self.addresses.get(text) {
            return Ok(known.clone());
        }
        let new = Address::new(text)?;
        self.addresses.insert(new.clone());
        Ok(new)
    }
}
