//! Encodes and parses journal frames. A frame has the same bytes in a file and in an object.
//!
//! | bytes | field | |
//! |---|---|---|
//! | 4 | magic | `SJF1` |
//! | 1 | version | 1, of the frame format |
//! | 1 | kind | 1 data, 2 fence |
//! | 1 | digest algorithm | 1 BLAKE3 |
//! | 1 | flags | bit 0: a MAC follows the chain |
//! | 8 | epoch | big-endian, as all numbers |
//! | 8 | slot | |
//! | 4 | length | of the payload |
//! | 16 | key id | zeros: no key |
//! | 16 | nonce | |
//! | 4 | header CRC-32C | over the 60 bytes before |
//! | length | payload | JSON lines without NUL, so that a sector of zeros reveals an interrupted write |
//! | 32 | chain | BLAKE3(previous chain ‖ header ‖ payload) |
//! | 16 | MAC | sealed stacks only |

use crate::counter::{Epoch, Slot};
use crate::digest::{Digest, DigestAlgorithm, KeyId};
use crate::error::{Error, Result};
use crate::format::tag::{MacKey, Tag, TagDomain};
use crate::id::Nonce;
use bytes::Bytes;
use std::fmt;

const MAGIC: &[u8; 4] = b"SJF1";
const VERSION: u8 = 1;
const HEADER: usize = 64;
const CHAIN: usize = 32;
const MAC: usize = Tag::SHORT;
const FLAG_MAC: u8 = 1;

/// The number of bytes that a frame adds to its payload, at most.
pub const MAX_OVERHEAD: usize = HEADER + CHAIN + MAC;

/// The maximum payload length in bytes. Readers reject longer payloads before they allocate memory.
pub const MAX_PAYLOAD: usize = 64 << 20;

const CRC: crc::Crc<u32> = crc::Crc::<u32>::new(&crc::CRC_32_ISCSI);

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FrameKind {
    /// A batch of records.
    Data,
    /// A change of the lock holder or of the segment: see [`Fence`](super::Fence).
    Fence,
}

/// One frame of the journal, linked to its predecessor by the digest chain.
#[derive(Clone, PartialEq, Eq)]
pub struct Frame {
    header: Header,
    chain: Digest,
    bytes: Bytes,
}

impl Frame {
    /// Creates the frame that follows `previous` in the digest chain.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the payload is longer than [`MAX_PAYLOAD`].
    pub fn new(
        kind: FrameKind,
        epoch: Epoch,
        slot: Slot,
        nonce: Nonce,
        payload: &[u8],
        previous: &Digest,
    ) -> Result<Self> {
        Self::tagged(None::<&dyn MacKey>, kind, epoch, slot, nonce, payload, previous)
    }

    /// Like [`Frame::new`], with a MAC if there is a key. The MAC covers the chain digest, hence the frame and all
    /// its predecessors.
    ///
    /// Fences have no MAC, because a takeover needs no key. A forged fence could only end the journal early, which
    /// write access to the file allows anyway.
    ///
    /// # Errors
    /// As for [`Frame::new`].
    pub fn tagged<K: MacKey + ?Sized>(
        key: Option<&K>,
        kind: FrameKind,
        epoch: Epoch,
        slot: Slot,
        nonce: Nonce,
        payload: &[u8],
        previous: &Digest,
    ) -> Result<Self> {
        if payload.len() > MAX_PAYLOAD {
            return Err(Error::invalid(
                format!("journal frame of slot {slot}"),
                format!(
                    "its {} bytes exceed the limit of {MAX_PAYLOAD} bytes for a frame's payload",
                    payload.len()
                ),
            ));
        }
        let header = Header {
            kind,
            epoch,
            slot,
            length: payload.len(),
            mac: if key.is_some() { MAC } else { 0 },
            key_id: key.map(MacKey::id),
            nonce,
        };
        let mut bytes = Vec::with_capacity(header.total());
        bytes.extend_from_slice(MAGIC);
        let kind_code = match kind {
            FrameKind::Data => 1,
            FrameKind::Fence => 2,
        };
        let flags = if key.is_some() { FLAG_MAC } else { 0 };
        bytes.extend_from_slice(&[VERSION, kind_code, DigestAlgorithm::Blake3.code(), flags]);
        bytes.extend_from_slice(&epoch.get().to_be_bytes());
        bytes.extend_from_slice(&slot.get().to_be_bytes());
        // The length was checked above: at most 64 MiB.
        bytes.extend_from_slice(&u32::try_from(payload.len()).unwrap_or(u32::MAX).to_be_bytes());
        bytes.extend_from_slice(&header.key_id.map_or([0; 16], |id| *id.as_bytes()));
        bytes.extend_from_slice(nonce.as_bytes());
        bytes.extend_from_slice(&CRC.checksum(&bytes).to_be_bytes());
        bytes.extend_from_slice(payload);
        let chain = Digest::of_parts(&[previous.as_bytes(), &bytes]);
        bytes.extend_from_slice(chain.as_bytes());
        if let Some(key) = key {
            bytes.extend_from_slice(&key.tag(TagDomain::Frame, chain.as_bytes()).short());
        }
        let bytes = bytes.into();
        Ok(Self { header, chain, bytes })
    }

    /// The kind of the frame.
    pub const fn kind(&self) -> FrameKind {
        self.header.kind
    }

    /// The epoch of the writer.
    pub const fn epoch(&self) -> Epoch {
        self.header.epoch
    }

    /// The position of the frame in the journal.
    pub const fn slot(&self) -> Slot {
        self.header.slot
    }

    /// The id of the data key that sealed the frame's values and made its MAC. `None` for a fence, and on a stack
    /// without a key.
    pub const fn key_id(&self) -> Option<KeyId> {
        self.header.key_id
    }

    /// The nonce that makes the frame's bytes unique.
    pub const fn nonce(&self) -> Nonce {
        self.header.nonce
    }

    /// The digest chain after this frame.
    pub const fn chain(&self) -> &Digest {
        &self.chain
    }

    /// Whether the frame has a MAC under this key.
    pub fn is_authentic(&self, key: &dyn MacKey) -> bool {
        let tag = key.tag(TagDomain::Frame, self.chain.as_bytes());
        self.header.key_id == Some(key.id())
            && self.header.mac == MAC
            && self.bytes.last_chunk().is_some_and(|mac| tag.begins_with(mac))
    }

    /// The payload as JSON lines: the records of a data frame, or one [`Fence`](super::Fence).
    pub fn payload(&self) -> &[u8] {
        &self.bytes[HEADER..HEADER + self.header.length]
    }

    /// The encoded bytes of the frame.
    pub const fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Parses the frame at `offset` in `bytes`, which must follow `previous` in the digest chain.
    ///
    /// Never allocates more than the length of the frame, and never panics on invalid bytes.
    pub fn parse(bytes: &Bytes, offset: usize, previous: &Digest) -> ParsedFrame {
        let rest = bytes.slice(offset.min(bytes.len())..);
        if rest.is_empty() {
            return ParsedFrame::End;
        }
        let header = match Header::read(&rest) {
            Ok(header) => header,
            Err(reason) if rest.len() < HEADER => return ParsedFrame::Short { reason },
            Err(reason) => return bad(reason),
        };
        if rest.len() < header.total() {
            return ParsedFrame::Short {
                reason: "the frame is longer than the remaining bytes",
            };
        }
        let body = HEADER + header.length;
        let chain = Digest::of_parts(&[previous.as_bytes(), &rest[..body]]);
        if chain.as_bytes() != &rest[body..body + CHAIN] {
            return bad("the digest chain doesn't match: a byte or a frame was changed");
        }
        let bytes = rest.slice(..header.total());
        ParsedFrame::Frame(Self { header, chain, bytes })
    }

    /// Returns the payload of the frame at the start of `bytes`, and checks only the header. The payload of a fence
    /// contains the chain digest that [`parse`](Self::parse) needs. `None` if the header is invalid or the frame is
    /// incomplete.
    pub fn unverified_payload(bytes: &[u8]) -> Option<&[u8]> {
        let header = Header::read(bytes).ok()?;
        (bytes.len() >= header.total()).then(|| &bytes[HEADER..HEADER + header.length])
    }

    /// The unverified chain digest of the frame at the start of `bytes`, for readers that begin with the next frame.
    /// `None` if the frame is incomplete.
    pub fn unverified_chain(bytes: &[u8]) -> Option<Digest> {
        let header = Header::read(bytes).ok()?;
        let body = HEADER + header.length;
        let chain = bytes.get(body..body + CHAIN)?;
        Some(Digest::from_bytes(chain.try_into().ok()?))
    }

    /// Epoch and kind of the frame at the start of `bytes`, which may end after the header. `None` if the header is
    /// not valid.
    pub fn peek(bytes: &[u8]) -> Option<(Epoch, FrameKind)> {
        let header = Header::read(bytes).ok()?;
        Some((header.epoch, header.kind))
    }

    /// Returns the length of the frame at the start of `bytes` according to its header, even if `bytes` is shorter.
    /// Returns the length of a header if the header is not valid.
    pub fn extent(bytes: &[u8]) -> usize {
        Header::read(bytes).map_or(HEADER, |header| header.total())
    }

    /// Whether `bytes` contains a valid header at any offset. If a header follows an incomplete frame, the journal is
    /// damaged, because an interrupted write leaves an incomplete frame only at the end of the journal.
    pub fn header_anywhere(bytes: &[u8]) -> bool {
        bytes
            .windows(MAGIC.len())
            .enumerate()
            .any(|(at, window)| window == MAGIC && Header::read(&bytes[at..]).is_ok())
    }

    /// Whether these bytes may be the beginning of an incomplete header. False if they are as long as a header or
    /// longer.
    pub fn is_header_prefix(bytes: &[u8]) -> bool {
        let known = bytes.len().min(MAGIC.len());
        bytes.len() < HEADER && bytes[..known] == MAGIC[..known]
    }
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frame")
            .field("kind", &self.header.kind)
            .field("epoch", &self.header.epoch)
            .field("slot", &self.header.slot)
            .field("chain", &self.chain)
            .field("payload-bytes", &self.payload().len())
            .finish_non_exhaustive()
    }
}

/// The result of parsing at an offset of a journal file or object.
#[derive(Clone, Debug)]
pub enum ParsedFrame {
    /// A complete frame that follows its predecessor.
    Frame(Frame),
    /// The offset is the end of the bytes.
    End,
    /// The bytes end within a frame.
    Short {
        /// How the truncation was detected.
        reason: &'static str,
    },
    /// The bytes are not a frame, or not the frame that follows.
    Bad {
        /// Description of the failed check.
        reason: &'static str,
    },
}

const fn bad(reason: &'static str) -> ParsedFrame {
    ParsedFrame::Bad { reason }
}

#[derive(Clone, PartialEq, Eq)]
struct Header {
    kind: FrameKind,
    epoch: Epoch,
    slot: Slot,
    length: usize,
    mac: usize,
    key_id: Option<KeyId>,
    nonce: Nonce,
}

impl Header {
    /// Reads the header at the start of `bytes`. The error names the failed check.
    fn read(bytes: &[u8]) -> Result<Self, &'static str> {
        let Some(header) = bytes.first_chunk::<HEADER>() else {
            return Err("fewer bytes than a header");
        };
        if &header[..4] != MAGIC {
            return Err("the bytes are not a frame header");
        }
        // The checksum is verified before the fields: a flipped bit must be reported as damage, not as an unknown
        // version.
        if CRC.checksum(&header[..60]).to_be_bytes() != header[60..] {
            return Err("the header's checksum doesn't match");
        }
        let kind = match header[5] {
            1 => FrameKind::Data,
            2 => FrameKind::Fence,
            _ => {
                return Err("this build doesn't know the kind of frame");
            }
        };
        if header[4] != VERSION
            || DigestAlgorithm::from_code(header[6]).is_none()
            || header[7] & !FLAG_MAC != 0
        {
            return Err("this build doesn't know the version of the frame");
        }
        let number = |at: usize| u64::from_be_bytes(std::array::from_fn(|i| header[at + i]));
        let bits = |at: usize| std::array::from_fn(|i| header[at + i]);
        let length = u32::from_be_bytes(std::array::from_fn(|i| header[24 + i])) as usize;
        // A forged length must not make the reader wait for, or allocate, gigabytes.
        if length > MAX_PAYLOAD {
            return Err("the payload exceeds the size limit");
        }
        let epoch = Epoch(number(8));
        if epoch > Epoch::MAX {
            return Err("the epoch is above the limit of 2^48");
        }
        Ok(Self {
            kind,
            epoch,
            slot: Slot(number(16)),
            length,
            mac: if header[7] & FLAG_MAC == 0 { 0 } else { MAC },
            key_id: KeyId::from_bytes(bits(28)),
            nonce: Nonce::from_bytes(bits(44)),
        })
    }

    const fn total(&self) -> usize {
        HEADER + self.length + CHAIN + self.mac
    }
}

#[cfg(test)]
mod tests {
    use super::{Frame, FrameKind, ParsedFrame};
    use crate::counter::{Epoch, Slot};
    use crate::digest::Digest;
    use crate::format::tag::MacKey;
    use crate::id::Nonce;
    use crate::testkit::key::TagKey;

    fn frame(key: Option<&dyn MacKey>) -> Frame {
        let (nonce, before) = (Nonce::from_bytes([3; 16]), Digest::of(b"before"));
        Frame::tagged(key, FrameKind::Data, Epoch(1), Slot(2), nonce, b"{}\n", &before).unwrap()
    }

    #[test]
    fn frame_is_authentic_only_under_its_tag_key() {
        let key = TagKey::new(1);
        let frame = frame(Some(&key));
        let ParsedFrame::Frame(read) = Frame::parse(frame.bytes(), 0, &Digest::of(b"before")) else {
            panic!("the frame parses");
        };
        assert_eq!(read, frame);
        assert_eq!((read.key_id(), read.payload()), (Some(key.id()), &b"{}\n"[..]));
        assert!(read.is_authentic(&key));
        assert!(!read.is_authentic(&TagKey::new(2)));
        assert!(!self::frame(None).is_authentic(&key));
    }

    #[test]
    fn flipped_tag_bit_makes_frame_inauthentic() {
        let key = TagKey::new(1);
        let frame = frame(Some(&key));
        let length = frame.bytes().len();
        for bit in 0..16 * 8 {
            let mut bytes = frame.bytes().to_vec();
            bytes[length - 1 - bit / 8] ^= 1 << (bit % 8);
            let ParsedFrame::Frame(read) = Frame::parse(&bytes.into(), 0, &Digest::of(b"before")) else {
                panic!("the digest chain doesn't cover the tag");
            };
            assert!(!read.is_authentic(&key), "bit {bit}");
        }
    }
}
