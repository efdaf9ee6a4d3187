//! A set of records, which stand for the frames that writers append.

use std::fmt;

/// A set of up to 16 records, each a number.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Records(u16);

impl Records {
    /// The set without a record.
    pub const NONE: Self = Self(0);

    /// Returns this set with one more record.
    ///
    /// # Panics
    /// Panics if the number is above 15: the bounds of the model are too large for its state.
    #[must_use]
    pub fn with(self, record: u8) -> Self {
        assert!(record < 16, "a model can have at most 16 records");
        Self(self.0 | 1 << record)
    }

    /// Returns the records of both sets.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the records of this set that the other one doesn't have.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether all records of the other set are in this one.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        other.0 & !self.0 == 0
    }

    /// Whether the sets have a record in common.
    #[must_use]
    pub const fn overlaps(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether the set has no record.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Debug for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let members = (0..16).filter(|record| self.0 & 1 << record != 0);
        f.debug_set().entries(members).finish()
    }
}
