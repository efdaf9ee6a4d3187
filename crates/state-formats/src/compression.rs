//! Decompresses gzip and zstd files, detected by their first bytes, with a limit on the decompressed size.

use crate::error::Result;
use std::fmt;
use std::io::Read;

/// Maximum size of a decompressed state, in bytes.
const MAX_BYTES: u64 = 1 << 30;
/// Decompressed size up to which the ratio isn't limited, in bytes.
const RATIO_FREE_BYTES: u64 = 64 << 20;
/// Maximum compression ratio of a larger state; real states compress far less.
const MAX_RATIO: u64 = 200;

/// The compression of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Compression {
    /// The gzip format with one or several members.
    Gzip,
    /// The Zstandard format of RFC 8878.
    Zstd,
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        })
    }
}

impl Compression {
    /// Detects the compression of a file from its first bytes; None if it isn't compressed.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [0x1f, 0x8b, ..] => Some(Self::Gzip),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Self::Zstd),
            _ => None,
        }
    }
}

/// Decompresses the bytes if they are compressed, else returns them unchanged.
///
/// # Errors
/// [`Error::Core`](crate::Error::Core) when the bytes are damaged, truncated, or decompress to more than the limit. The
/// limit is 200 times the compressed size, but at least 64 MiB and at most 1 GiB.
pub fn decompress(bytes: Vec<u8>) -> Result<Vec<u8>> {
    match Compression::of(&bytes) {
        None => Ok(bytes),
        Some(packing) => decompress_up_to(&bytes, packing, max_decompressed(bytes.len() as u64)),
    }
}

/// Maximum decompressed size for a compressed size, in bytes.
fn max_decompressed(packed: u64) -> u64 {
    packed
        .saturating_mul(MAX_RATIO)
        .clamp(RATIO_FREE_BYTES, MAX_BYTES)
}

fn decompress_up_to(bytes: &[u8], packing: Compression, cap: u64) -> Result<Vec<u8>> {
    let refuse = |reason: String| {
        let object = format!("{packing} stream");
        Err(state_core::Error::invalid(object, reason).into())
    };
    let reader: Box<dyn Read + '_> = match packing {
        Compression::Gzip => Box::new(flate2::read::MultiGzDecoder::new(bytes)),
        Compression::Zstd => match zstd::stream::read::Decoder::with_buffer(bytes) {
            Ok(decoder) => Box::new(decoder),
            Err(_) => return refuse("it can't be decompressed".to_owned()),
        },
    };
    let mut out = Vec::new();
    // Read one byte more than allowed, to distinguish a state that is too large from one of exactly the maximum size.
    if reader.take(cap + 1).read_to_end(&mut out).is_err() {
        let reason = format!(
            "it is damaged or truncated after {} decompressed bytes, or is followed by other data",
            out.len()
        );
        return refuse(reason);
    }
    if out.len() as u64 > cap {
        return refuse(format!(
            "its {} bytes decompress to more than {} bytes, which is too much for a state",
            bytes.len(),
            cap
        ));
    }
    Ok(out)
}

#[cfg(test)]
mod tests;
