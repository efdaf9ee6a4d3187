//! Changes and properties, and values with the positions of their secret parts.

use crate::json::Json;

/// A location whose value differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// JSON pointer to the location.
    pub pointer: String,
    /// Old value; `None` if there was none.
    pub old: Option<Value>,
    /// New value; `None` if there is none.
    pub new: Option<Value>,
}

impl Change {
    /// Whether either value contains a secret.
    pub fn is_sensitive(&self) -> bool {
        [&self.old, &self.new]
            .into_iter()
            .flatten()
            .any(Value::is_sensitive)
    }
}

/// A location and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Property {
    /// JSON pointer into the entry's JSON.
    pub pointer: String,
    /// Value at this location.
    pub value: Value,
}

/// A value with the ranges of its secret parts. `Debug` shows kind and length, never the content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    json: Json,
    /// Byte ranges of the secrets in the text, in order and without overlap.
    secret: Vec<(usize, usize)>,
}

impl Value {
    pub(super) const fn new(json: Json, secret: Vec<(usize, usize)>) -> Self {
        Self { json, secret }
    }

    /// Creates a value that is secret as a whole.
    pub(super) fn secret(json: Json) -> Self {
        let whole = (0, json.as_str().len());
        Self::new(json, vec![whole])
    }

    /// Whether the value contains a secret.
    pub const fn is_sensitive(&self) -> bool {
        !self.secret.is_empty()
    }

    /// Whether the value is secret as a whole.
    pub fn is_secret(&self) -> bool {
        *self.secret == [(0, self.json.as_str().len())]
    }

    /// Returns a copy in which each secret is replaced by the placeholder string.
    pub fn masked(&self, placeholder: &str) -> Json {
        self.json
            .with_placeholders(self.secret.iter().copied(), placeholder)
    }

    /// The value with its secrets.
    pub const fn revealed(&self) -> &Json {
        &self.json
    }
}
