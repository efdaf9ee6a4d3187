//! Logs of updates as stored objects: their limits, their decoding, and the context that binds a sealed message.

use state_core::journal::LogRef;
use state_core::{Address, Error, LogLine, Result};

/// Maximum size in bytes of the lines in one update's log.
pub(crate) const MAX_LOG: usize = 32 << 20;

/// Maximum size in bytes of a stored log, uncompressed. Readers refuse a larger one before they allocate memory.
const MAX_STORED: usize = MAX_LOG + (1 << 20);

/// The context to which a sealed message is bound: a message copied to another line doesn't open.
pub(crate) fn context(line: &LogLine) -> String {
    let address = line.address.as_ref().map_or("", Address::as_str);
    format!("log {} {address}", line.time.as_str())
}

/// Decodes a stored log. `log` is its digest in the history.
///
/// # Errors
/// `Corrupt` if the log doesn't match its digest, or isn't a log.
pub(crate) fn unpack(object: &str, packed: &[u8], log: &LogRef) -> Result<Vec<LogLine>> {
    let damaged = |offset, reason| Error::corrupt(object, offset, reason);
    if LogRef::of(packed) != *log {
        return Err(damaged(
            0,
            "its content doesn't match the digest in the history: it was changed, or belongs to another revision",
        ));
    }
    let lines = zstd::bulk::decompress(packed, MAX_STORED)
        .map_err(|_| damaged(0, "it can't be decompressed or is too large"))?;
    let mut offset = 0;
    let mut read = Vec::new();
    for line in lines.split_inclusive(|&b| b == b'\n') {
        let parsed = serde_json::from_slice(line).map_err(|_| damaged(offset, "a line is not a log line"))?;
        read.push(parsed);
        offset += line.len() as u64;
    }
    Ok(read)
}
