//! Identities: 128 random bits each, written as UUIDs.
//!
//! None of them is made here: the caller draws the bits from an [`Entropy`].

use super::ParseIdError;
use crate::environment::Entropy;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use uuid::Uuid;

macro_rules! identity {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Uuid);

        impl $name {
            /// Draws a new one.
            pub fn random(entropy: &dyn Entropy) -> Self {
                Self::from_bits(entropy.bits())
            }

            /// Makes one of 128 given bits; the version and variant bits of a random UUID are set.
            pub fn from_bits(bits: [u8; 16]) -> Self {
                Self(uuid::Builder::from_random_bytes(bits).into_uuid())
            }

            /// The 16 bytes of the identity.
            pub fn as_bytes(&self) -> &[u8; 16] {
                self.0.as_bytes()
            }

            /// The identity that these 16 bytes spell, taken as they are.
            pub fn from_bytes(bytes: [u8; 16]) -> Self {
                Self(Uuid::from_bytes(bytes))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.hyphenated().fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({self})", stringify!($name))
            }
        }

        impl FromStr for $name {
            type Err = ParseIdError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Uuid::try_parse(text).map(Self).map_err(|_| {
                    ParseIdError::of_text($what, text, "it is not a UUID")
                })
            }
        }
    };
}

identity! {
    /// A stack's identity for ever: survives renames; a stack that is removed and made again has another one.
    Lineage, "lineage"
}
identity! {
    /// An entry's identity: follows the object through moves and replacements of its key.
    Uid, "uid"
}
identity! {
    /// Names one mutation, from its begin to its end and in every look-up afterwards.
    MutationId, "mutation id"
}
identity! {
    /// Names one update: everything between its start and the revision that it makes.
    UpdateId, "update id"
}
identity! {
    /// Makes the bytes of a write unique, so that an uncertain answer can be settled by reading back.
    Nonce, "nonce"
}
