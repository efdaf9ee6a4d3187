//! What is packed comes out whole, or not at all.

use super::{Packing, cap_of, unpack, unpacked};
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
fn what_is_packed_is_told_by_its_first_bytes_and_comes_out_as_it_went_in() {
    let text = b"{\"version\":3}".repeat(100);
    for (packed, packing) in [(gzip(&text), Packing::Gzip), (zstd(&text), Packing::Zstd)] {
        assert_eq!(Packing::of(&packed), Some(packing));
        assert_eq!(unpack(packed).unwrap(), text);
    }
    let parts = [gzip(&text[..500]), gzip(&text[500..])].concat();
    assert_eq!(unpack(parts).unwrap(), text);
    assert_eq!(Packing::of(&text), None);
    assert_eq!(unpack(text.clone()).unwrap(), text);
}

#[test]
fn what_is_cut_short_damaged_or_followed_by_something_is_refused() {
    let text: Vec<u8> = (0..20_000_u32)
        .flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes())
        .collect();
    for packed in [gzip(&text), zstd(&text)] {
        for end in [5, packed.len() / 2, packed.len() - 1] {
            let error = unpack(packed[..end].to_vec()).unwrap_err().to_string();
            assert!(
                error.contains("cut short") || error.contains("unpacked"),
                "{error}"
            );
        }
        let mut longer = packed.clone();
        longer.extend_from_slice(b"{}");
        assert!(unpack(longer).is_err());
    }
    let mut damaged = gzip(&text);
    let middle = damaged.len() / 2;
    damaged[middle] ^= 0xff;
    assert!(unpack(damaged).is_err());
}

#[test]
fn a_bomb_is_refused_before_it_fills_the_memory() {
    let zeros = vec![b' '; (64 << 20) + 1];
    for packed in [gzip(&zeros), zstd(&zeros)] {
        let error = unpack(packed).unwrap_err().to_string();
        assert!(error.contains("no state packs so well"), "{error}");
    }
    let small = gzip(&[b' '; 1000]);
    assert!(unpacked(&small, Packing::Gzip, 999).is_err());
    assert_eq!(unpacked(&small, Packing::Gzip, 1000).unwrap().len(), 1000);
}

#[test]
fn the_cap_grows_with_the_packed_size_up_to_a_gibibyte() {
    assert_eq!(cap_of(10), 64 << 20);
    assert_eq!(cap_of(1 << 20), 200 << 20);
    assert_eq!(cap_of(1 << 40), 1 << 30);
}
