//! The four counters of the storage protocol. None of them ever goes back.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! counter {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl $name {
            /// Where counting begins.
            pub const ZERO: Self = Self(0);

            /// The next one. Saturates: 2⁶⁴ events don't happen to a stack.
            pub const fn next(self) -> Self {
                Self(self.0.saturating_add(1))
            }

            /// The bare number.
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
    /// Counts revisions of a stack.
    Serial
}
counter! {
    /// Counts frames of a stack's journal.
    Slot
}
counter! {
    /// Counts takeovers of a stack's writer lock: the fencing token.
    Epoch
}
counter! {
    /// Counts broken locks of a stack on a filesystem: each break moves on to a new lock file.
    Generation
}
