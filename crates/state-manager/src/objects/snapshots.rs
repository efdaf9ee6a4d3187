//! Full snapshots as stored objects: encoding, digest and compression. Also the size limits of an entry, in a snapshot
//! and in a record.

use crate::compute::compute;
use bytes::Bytes;
use state_core::digest::Digester;
use state_core::json::{Document, Limits};
use state_core::verify::{Rule, Violation};
use state_core::{Entry, EntryKey, Error, Result, Slot, Snapshot, SnapshotRef, Writer, codec};
use std::io::{Read, Take, Write};
use std::num::NonZeroUsize;
use std::sync::Arc;

/// Compression level. The fastest level also compresses states best: their outputs repeat their inputs.
const LEVEL: i32 = 1;

/// Maximum size of a snapshot in bytes, uncompressed. Readers refuse a larger one before they allocate memory.
const MAX_LENGTH: u64 = 4 << 30;

/// Maximum size of an encoded entry in bytes.
const MAX_ENTRY: usize = 32 << 20;

/// Number of bytes that are reserved for the compressed form of each entry: most entries need fewer.
const RESERVED: usize = 512;

/// Number of bytes that are decompressed at once: large enough for the digest to be computed at full speed, and small
/// enough for the cache of a processor.
const BLOCK: usize = 256 << 10;

/// Size in bytes from which several threads decode a snapshot.
const SEVERAL_THREADS: u64 = 4 << 20;

/// A compressed snapshot, with the reference that names it.
pub(crate) struct PackedSnapshot {
    pub(crate) reference: SnapshotRef,
    pub(crate) bytes: Bytes,
}

/// Encodes and compresses a snapshot, line by line. `slot` becomes part of the object's name. Takes time proportional
/// to the size of the snapshot. Don't call it in the queue's task, where it would delay all mutations.
///
/// # Errors
/// `Integrity` with one violation for each entry that is too large.
pub(crate) fn pack(snapshot: &Snapshot, slot: Slot) -> Result<PackedSnapshot> {
    // A buffer that grows is copied, and an allocator may keep the memory of the copies. Reserved memory that nothing
    // writes to costs nothing.
    let reserved = Vec::with_capacity(snapshot.entries.len().saturating_mul(RESERVED));
    let mut packer = Packer {
        packed: zstd::Encoder::new(reserved, LEVEL).map_err(not_packed)?,
        digester: Digester::default(),
        length: 0,
    };
    let mut violations = Vec::new();
    let mut entries = snapshot.entries.iter();
    let mut is_header = true;
    codec::encode_stored_lines(snapshot, |line| {
        let entry = if is_header { None } else { entries.next() };
        is_header = false;
        // The comma and the newline after an entry don't belong to it.
        let length = line.trim_end_matches([',', '\n']).len();
        if let Some(entry) = entry.filter(|_| length > MAX_ENTRY) {
            violations.push(oversized(&entry.key(), length));
        }
        packer.add(line.as_bytes())
    })?;
    if !violations.is_empty() {
        return Err(Error::integrity("snapshot", violations));
    }
    packer.finish(slot)
}

/// Compresses a snapshot and computes its digest while its lines are added.
struct Packer {
    packed: zstd::Encoder<'static, Vec<u8>>,
    digester: Digester,
    length: u64,
}

impl Packer {
    fn add(&mut self, line: &[u8]) -> Result<()> {
        self.digester.add(line);
        self.length += line.len() as u64;
        self.packed.write_all(line).map_err(not_packed)
    }

    fn finish(self, slot: Slot) -> Result<PackedSnapshot> {
        let reference = SnapshotRef {
            slot,
            digest: self.digester.finish(),
            length: self.length,
        };
        let bytes = self.packed.finish().map_err(not_packed)?.into();
        Ok(PackedSnapshot { reference, bytes })
    }
}

fn not_packed(source: std::io::Error) -> Error {
    Error::NotApplied {
        // The error is `NotApplied`, because nothing was sent to the store yet.
        object: "snapshot".to_owned(),
        source: source.into(),
    }
}

/// Encodes a snapshot on a background thread and stores it. `slot` becomes part of the object's name.
pub(crate) async fn store(writer: &dyn Writer, snapshot: Arc<Snapshot>, slot: Slot) -> Result<SnapshotRef> {
    let packed = compute(move || pack(&snapshot, slot)).await??;
    writer.create(&packed.reference.object(), packed.bytes).await?;
    Ok(packed.reference)
}

/// Decodes a stored snapshot on up to `threads` threads and checks it against its reference. Takes time proportional to
/// its size.
///
/// # Errors
/// `Corrupt` if the snapshot doesn't match its reference.
pub(crate) fn unpack(
    object: &str,
    packed: &[u8],
    reference: &SnapshotRef,
    threads: NonZeroUsize,
) -> Result<Snapshot> {
    if reference.length > MAX_LENGTH {
        return Err(damaged(object, "it claims to be larger than 4 GiB"));
    }
    // Starting a thread takes longer than decoding a small snapshot.
    let threads = if reference.length < SEVERAL_THREADS {
        NonZeroUsize::MIN
    } else {
        threads
    };
    let mut blocks = Blocks::new(object, packed, reference)?;
    let decoded = codec::decode_stored(object, threads, |block| blocks.next(block));
    // The lines are verified only at the end of the content: until then any of them may be damaged or forged. So an
    // error in the content counts before an error in a line.
    let mut block = Vec::new();
    while blocks.next(&mut block)? {}
    blocks.check()?;
    if decoded.is_ok() {
        return decoded;
    }
    // The digest matches, so these are the bytes that were written, but in another layout, or they aren't a snapshot.
    // Decoding them as a whole accepts any layout, and reports what is wrong.
    let (mut blocks, mut whole) = (Blocks::new(object, packed, reference)?, Vec::new());
    while blocks.next(&mut block)? {
        whole.extend_from_slice(&block);
    }
    blocks.check()?;
    codec::decode(object, &whole)
}

/// Decompresses a snapshot in blocks of whole lines, and computes its digest. The text after the last newline is the last
/// block.
struct Blocks<'p> {
    object: &'p str,
    content: Take<zstd::Decoder<'static, &'p [u8]>>,
    digester: Digester,
    length: u64,
    reference: &'p SnapshotRef,
    /// The beginning of the line that continues in the next block.
    rest: Vec<u8>,
}

impl<'p> Blocks<'p> {
    fn new(object: &'p str, packed: &'p [u8], reference: &'p SnapshotRef) -> Result<Self> {
        let decoder = zstd::Decoder::with_buffer(packed).map_err(|_| not_unpacked(object))?;
        Ok(Self {
            object,
            // Reading at most one byte more than expected detects longer content, and limits the work on a decompression
            // bomb.
            content: decoder.take(reference.length + 1),
            digester: Digester::default(),
            length: 0,
            reference,
            rest: Vec::new(),
        })
    }

    /// Replaces the content of `block` by the next block; returns false at the end of the content.
    fn next(&mut self, block: &mut Vec<u8>) -> Result<bool> {
        block.clear();
        block.append(&mut self.rest);
        loop {
            let start = block.len();
            let mut next = self.content.by_ref().take(BLOCK as u64);
            let count = next.read_to_end(block).map_err(|_| not_unpacked(self.object))?;
            if count == 0 {
                return Ok(!block.is_empty());
            }
            let read = &block[start..];
            self.digester.add(read);
            self.length += read.len() as u64;
            if let Some(newline) = read.iter().rposition(|byte| *byte == b'\n') {
                let end = start + newline + 1;
                self.rest.extend_from_slice(&block[end..]);
                block.truncate(end);
                return Ok(true);
            }
        }
    }

    /// Checks the content, all of which must have been read, against its reference.
    fn check(&self) -> Result<()> {
        if self.length != self.reference.length || self.digester.finish() != self.reference.digest {
            return Err(damaged(self.object, "its content doesn't match its digest"));
        }
        Ok(())
    }
}

fn not_unpacked(object: &str) -> Error {
    damaged(object, "it can't be decompressed")
}

fn damaged(object: &str, reason: &str) -> Error {
    Error::corrupt(object, 0, reason)
}

/// Checks that an entry is small enough to be recorded.
///
/// # Errors
/// `Integrity` if the entry, or a string in it, is too large.
pub(crate) fn check_size(entry: &Entry) -> Result<()> {
    let Some(detail) = too_large(entry) else {
        return Ok(());
    };
    Err(Error::integrity(
        format!("resource {}", entry.key()),
        vec![Violation::of(Rule::Size, entry.key(), detail)],
    ))
}

/// The reason why an entry is too large to be recorded; none if it is small enough.
pub(crate) fn too_large(entry: &Entry) -> Option<String> {
    let text = codec::entry_text(entry);
    if text.len() > MAX_ENTRY {
        return Some(size(text.len()));
    }
    has_long_string(text.as_bytes()).then(|| "it contains a string of more than 16 MiB".to_owned())
}

/// The violation of an entry that is too large.
fn oversized(key: &EntryKey, length: usize) -> Violation {
    Violation::of(Rule::Size, key.clone(), size(length))
}

fn size(length: usize) -> String {
    format!("its encoding has {length} bytes; the maximum is {MAX_ENTRY}")
}

/// Whether the JSON text contains a string that is longer than readers accept.
pub(crate) fn has_long_string(json: &[u8]) -> bool {
    let limits = Limits {
        max_depth: usize::MAX,
        ..Limits::default()
    };
    json.len() > limits.max_string_bytes && Document::parse(json.trim_ascii_end(), &limits).is_err()
}

#[cfg(test)]
mod tests {
    use super::{MAX_ENTRY, check_size, pack};
    use state_core::{Address, Entry, ErrorKind, FactoryInfo, Json, Slot, Snapshot, Timestamp, codec};
    use std::sync::Arc;

    /// An entry whose encoding has this many bytes.
    fn entry_of(name: &str, length: usize) -> Entry {
        let mut entry = Entry::leaf(name.parse::<Address>().unwrap(), "thing");
        let long = |length: usize| Json::parse(&format!("\"{}\"", "x".repeat(length))).unwrap();
        // Three strings, because a single one of 32 MiB is refused for its own length.
        for name in ["x-a", "x-b"] {
            entry.extensions.insert(name.to_owned(), long(MAX_ENTRY / 3));
        }
        entry.extensions.insert("x-c".to_owned(), long(0));
        let missing = length - codec::entry_text(&entry).len();
        entry.extensions.insert("x-c".to_owned(), long(missing));
        entry
    }

    #[test]
    fn recorded_entry_of_any_size_fits_into_a_snapshot() {
        let nothing = FactoryInfo::default();
        let mut snapshot = Snapshot::new(nothing, "shop", Timestamp::new("2026-05-30T12:00:00Z"));
        // Another entry follows, because the line of every entry but the last ends with a comma.
        let last = Entry::leaf("last".parse().unwrap(), "thing");
        let largest = entry_of("first", MAX_ENTRY);
        assert!(check_size(&largest).is_ok());
        snapshot.entries = vec![Arc::new(largest), Arc::new(last)];
        assert!(pack(&snapshot, Slot::ZERO).is_ok());

        let oversized = entry_of("first", MAX_ENTRY + 1);
        assert!(check_size(&oversized).is_err());
        snapshot.entries[0] = Arc::new(oversized);
        let refused = pack(&snapshot, Slot::ZERO).map(|packed| packed.reference);
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Integrity);
    }
}
