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

            /// The next value. Saturates, because no stack reaches 2⁶⁴ events.
            pub const fn next(self) -> Self {
                Self(self.0.saturating_add(1))
            }

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

counter! {
    /// Counts the revisions of a stack.
    Serial
}
counter! {
    /// Counts the frames of a stack's journal.
    Slot
}
counter! {
    /// Counts the takeovers of a stack's writer lock; serves as the fencing token.
    Epoch
}
counter! {
    /// Counts the broken locks of a stack on a filesystem. Each break switches to a new lock file.
    Generation
}
