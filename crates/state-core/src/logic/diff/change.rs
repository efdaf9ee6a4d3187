//! One change, one property, and a value that keeps its secrets.

use crate::json::Json;

/// A place whose value differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Where: a JSON pointer.
    pub pointer: String,
    /// What stood there; none if nothing did.
    pub old: Option<Value>,
    /// What stands there now; none if nothing does.
    pub new: Option<Value>,
}

impl Change {
    /// Whether anything in either value is secret.
    pub fn is_sensitive(&self) -> bool {
        [&self.old, &self.new]
            .into_iter()
            .flatten()
            .any(Value::is_sensitive)
    }
}

/// A place and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Property {
    /// Where: a JSON pointer into the entry's JSON.
    pub pointer: String,
    /// What stands there.
    pub value: Value,
}

/// A value, and where it is secret. `Debug` shows kind and length, never the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    json: Json,
    /// From where to where in the text, in order, apart from one another.
    secret: Vec<(usize, usize)>,
}

impl Value {
    pub(super) const fn new(json: Json, secret: Vec<(usize, usize)>) -> Self {
        Self { json, secret }
    }

    /// A value that is secret as a whole.
    pub(super) fn secret(json: Json) -> Self {
        let whole = (0, json.as_str().len());
        Self::new(json, vec![whole])
    }

    /// Whether anything in it is secret.
    pub const fn is_sensitive(&self) -> bool {
        !self.secret.is_empty()
    }

    /// Whether it is secret as a whole.
    pub fn is_secret(&self) -> bool {
        *self.secret == [(0, self.json.as_str().len())]
    }

    /// A copy with the placeholder, as a string, in the place of all that is secret.
    pub fn masked(&self, placeholder: &str) -> Json {
        self.json
            .with_placeholders(self.secret.iter().copied(), placeholder)
    }

    /// The value as it is. It may hold secrets.
    pub const fn revealed(&self) -> &Json {
        &self.json
    }
}
