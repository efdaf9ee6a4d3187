//! Flips one bit of a file or truncates the file, and restores it.

use state_tests::dice::Dice;
use std::fmt;
use std::path::{Path, PathBuf};

/// The classes of files that are damaged. The class of a file is the file's name without its extension, or the name of
/// a folder above the file. Lock files and the reserve for full disks are excluded, because their content is no part of a
/// state.
pub(super) const CLASSES: [&str; 7] = [
    "format",
    "names",
    "meta",
    "head",
    "journal",
    "snapshots",
    "updates",
];

/// The files of a store: paths relative to its root, and contents.
pub(super) struct Files(Vec<(PathBuf, Vec<u8>)>);

impl Files {
    /// Reads all files of a store.
    pub(super) fn list(root: &Path) -> Self {
        let mut found = Vec::new();
        let mut folders = vec![root.to_path_buf()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).expect("a folder of the store") {
                let path = entry.expect("an entry of a folder").path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let bytes = std::fs::read(&path).expect("a file of the store");
                    let relative = path.strip_prefix(root).expect("the file is in the store");
                    found.push((relative.to_path_buf(), bytes));
                }
            }
        }
        found.sort();
        Self(found)
    }

    /// Copies all files of a store, and returns them.
    pub(super) fn copy(from: &Path, to: &Path) -> Self {
        let files = Self::list(from);
        for (path, bytes) in &files.0 {
            let target = to.join(path);
            let folder = target.parent().expect("a file is in a folder");
            std::fs::create_dir_all(folder).expect("the folder is created");
            std::fs::write(target, bytes).expect("a file is written");
        }
        files
    }

    /// Returns the files of one class.
    pub(super) fn of(&self, class: &str) -> impl Iterator<Item = &(PathBuf, Vec<u8>)> {
        self.0.iter().filter(move |(path, _)| class_of(path) == class)
    }
}

/// Returns the class of a file in [`CLASSES`], or `lock` or `reserve` for a file that isn't damaged.
fn class_of(path: &Path) -> &'static str {
    let text = path.to_string_lossy();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if name.starts_with("lock.") || name.ends_with(".lock") {
        return "lock";
    }
    if name == "reserve" {
        return "reserve";
    }
    let part = |class: &&&str| text.split(['/', '.']).any(|part| part == **class);
    let found = CLASSES.iter().find(part);
    found
        .copied()
        .unwrap_or_else(|| panic!("a file of unknown class: {text}"))
}

/// A change of one file, with the original bytes of the file.
pub(super) struct Damage {
    path: PathBuf,
    bytes: Vec<u8>,
    change: Change,
}

enum Change {
    /// Flips bits of one byte: the offset of the byte, and the mask of the bits.
    Flip(usize, u8),
    /// Truncates the file to this length.
    Cut(usize),
}

impl Damage {
    /// Chooses a random damage: first a class, so that classes with few files are covered too, then a file and an
    /// offset.
    pub(super) fn random(files: &Files, dice: &mut Dice) -> Self {
        let class = CLASSES[dice.index(CLASSES.len())];
        let candidates: Vec<_> = files.of(class).collect();
        let (path, bytes) = candidates[dice.index(candidates.len())];
        let offset = dice.index(bytes.len());
        let change = match dice.below(4) {
            0 => Change::Cut(offset),
            _ => Change::Flip(offset, 1 << dice.below(8)),
        };
        Self {
            path: path.clone(),
            bytes: bytes.clone(),
            change,
        }
    }

    /// Returns the class of the damaged file.
    pub(super) fn class(&self) -> &'static str {
        class_of(&self.path)
    }

    /// Returns whether a text names the file: by its path in the store or, for a file of a stack, by the lineage and
    /// the path in the stack's folder.
    pub(super) fn is_named_in(&self, text: &str) -> bool {
        let path = self.path.to_string_lossy();
        let mut parts = path.splitn(3, '/');
        match (parts.next(), parts.next(), parts.next()) {
            (Some("stacks"), Some(lineage), Some(rest)) => text.contains(rest) && text.contains(lineage),
            _ => text.contains(&*path),
        }
    }

    /// Applies the damage to the file.
    pub(super) fn inflict(&self, root: &Path) {
        let mut bytes = self.bytes.clone();
        match self.change {
            Change::Flip(offset, bit) => bytes[offset] ^= bit,
            Change::Cut(length) => bytes.truncate(length),
        }
        std::fs::write(root.join(&self.path), bytes).expect("a file is written");
    }

    /// Restores the original file.
    pub(super) fn undo(&self, root: &Path) {
        std::fs::write(root.join(&self.path), &self.bytes).expect("a file is written");
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match self.change {
            Change::Flip(offset, bit) => write!(f, "{path}: bit {bit:#04x} of byte {offset} flipped"),
            Change::Cut(length) => write!(f, "{path}: cut to {length} of {} bytes", self.bytes.len()),
        }
    }
}
