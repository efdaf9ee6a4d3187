//! Names of entries, and references between them.

use super::ParseIdError;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Implements display and deserialization for a text newtype whose constructor `new` validates it.
macro_rules! checked_text {
    ($name:ident) => {
        impl $name {
            /// The text of the identifier.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                super::deserialize_text(deserializer, |text| Self::new(text))
            }
        }
    };
}

/// The name of an entry, or of a group of entries, within its stack. Addresses are compared byte by byte.
///
/// 1 to 4,096 bytes without control characters.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Address(Arc<str>);

impl Address {
    /// The longest address in bytes.
    pub const MAX_BYTES: usize = 4096;

    /// Validates an address.
    ///
    /// # Errors
    /// If the text is empty, too long or contains control characters.
    pub fn new(text: impl Into<Arc<str>>) -> Result<Self, ParseIdError> {
        let text = text.into();
        let reason = if text.is_empty() {
            "an address must not be empty"
        } else if text.len() > Self::MAX_BYTES {
            "an address has at most 4,096 bytes"
        } else if has_control(&text) {
            "an address must not contain control characters"
        } else {
            return Ok(Self(text));
        };
        Err(ParseIdError::of_text("address", &text, reason))
    }
}

checked_text!(Address);

/// Lets sets and maps of addresses be searched by text: an address is compared and hashed as its text.
impl Borrow<str> for Address {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// Whether a text contains a control character. Nearly every address is ASCII, in which bytes are characters.
fn has_control(text: &str) -> bool {
    if text.is_ascii() {
        text.bytes().any(|byte| byte.is_ascii_control())
    } else {
        text.chars().any(char::is_control)
    }
}

impl FromStr for Address {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::new(text)
    }
}

/// Distinguishes entries that share an address. An entry has a deposed key if its resource was replaced and awaits
/// deletion. The live entry and the deposed entries of an address are its *generations*.
///
/// Corresponds to Terraform's deposed key (8 characters there) and to Pulumi's `delete: true` resource. 1 to 64 bytes
/// of `[A-Za-z0-9._-]`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct DeposedKey(Arc<str>);

impl DeposedKey {
    /// Validates a deposed key.
    ///
    /// # Errors
    /// If the text is empty, too long or contains another character.
    pub fn new(text: impl Into<Arc<str>>) -> Result<Self, ParseIdError> {
        let text = text.into();
        let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
        if (1..=64).contains(&text.len()) && text.bytes().all(legal) {
            return Ok(Self(text));
        }
        Err(ParseIdError::of_kind(
            "deposed key",
            "a deposed key is 1 to 64 characters of A-Z, a-z, 0-9, `.`, `_`, `-`",
        ))
    }
}

checked_text!(DeposedKey);

/// The unique key of an entry in its snapshot. Sorts by address, with the live entry first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct EntryKey {
    /// The address of the entry, which all generations share.
    pub address: Address,
    /// Deposed key of an entry whose resource was replaced and awaits deletion; `None` for the live entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deposed: Option<DeposedKey>,
}

impl EntryKey {
    /// Returns the key of the live entry at an address.
    pub const fn live(address: Address) -> Self {
        Self {
            address,
            deposed: None,
        }
    }

    /// Whether this is the key of the live entry at its address.
    pub const fn is_live(&self) -> bool {
        self.deposed.is_none()
    }
}

impl fmt::Display for EntryKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.deposed {
            None => self.address.fmt(f),
            Some(key) => write!(f, "{} (deposed {key})", self.address),
        }
    }
}

/// A dependency of an entry: the entry must come after it in the list.
///
/// In JSON an address is a string and a group is `{"group": "address"}`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dependency {
    /// An entry: satisfied when an entry with this address, live or deposed, comes earlier.
    Entry(Address),
    /// Every live member of a group ([`Entry::group`](crate::Entry::group)): satisfied when all of them come earlier.
    /// A group without members is legal, because Terraform keeps dependencies on resources that are no longer in the
    /// state.
    Group(Address),
}

impl Dependency {
    /// The address of the entry or group.
    pub const fn address(&self) -> &Address {
        match self {
            Self::Entry(address) | Self::Group(address) => address,
        }
    }
}

impl fmt::Display for Dependency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Entry(address) => address.fmt(f),
            Self::Group(address) => write!(f, "group {address}"),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GroupForm {
    group: Address,
}

impl Serialize for Dependency {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Entry(address) => address.serialize(serializer),
            Self::Group(address) => serializer.collect_map([("group", address)]),
        }
    }
}

impl<'de> Deserialize<'de> for Dependency {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Form;
        impl<'de> de::Visitor<'de> for Form {
            type Value = Dependency;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an address, or {\"group\": address}")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Dependency, E> {
                Address::new(text).map(Dependency::Entry).map_err(E::custom)
            }

            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Dependency, A::Error> {
                let form = GroupForm::deserialize(de::value::MapAccessDeserializer::new(map))?;
                Ok(Dependency::Group(form.group))
            }
        }
        deserializer.deserialize_any(Form)
    }
}
