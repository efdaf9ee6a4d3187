//! Ids of stacks, resources, updates and mutations: random UUIDs.
//!
//! This module never generates randomness: the caller passes a source of random bits, an [`Entropy`].

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
            /// Creates a random identity.
            pub fn random(entropy: &dyn Entropy) -> Self {
                Self::from_bits(entropy.bits())
            }

            /// Creates an identity from 128 bits, setting the version and variant bits of a random UUID.
            pub fn from_bits(bits: [u8; 16]) -> Self {
                Self(uuid::Builder::from_random_bytes(bits).into_uuid())
            }

            /// The 16 bytes of the identity.
            pub fn as_bytes(&self) -> &[u8; 16] {
                self.0.as_bytes()
            }

            /// Wraps the 16 bytes of an existing identity unchanged.
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
    /// The permanent identity of a stack. It survives renames; a stack that is removed and created again gets a new
    /// one.
    Lineage, "lineage"
}
identity! {
    /// The identity of an entry. It doesn't change when the entry moves or its key changes.
    Uid, "uid"
}
identity! {
    /// Identifies one mutation from its begin to its end, and in every later lookup.
    MutationId, "mutation id"
}
identity! {
    /// Identifies one update: everything between its start and the revision that it creates.
    UpdateId, "update id"
}
identity! {
    /// Makes the bytes of a write unique, so that a read can determine whether a write with an unknown outcome took
    /// effect.
    Nonce, "nonce"
}
