//! States that come packed: gzip and zstd, told by their first bytes, and never larger than a state may be.

use crate::error::Result;
use std::fmt;
use std::io::Read;

/// The largest state, in bytes.
const MAX_BYTES: u64 = 1 << 30;
/// Up to this size nobody asks how well it was packed.
const FREE_BYTES: u64 = 64 << 20;
/// Beyond it, no state packs better than this.
const MAX_RATIO: u64 = 200;

/// How a state is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Packing {
    /// gzip, one member or several.
    Gzip,
    /// Zstandard.
    Zstd,
}

impl fmt::Display for Packing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        })
    }
}

impl Packing {
    /// How these bytes are packed, if they are.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [0x1f, 0x8b, ..] => Some(Self::Gzip),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Self::Zstd),
            _ => None,
        }
    }
}

/// The bytes unpacked, if they were packed.
///
/// # Errors
/// [`Error::Core`](crate::Error::Core) when they are damaged, cut short, or unpack to more than a state may be: the limit
/// is 1 GiB, and 200 times the packed size for what unpacks to more than 64 MiB.
pub fn unpack(bytes: Vec<u8>) -> Result<Vec<u8>> {
    match Packing::of(&bytes) {
        None => Ok(bytes),
        Some(packing) => unpacked(&bytes, packing, cap_of(bytes.len() as u64)),
    }
}

/// How many bytes may come out of so many packed ones.
fn cap_of(packed: u64) -> u64 {
    packed.saturating_mul(MAX_RATIO).max(FREE_BYTES).min(MAX_BYTES)
}

fn unpacked(bytes: &[u8], packing: Packing, cap: u64) -> Result<Vec<u8>> {
    let refuse = |reason: String| {
        let object = format!("{packing} stream");
        Err(state_core::Error::invalid(object, reason).into())
    };
    let reader: Box<dyn Read + '_> = match packing {
        Packing::Gzip => Box::new(flate2::read::MultiGzDecoder::new(bytes)),
        Packing::Zstd => match zstd::stream::read::Decoder::with_buffer(bytes) {
            Ok(decoder) => Box::new(decoder),
            Err(_) => return refuse("it can't be unpacked".to_owned()),
        },
    };
    let mut out = Vec::new();
    // One byte more than allowed tells a state that is too large from one that just fits.
    if reader.take(cap + 1).read_to_end(&mut out).is_err() {
        let reason = format!(
            "it is damaged or cut short after {} unpacked bytes, or something follows it",
            out.len()
        );
        return refuse(reason);
    }
    if out.len() as u64 > cap {
        return refuse(format!(
            "its {} bytes unpack to more than {}: no state packs so well",
            bytes.len(),
            cap
        ));
    }
    Ok(out)
}

#[cfg(test)]
mod tests;
