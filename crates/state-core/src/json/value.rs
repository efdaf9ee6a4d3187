//! Owned values: canonical text, shared, read on demand.

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

/// The canonical text of one JSON value; a clone shares it.
///
/// Two of them are equal if their texts are, so `1.0` and `1` differ. `Debug` shows kind and length, never the value.
///
/// With `serde_json` it is embedded verbatim and read strictly; positions in errors count from the start of the
/// embedded value. It cannot stand in `flatten`ed or untagged types, nor in formats other than JSON.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Json(Arc<str>);

impl Json {
    /// Reads one value with the default [`Limits`].
    ///
    /// # Errors
    ///
    /// See [`Document::parse`].
    pub fn parse(text: &str) -> Result<Self, JsonError> {
        Document::parse(text.as_bytes(), &Limits::default()).map(|document| Self::from_view(document.root()))
    }

    /// The canonical text of a value of another text.
    pub fn from_view(view: View<'_>) -> Self {
        let mut text = String::with_capacity(view.text().len());
        canonical(view, &mut text);
        Self(text.into())
    }

    /// Takes a text that is canonical already: one that was put together from canonical pieces. Only debug builds
    /// check it.
    pub fn from_canonical(text: &str) -> Self {
        debug_assert!(is_canonical_text(text), "the text isn't canonical JSON");
        Self(text.into())
    }

    /// The value whose canonical text this is.
    pub(crate) const fn of_canonical(text: Arc<str>) -> Self {
        Self(text)
    }

    /// `null`
    pub fn null() -> Self {
        static NULL: LazyLock<Json> = LazyLock::new(|| Json("null".into()));
        NULL.clone()
    }

    /// A string.
    pub fn from_string(s: &str) -> Self {
        let mut text = String::with_capacity(s.len() + 2);
        write_string(&mut text, s);
        Self(text.into())
    }

    /// The canonical text. It may hold secrets.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A cursor on the value.
    pub fn view(&self) -> View<'_> {
        View::new(&self.0, 0)
    }

    /// Whether the value is an object.
    pub fn is_object(&self) -> bool {
        self.view().kind() == Kind::Object
    }

    /// A copy with the placeholder, as a string, in the place of the values that begin and end there, in the order of
    /// the text.
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

    /// The value over several lines, indented by two spaces, without a newline at the end.
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

/// A [`Json`] that is an object: the inputs or outputs of a resource.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Properties(Json);

impl Properties {
    /// None if `json` is not an object.
    pub fn new(json: Json) -> Option<Self> {
        json.is_object().then_some(Self(json))
    }

    /// `{}`
    pub fn empty() -> Self {
        static EMPTY: LazyLock<Properties> = LazyLock::new(|| Properties(Json("{}".into())));
        EMPTY.clone()
    }

    /// The object as a value.
    pub fn json(&self) -> &Json {
        &self.0
    }

    /// A cursor on the object.
    pub fn view(&self) -> View<'_> {
        self.0.view()
    }

    /// The value of one property.
    pub fn get(&self, key: &str) -> Option<View<'_>> {
        self.view().get(key)
    }

    /// The length of the canonical text, in bytes.
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
