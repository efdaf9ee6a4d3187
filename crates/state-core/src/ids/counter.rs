//! The four counters of the storage protocol. None of them ever decreases.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! counter {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl $name {
            /// The first value of the counter.
            pub const ZERO: Self = Self(0);

            /// The value as an integer.
            pub const fn get(self) -> u64 {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

/// Implements `next` for counters that a stack can't exhaust.
macro_rules! endless {
    ($($name:ident),*) => {$(
        impl $name {
            /// The next value. Saturates, because no stack reaches 2⁶⁴ events.
            pub const fn next(self) -> Self {
                Self(self.0.saturating_add(1))
            }
        }
    )*};
}

counter! {
    /// Number of a revision in its stack. Later revisions have higher serials.
    Serial
}
counter! {
    /// Position of a frame in a stack's journal, counted from 0.
    Slot
}
counter! {
    /// Counts the takeovers of a stack's writer lock. The epoch is the fencing token: writes of a lock holder with a
    /// lower epoch than the current one are refused.
    Epoch
}
counter! {
    /// Counts how often the lock of a stack on a filesystem was taken from its holder by force. Each such break
    /// switches to a new lock file.
    Generation
}

endless!(Serial, Slot, Generation);

impl Epoch {
    /// The highest valid epoch. No sequence of takeovers leads beyond it: at one takeover a millisecond it would take
    /// 8,900 years.
    pub const MAX: Self = Self(1 << 48);

    /// The maximum difference between two consecutive epochs. Takeovers that crashed, or that lost a race, leave gaps
    /// of a few epochs.
    pub const MAX_STEP: u64 = 1 << 32;

    /// Returns the next epoch; `None` after the highest one. The counter doesn't saturate, because two writers with the
    /// same epoch wouldn't fence each other.
    pub const fn successor(self) -> Option<Self> {
        if self.0 < Self::MAX.0 {
            Some(Self(self.0 + 1))
        } else {
            None
        }
    }

    /// Checks that the epoch isn't above the highest valid one.
    ///
    /// # Errors
    /// Returns the reason as text if the epoch is too high. The caller adds the object that contains the epoch.
    pub fn require_valid(self) -> Result<(), String> {
        match self.0 <= Self::MAX.0 {
            true => Ok(()),
            false => Err(format!(
                "its epoch {self} is above the limit of 2^48: no takeover led to it"
            )),
        }
    }

    /// Whether takeovers can change this epoch to `later`: `later` is not lower, higher by at most
    /// [`Self::MAX_STEP`], and at most [`Self::MAX`].
    pub const fn leads_to(self, later: Self) -> bool {
        self.0 <= later.0 && later.0 <= Self::MAX.0 && later.0 - self.0 <= Self::MAX_STEP
    }
}

#[cfg(test)]
mod tests {
    use super::Epoch;

    #[test]
    fn epoch_neither_saturates_nor_jumps() {
        assert_eq!(Epoch(7).successor(), Some(Epoch(8)));
        let last = Epoch(Epoch::MAX.get() - 1);
        assert_eq!(last.successor(), Some(Epoch::MAX));
        assert_eq!(Epoch::MAX.successor(), None);
        assert_eq!(Epoch(u64::MAX).successor(), None);

        assert!(Epoch(7).leads_to(Epoch(7)));
        assert!(Epoch(7).leads_to(Epoch(7 + Epoch::MAX_STEP)));
        assert!(!Epoch(7).leads_to(Epoch(8 + Epoch::MAX_STEP)));
        assert!(!Epoch(7).leads_to(Epoch(6)));
        assert!(!last.leads_to(Epoch(Epoch::MAX.get() + 1)));
    }
}
