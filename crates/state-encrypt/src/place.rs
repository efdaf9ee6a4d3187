//! The place of a value: the owner, side and path that are authenticated with its ciphertext and named in errors.

use state_core::{Address, KeyId, Lineage, Uid};
use std::fmt;

/// Room for the associated data and a short value: growing means to wipe and free the memory before.
const SHORT: usize = 256;

/// First field of the associated data of every value.
const FORMAT: &[u8] = b"state-value-v2";

/// The owner of a value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Owner<'a> {
    /// An entry. The address is used in messages only: a move doesn't change the place of a value.
    Entry { uid: Uid, address: &'a Address },
    /// The stack itself, for its outputs and extensions.
    Stack,
    /// A document of published outputs.
    OutputsDocument,
}

/// The part of the owner that contains the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Inputs,
    Outputs,
    Extensions,
    Unknown,
    Id,
    InitErrors,
}

impl Side {
    const fn name(self) -> &'static str {
        match self {
            Self::Inputs => "inputs",
            Self::Outputs => "outputs",
            Self::Extensions => "extensions",
            Self::Unknown => "unknown",
            Self::Id => "id",
            Self::InitErrors => "init-errors",
        }
    }
}

/// The owner and side of a value. Methods take the path separately.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    pub(crate) owner: Owner<'a>,
    pub(crate) side: Side,
}

impl<'a> Place<'a> {
    pub(crate) const fn new(owner: Owner<'a>, side: Side) -> Self {
        Self { owner, side }
    }

    /// Describes a path in this place for an error message, with names and paths but without values.
    pub(crate) fn at(&self, path: &str) -> String {
        let inside = if path.is_empty() {
            String::new()
        } else {
            format!(" {path}")
        };
        format!("{}{}{inside}", self.owner, self.side.name())
    }

    /// Returns the beginning of the associated data of all values in this place, after room for its length. The length of
    /// every field precedes it, so that no two places have the same associated data.
    pub(crate) fn associated(&self, lineage: Lineage) -> Vec<u8> {
        let (owner, uid): (&[u8], &[u8]) = match &self.owner {
            Owner::Entry { uid, .. } => (b"entry", uid.as_bytes()),
            Owner::Stack => (b"stack", b""),
            Owner::OutputsDocument => (b"outputs-document", b""),
        };
        let mut bytes = Vec::with_capacity(SHORT);
        bytes.extend_from_slice(&[0; LENGTH]);
        for field in [
            FORMAT,
            lineage.as_bytes(),
            owner,
            uid,
            self.side.name().as_bytes(),
        ] {
            push_field(&mut bytes, field);
        }
        bytes
    }
}

/// Number of bytes that [`complete`] appends for a path.
pub(crate) const fn rest_length(path: &str) -> usize {
    2 * LENGTH + path.len() + size_of::<KeyId>()
}

/// Completes the associated data that [`Place::associated`] began, for the value at a path under a key.
pub(crate) fn complete(bytes: &mut Vec<u8>, path: &str, key: KeyId) {
    push_field(bytes, path.as_bytes());
    push_field(bytes, key.as_bytes());
    let associated = length(&bytes[LENGTH..]);
    bytes[..LENGTH].copy_from_slice(&associated);
}

fn push_field(bytes: &mut Vec<u8>, field: &[u8]) {
    bytes.extend_from_slice(&length(field));
    bytes.extend_from_slice(field);
}

/// Number of bytes of a length prefix.
pub(crate) const LENGTH: usize = 4;

/// Encodes the length prefix of a field. No field is too long for them: a path is shorter than the text that
/// contains the path.
fn length(bytes: &[u8]) -> [u8; LENGTH] {
    u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes()
}

impl fmt::Display for Owner<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Entry { address, .. } => write!(f, "resource {address}: "),
            Self::Stack => f.write_str("the stack's "),
            Self::OutputsDocument => f.write_str("the outputs document: "),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn distinct_places_have_distinct_associated_data() {
        let address = Address::new("a").unwrap();
        let entry = |bits| Owner::Entry {
            uid: Uid::from_bits([bits; 16]),
            address: &address,
        };
        let key = |byte| KeyId::from_bytes([byte; 16]).unwrap();
        let mut distinct = BTreeSet::new();
        let sides = [
            Side::Inputs,
            Side::Outputs,
            Side::Extensions,
            Side::Unknown,
            Side::Id,
            Side::InitErrors,
        ];
        let owners = [entry(1), entry(2), Owner::Stack, Owner::OutputsDocument];
        for (owner, side) in owners
            .into_iter()
            .flat_map(|owner| sides.map(|side| (owner, side)))
        {
            for path in ["", "/a", "/a/b", "/a~1b"] {
                for (lineage, key_byte) in [(1, 1), (2, 1), (1, 2)] {
                    let lineage = Lineage::from_bits([lineage; 16]);
                    let mut bytes = Place::new(owner, side).associated(lineage);
                    let beginning = bytes.len();
                    complete(&mut bytes, path, key(key_byte));
                    assert_eq!(bytes.len() - beginning, rest_length(path));
                    distinct.insert(bytes);
                }
            }
        }
        assert_eq!(distinct.len(), 4 * 6 * 4 * 3);
    }
}
