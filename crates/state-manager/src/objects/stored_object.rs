//! Whether stored bytes can be what was written under the name of an object. Needs no key.

use bytes::Bytes;
use state_core::Digest;
use state_core::backend::ObjectName;
use state_core::digest::Digester;
use std::io::{self, Write};

/// Largest uncompressed size of a snapshot or a log that is checked, as readers of snapshots limit it.
const MAX_LENGTH: u64 = 4 << 30;

/// How a file with a wrapped data key begins, in binary form and as text.
const KEY_HEADERS: [&[u8]; 2] = [b"age-encryption.org/", ARMOR_HEADER];
const ARMOR_HEADER: &[u8] = b"-----BEGIN AGE";
const ARMOR_END: &[u8] = b"-----END AGE ENCRYPTED FILE-----";

/// How the last line of an age header begins.
const HEADER_END: &[u8] = b"\n--- ";

/// The nonce and the tag of an age file, in bytes: a wrapped key is longer.
const MIN_PAYLOAD: usize = 32;

/// Why an object can't be what was written under this name; none if it can.
pub(crate) fn fault(name: &ObjectName, bytes: &Bytes) -> Option<&'static str> {
    let differs = "its content doesn't match the digest in its name";
    match name {
        ObjectName::Snapshot { short, .. } => match unpacked_digest(bytes) {
            Some(digest) => (digest.short() != *short).then_some(differs),
            None => Some("it can't be decompressed"),
        },
        ObjectName::HistoryPage { short, .. } | ObjectName::HistoryIndex { short, .. } => {
            (Digest::of(bytes).short() != *short).then_some(differs)
        }
        ObjectName::Log(_) => unpacked_digest(bytes)
            .is_none()
            .then_some("it can't be decompressed"),
        ObjectName::Key { .. } if !KEY_HEADERS.iter().any(|header| bytes.starts_with(header)) => {
            Some("it isn't a wrapped data key")
        }
        ObjectName::Key { .. } => (!is_whole_key(bytes)).then_some("it was cut"),
        ObjectName::Outputs(_) => {
            let parsed = serde_json::from_slice::<serde::de::IgnoredAny>(bytes);
            parsed.is_err().then_some("it can't be parsed")
        }
        _ => None,
    }
}

/// Whether a file with a wrapped data key has an end: the last line of its header and an encrypted key, or the last line of its
/// armor.
fn is_whole_key(bytes: &[u8]) -> bool {
    if bytes.starts_with(ARMOR_HEADER) {
        return bytes.trim_ascii_end().ends_with(ARMOR_END);
    }
    let mac = bytes
        .windows(HEADER_END.len())
        .position(|found| found == HEADER_END);
    let rest = mac.map_or(&[][..], |mac| &bytes[mac + HEADER_END.len()..]);
    let payload = rest
        .iter()
        .position(|byte| *byte == b'\n')
        .map_or(0, |end| rest.len() - end - 1);
    payload > MIN_PAYLOAD
}

/// Computes the digest of what is written to it, up to the largest size.
struct DigestWriter {
    digester: Digester,
    rest: u64,
}

impl Write for DigestWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let rest = self.rest.checked_sub(bytes.len() as u64);
        self.rest = rest.ok_or_else(|| io::Error::other("it is too large"))?;
        self.digester.add(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn unpacked_digest(packed: &[u8]) -> Option<Digest> {
    let mut writer = DigestWriter {
        digester: Digester::default(),
        rest: MAX_LENGTH,
    };
    zstd::stream::copy_decode(packed, &mut writer).ok()?;
    Some(writer.digester.finish())
}
