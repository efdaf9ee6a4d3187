//! Owned JSON values, stored as shared canonical text and read through views.

use std::fmt;
use std::sync::{Arc, LazyLock};

use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use super::Limits;
use super::canonical::{canonical, is_canonical_text};
use super::document::Document;
use super::error::JsonError;
use super::view::{Kind, View};
use super::write::{Style, write, write_string};

/// The canonical text of one JSON value. Clones share the text.
///
/// Two values are equal if their texts are equal, so `1.0` and `1` differ. `Debug` shows kind and length, never the
/// value.
///
/// `serde_json` embeds the text verbatim and parses it strictly; positions in errors count from the start of the
/// embedded value. The type can't be used in `flatten`ed or untagged types, where serde discards the text, nor with
/// formats other than JSON.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Json(Arc<str>);

impl Json {
    /// Parses one value with the default [`Limits`].
    ///
    /// # Errors
    ///
    /// The errors of [`Document::parse`].
    pub fn parse(text: &str) -> Result<Self, JsonError> {
        Document::parse(text.as_bytes(), &Limits::default()).map(|document| Self::from_view(document.root()))
    }

    /// Creates the canonical form of a value in another text.
    pub fn from_view(view: View<'_>) -> Self {
        let mut text = String::with_capacity(view.text().len());
        canonical(view, &mut text);
        Self(text.into())
    }

    /// Creates a value from a text that is canonical already, for example because it was assembled from canonical
    /// parts. Only debug builds check the text.
    pub fn from_canonical(text: &str) -> Self {
        debug_assert!(is_canonical_text(text), "the text is not canonical JSON");
        Self(text.into())
    }

    /// Creates a value from a shared canonical text, without a check.
    pub(crate) const fn of_canonical(text: Arc<str>) -> Self {
        Self(text)
    }

    /// Returns the value `null`.
    pub fn null() -> Self {
        static NULL: LazyLock<Json> = LazyLock::new(|| Json("null".into()));
        NULL.clone()
    }

    /// Creates a string value.
    pub fn from_string(s: &str) -> Self {
        let mut text = String::with_capacity(s.len() + 2);
        write_string(&mut text, s);
        Self(text.into())
    }

    /// Returns the canonical text. It may contain secrets.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns a view of the value.
    pub fn view(&self) -> View<'_> {
        View::new(&self.0, 0)
    }

    /// Returns whether the value is an object.
    pub fn is_object(&self) -> bool {
        self.view().kind() == Kind::Object
    }

    /// Returns a copy in which the placeholder, as a string, replaces the values in these byte ranges. The ranges
    /// must be in the order of the text.
    pub(crate) fn with_placeholders(
        &self,
        values: impl IntoIterator<Item = (usize, usize)>,
        placeholder: &str,
    ) -> Self {
        let mut text = String::with_capacity(self.0.len());
        let mut end = 0;
        for (from, to) in values {
            text.push_str(&self.0[end..from]);
            write_string(&mut text, placeholder);
            end = to;
        }
        if end == 0 {
            return self.clone();
        }
        text.push_str(&self.0[end..]);
        Self::from_canonical(&text)
    }

    /// Formats the value over several lines, indented by two spaces, without a newline at the end.
    pub fn pretty(&self) -> String {
        let mut text = String::new();
        write(self.view(), &Style::PRETTY, &mut text);
        text
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Json({}, {} bytes)", self.view().kind(), self.0.len())
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(&self.0).map_err(S::Error::custom)?;
        raw.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Self::parse(raw.get())
            .map_err(|error| D::Error::custom(format_args!("in an embedded value, {error}")))
    }
}

/// A [`Json`] value that is an object: the inputs or outputs of a resource.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Properties(Json);

impl Properties {
    /// Creates properties from a value; returns `None` if the value is not an object.
    pub fn new(json: Json) -> Option<Self> {
        json.is_object().then_some(Self(json))
    }

    /// Returns the empty object `{}`.
    pub fn empty() -> Self {
        static EMPTY: LazyLock<Properties> = LazyLock::new(|| Properties(Json("{}".into())));
        EMPTY.clone()
    }

    /// Returns the object as a value.
    pub fn json(&self) -> &Json {
        &self.0
    }

    /// Returns a view of the object.
    pub fn view(&self) -> View<'_> {
        self.0.view()
    }

    /// Returns the value of one property.
    pub fn get(&self, key: &str) -> Option<View<'_>> {
        self.view().get(key)
    }

    /// Returns the length of the canonical text, in bytes.
    pub fn len_bytes(&self) -> usize {
        self.0.as_str().len()
    }
}

impl Default for Properties {
    fn default() -> Self {
        Self::empty()
    }
}

impl fmt::Debug for Properties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Properties({} bytes)", self.len_bytes())
    }
}

impl<'de> Deserialize<'de> for Properties {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = Json::deserialize(deserializer)?;
        let kind = json.view().kind();
        Self::new(json)
            .ok_or_else(|| D::Error::custom(format_args!("expected an object, found a value of kind {kind}")))
    }
}
