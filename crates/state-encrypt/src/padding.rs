//! Pads values before they are sealed, so that a sealed value shows its length only in steps of 32 bytes: `true` and
//! `false` become equally long.
//!
//! ```text
//! length of the value (8 bytes, little-endian) ‖ value ‖ zeros up to a multiple of 32 bytes
//! ```

/// Padded values are a multiple of this number of bytes long.
const BLOCK: usize = 32;

/// Bytes before the value that hold its length.
pub(crate) const LENGTH: usize = 8;

/// Length of a value of `length` bytes after padding.
pub(crate) const fn padded_length(length: usize) -> usize {
    (LENGTH + length).next_multiple_of(BLOCK)
}

/// Appends the padded form of a value.
pub(crate) fn push_padded(out: &mut Vec<u8>, value: &[u8]) {
    let end = out.len() + padded_length(value.len());
    out.extend_from_slice(&(value.len() as u64).to_le_bytes());
    out.extend_from_slice(value);
    out.resize(end, 0);
}

/// The value in a padded value; `None` if that doesn't have exactly the form that [`push_padded`] writes.
pub(crate) fn unpadded(bytes: &[u8]) -> Option<&[u8]> {
    let (length, rest) = bytes.split_first_chunk::<LENGTH>()?;
    let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
    let (value, padding) = rest.split_at_checked(length)?;
    let is_padded = bytes.len() == padded_length(length) && padding.iter().all(|byte| *byte == 0);
    is_padded.then_some(value)
}

#[cfg(test)]
mod tests {
    use super::{BLOCK, padded_length, push_padded, unpadded};

    fn padded(value: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        push_padded(&mut bytes, value);
        bytes
    }

    #[test]
    fn padding_is_removed_exactly_and_hides_short_lengths() {
        for length in 0..100 {
            let value = vec![b'x'; length];
            let bytes = padded(&value);
            assert_eq!(bytes.len() % BLOCK, 0);
            assert_eq!(bytes.len(), padded_length(length));
            assert_eq!(unpadded(&bytes), Some(&*value));
        }
        assert_eq!(padded(b"true").len(), padded(b"false").len());
        assert_eq!(padded(&[b'x'; 24]).len(), 32);
        assert_eq!(padded(&[b'x'; 25]).len(), 64);
    }

    #[test]
    fn malformed_padding_is_refused() {
        let good = padded(b"true");
        let mut late = good.clone();
        late[31] = 1;
        let mut long = good.clone();
        long[0] = 25;
        let mut short = good.clone();
        short[0] = 3;
        let mut huge = good.clone();
        huge[7] = 0xff;
        let spare = [&*good, &[0; BLOCK]].concat();
        for bytes in [
            Vec::new(),
            vec![0; 7],
            vec![0; 16],
            late,
            long,
            short,
            huge,
            spare,
        ] {
            assert_eq!(unpadded(&bytes), None, "{bytes:?}");
        }
    }
}
