//! Identifiers: names, addresses, counters and digests. Nothing in this folder depends on entries or records.

/// Implements serde for an identifier: serialized as text, deserialized through `FromStr`.
macro_rules! serde_as_text {
    ($name:ty) => {
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                crate::ids::deserialize_text(deserializer, str::parse)
            }
        }
    };
}

pub mod address;
pub mod counter;
pub mod digest;
pub mod id;
pub mod name;
pub(crate) mod object;
pub mod revision;

use serde::de::{self, Visitor};
use std::fmt;

/// Deserializes a text and parses it. The text isn't copied first: a history contains ten identifiers a revision.
pub(crate) fn deserialize_text<'de, D, T, E>(
    deserializer: D,
    parse: impl Fn(&str) -> Result<T, E>,
) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    E: fmt::Display,
{
    struct Text<F>(F);

    impl<T, E: fmt::Display, F: Fn(&str) -> Result<T, E>> Visitor<'_> for Text<F> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a string")
        }

        fn visit_str<D: de::Error>(self, text: &str) -> Result<T, D> {
            (self.0)(text).map_err(D::custom)
        }
    }

    deserializer.deserialize_str(Text(parse))
}

/// The error for text that is not a valid identifier. Converts into [`Error::Invalid`](crate::Error::Invalid).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{object}: {reason}")]
pub struct ParseIdError {
    /// The kind of identifier, and the rejected text if it may be shown.
    pub object: String,
    /// The rule that the text violates.
    pub reason: &'static str,
}

impl ParseIdError {
    /// Returns the error for a text that may be shown. The error escapes control characters and truncates long text
    /// after 60 characters.
    fn of_text(kind: &str, text: &str, reason: &'static str) -> Self {
        let shown: String = text.chars().take(60).collect();
        Self {
            object: format!("{kind} `{}`", shown.escape_debug()),
            reason,
        }
    }

    /// Returns the error for text that must not be shown.
    fn of_kind(kind: &str, reason: &'static str) -> Self {
        Self {
            object: kind.to_owned(),
            reason,
        }
    }
}
