//! The kinds of objects in a store, by their path.

use crate::Lineage;

/// The kind of a stored object, which decides how an attacker forges the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum StoredKind {
    /// The document `format` of the store.
    Format,
    /// A pointer from a name to a stack.
    Name,
    /// The document `meta.json`, which contains the lineage of the stack to which a folder belongs.
    Meta,
    /// The head of a stack.
    Head,
    /// A lock file, a lease, or `clock.json`, which clients write to an object store to learn the store's time. A
    /// client ignores the content of these objects when it decides which state of a stack to accept.
    Lock,
    /// A segment or a slot of a journal, or several frames in one object.
    Journal,
    /// A full snapshot of a stack.
    Snapshot,
    /// A page of the history.
    HistoryPage,
    /// The log of an update.
    Log,
    /// A wrapped data key.
    Key,
    /// The published outputs of a revision.
    Outputs,
}

impl StoredKind {
    /// All kinds of objects.
    pub const ALL: [Self; 11] = [
        Self::Format,
        Self::Name,
        Self::Meta,
        Self::Head,
        Self::Lock,
        Self::Journal,
        Self::Snapshot,
        Self::HistoryPage,
        Self::Log,
        Self::Key,
        Self::Outputs,
    ];

    /// Returns the kind of an object or of the objects in a folder, by its path from the root of the store; `None` for
    /// other paths, such as temporary files.
    pub fn of(path: &str) -> Option<Self> {
        let parts: Vec<&str> = path.split('/').collect();
        let name = parts.last().copied().unwrap_or_default();
        if name.starts_with(".tmp-") {
            return None;
        }
        match parts.as_slice() {
            ["format"] => Some(Self::Format),
            ["names.lock"] => Some(Self::Lock),
            ["names", ..] => Some(Self::Name),
            ["outputs", ..] => Some(Self::Outputs),
            ["stacks", _, below @ ..] => match below.first().copied()? {
                "meta.json" => Some(Self::Meta),
                "head.json" => Some(Self::Head),
                "journal" => Some(Self::Journal),
                "snapshots" => Some(Self::Snapshot),
                "updates" => Some(Self::HistoryPage),
                "logs" => Some(Self::Log),
                "keys" => Some(Self::Key),
                "lease.json" | "clock.json" | "head.lock" => Some(Self::Lock),
                lock if lock.starts_with("lock.") => Some(Self::Lock),
                _ => None,
            },
            _ => None,
        }
    }
}

/// Returns the lineage of the stack whose folder contains a path.
pub(super) fn lineage_of(path: &str) -> Option<Lineage> {
    let below = path
        .strip_prefix("stacks/")
        .or_else(|| path.strip_prefix("outputs/"))?;
    below.split('/').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{StoredKind, lineage_of};
    use crate::Lineage;

    #[test]
    fn every_path_of_a_store_has_its_kind() {
        let lineage = Lineage::from_bits([1; 16]);
        for (path, kind) in [
            ("format", Some(StoredKind::Format)),
            ("names/shop/production.json", Some(StoredKind::Name)),
            ("stacks/L/meta.json", Some(StoredKind::Meta)),
            ("stacks/L/head.json", Some(StoredKind::Head)),
            ("stacks/L/lock.3", Some(StoredKind::Lock)),
            ("stacks/L/lease.json", Some(StoredKind::Lock)),
            ("stacks/L/journal/00000000000000000000", Some(StoredKind::Journal)),
            ("stacks/L/snapshots", Some(StoredKind::Snapshot)),
            ("stacks/L/updates/1.page", Some(StoredKind::HistoryPage)),
            ("stacks/L/logs/1.jsonl.zst", Some(StoredKind::Log)),
            ("stacks/L/keys/1.age", Some(StoredKind::Key)),
            ("outputs/L/1.json", Some(StoredKind::Outputs)),
            ("stacks/L/.tmp-1", None),
            ("stacks", None),
        ] {
            let path = path.replace("/L/", &format!("/{lineage}/"));
            assert_eq!(StoredKind::of(&path), kind, "{path}");
            let is_of_stack = path.starts_with("stacks/") || path.starts_with("outputs/");
            assert_eq!(lineage_of(&path), is_of_stack.then_some(lineage), "{path}");
        }
    }
}
