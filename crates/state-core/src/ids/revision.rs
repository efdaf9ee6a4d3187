//! Revision ids, which name committed points of a journal.

use super::ParseIdError;
use crate::counter::Serial;
use crate::digest::Digest;
use std::fmt;
use std::str::FromStr;

/// A committed point of a stack's journal: the end of an update, or a snapshot that was stored as a detached revision.
/// Written as `<serial>-<first 16 hex digits of the chain digest>`.
///
/// The digits come from the digest chain over the whole journal. Two stores with the same revision id therefore have
/// the same history up to that revision.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RevisionId {
    serial: Serial,
    /// The first digits of the chain digest, in lower-case hexadecimal.
    short: [u8; 16],
}

impl RevisionId {
    /// Creates the id of the revision with this serial; `chain` is the chain digest after the frame that creates the
    /// revision.
    pub fn new(serial: Serial, chain: &Digest) -> Self {
        Self {
            serial,
            short: chain.short_digits(),
        }
    }

    /// The serial of the revision.
    pub const fn serial(&self) -> Serial {
        self.serial
    }

    /// The first 16 hexadecimal digits of the chain digest.
    pub fn short(&self) -> &str {
        // The digits are ASCII.
        std::str::from_utf8(&self.short).unwrap_or_default()
    }
}

impl fmt::Display for RevisionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.serial, self.short())
    }
}

impl fmt::Debug for RevisionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RevisionId({self})")
    }
}

impl FromStr for RevisionId {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parse = || {
            let (serial, short) = text.split_once('-')?;
            let canonical = serial == "0" || !serial.starts_with(['0', '+']);
            let short: [u8; 16] = short.as_bytes().try_into().ok()?;
            let hex = short
                .iter()
                .all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
            let serial = Serial(serial.parse().ok()?);
            (canonical && hex).then_some(Self { serial, short })
        };
        parse().ok_or_else(|| {
            ParseIdError::of_text(
                "revision",
                text,
                "a revision is a serial, a dash and 16 hexadecimal digits, as `history` prints them",
            )
        })
    }
}

serde_as_text!(RevisionId);
