//! Parts of the protocols that a search can add to the base model.

/// A part of the protocol beside takeovers, appends and checkpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extension {
    /// Frames are stored once more in one object or file that the head names.
    Compaction,
    /// A writer raises the history floor, and deletes what lies below it.
    Collection,
    /// A client sets a lock in the head that keeps other clients from writing.
    ClientLock,
    /// A writer gives the stack a new data key.
    KeyRotation,
}

impl Extension {
    /// All extensions that a search can add.
    pub const ALL: [Self; 4] = [
        Self::Compaction,
        Self::Collection,
        Self::ClientLock,
        Self::KeyRotation,
    ];

    /// All pairs of two different extensions.
    pub fn pairs() -> impl Iterator<Item = [Self; 2]> {
        let pair = |first: usize| {
            Self::ALL[first + 1..]
                .iter()
                .map(move |second| [Self::ALL[first], *second])
        };
        (0..Self::ALL.len()).flat_map(pair)
    }
}

/// The extensions that a search adds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extensions {
    added: [bool; Extension::ALL.len()],
}

impl Extensions {
    /// The base model without an extension.
    pub const NONE: Self = Self { added: [false; 4] };

    /// Returns the base model with these extensions.
    #[must_use]
    pub fn of(extensions: &[Extension]) -> Self {
        Self {
            added: Extension::ALL.map(|extension| extensions.contains(&extension)),
        }
    }

    /// Whether the search adds this extension.
    #[must_use]
    pub const fn has(self, extension: Extension) -> bool {
        self.added[extension as usize]
    }
}
