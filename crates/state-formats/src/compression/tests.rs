//! Tests that compressed data is decompressed completely or refused.

use super::{Compression, decompress, decompress_up_to, max_decompressed};
use std::io::Write;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::bulk::compress(bytes, 1).unwrap()
}

#[test]
fn compression_is_detected_and_decompressed() {
    let text = b"{\"version\":3}".repeat(100);
    for (packed, packing) in [(gzip(&text), Compression::Gzip), (zstd(&text), Compression::Zstd)] {
        assert_eq!(Compression::of(&packed), Some(packing));
        assert_eq!(decompress(packed).unwrap(), text);
    }
    let parts = [gzip(&text[..500]), gzip(&text[500..])].concat();
    assert_eq!(decompress(parts).unwrap(), text);
    assert_eq!(Compression::of(&text), None);
    assert_eq!(decompress(text.clone()).unwrap(), text);
}

#[test]
fn truncated_damaged_and_extended_streams_are_refused() {
    let text: Vec<u8> = (0..20_000_u32)
        .flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes())
        .collect();
    for packed in [gzip(&text), zstd(&text)] {
        for end in [5, packed.len() / 2, packed.len() - 1] {
            let error = decompress(packed[..end].to_vec()).unwrap_err().to_string();
            assert!(
                error.contains("truncated") || error.contains("decompressed"),
                "{error}"
            );
        }
        let mut longer = packed.clone();
        longer.extend_from_slice(b"{}");
        assert!(decompress(longer).is_err());
    }
    let mut damaged = gzip(&text);
    let middle = damaged.len() / 2;
    damaged[middle] ^= 0xff;
    assert!(decompress(damaged).is_err());
}

#[test]
fn decompression_bomb_is_refused_at_the_size_limit() {
    let zeros = vec![b' '; (64 << 20) + 1];
    for packed in [gzip(&zeros), zstd(&zeros)] {
        let error = decompress(packed).unwrap_err().to_string();
        assert!(error.contains("which is too much for a state"), "{error}");
    }
    let small = gzip(&[b' '; 1000]);
    assert!(decompress_up_to(&small, Compression::Gzip, 999).is_err());
    assert_eq!(
        decompress_up_to(&small, Compression::Gzip, 1000).unwrap().len(),
        1000
    );
}

#[test]
fn size_limit_grows_with_compressed_size_up_to_1_gib() {
    assert_eq!(max_decompressed(10), 64 << 20);
    assert_eq!(max_decompressed(1 << 20), 200 << 20);
    assert_eq!(max_decompressed(1 << 40), 1 << 30);
}
