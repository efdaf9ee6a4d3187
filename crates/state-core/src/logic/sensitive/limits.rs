//! Minimum lengths of strings that are searched for.

/// Minimum length of a secret string. Shorter strings often equal unrelated strings, so they are not searched for.
pub const MIN_SECRET_CHARS: usize = 6;

/// Minimum length of a secret string that is searched for as a part of longer strings.
pub const MIN_PART_CHARS: usize = 12;
