//! Enumerates the disks that a crash may leave: every subset of the unsynced changes.
//!
//! A change is a sector of a file, the length of a file, or one change of a folder: a name that was added, moved or
//! removed. Each is lost or kept on its own, in any combination. If the length of a file is lost but a sector behind
//! the old end is kept, the file ends with that sector; if the length is kept but a sector is lost, the sector reads
//! as it was before, or as zeros.

use super::disk::{Content, Disk, FileNode, FolderNode, NameChange, Node, NodeId, ROOT};
use super::simulated::SimulatedFs;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

/// Up to this number of changes, every subset of them is tried.
const EXHAUSTIVE: usize = 8;

/// With more changes, this number of random subsets is tried, including the empty and the full one.
const SAMPLES: u64 = 64;

/// The moment right before an operation, at which the machine may crash.
#[derive(Clone, Debug)]
pub struct CrashPoint {
    pub(super) disk: Disk,
    /// The operation that the crash prevented, such as `rename head.json`.
    pub operation: String,
    /// The number of that operation since the recording began.
    pub number: usize,
    /// The argument of the last call of [`SimulatedFs::mark`]: the progress of the test's script.
    pub mark: u64,
}

impl CrashPoint {
    /// Returns the disks that a crash at this moment may leave, for sectors of this size.
    ///
    /// All subsets of the unsynced changes if there are at most 8 changes; 64 random subsets, determined by the seed,
    /// otherwise. Different subsets may leave the same disk: compare [`CrashImage::digest`].
    pub fn images(&self, sector: usize, seed: u64) -> impl Iterator<Item = CrashImage> + use<> {
        let changes = Arc::new(Changes::of(&self.disk, sector));
        let count = changes.list.len();
        let rounds = if count <= EXHAUSTIVE { 1 << count } else { SAMPLES };
        let mut random = Random(seed ^ (self.number as u64).rotate_left(32) ^ sector as u64);
        (0..rounds).map(move |round| {
            let kept: Vec<bool> = match round {
                _ if count <= EXHAUSTIVE => (0..count).map(|bit| (round >> bit) & 1 == 1).collect(),
                0 => vec![false; count],
                1 => vec![true; count],
                // One time in four almost nothing is kept, one time in four almost everything.
                _ => {
                    let threshold = [1, 4, 4, 7][(random.next() % 4) as usize];
                    (0..count).map(|_| random.next() % 8 < threshold).collect()
                }
            };
            Changes::image(&changes, kept)
        })
    }

    /// Returns a machine as it was at this moment, without its locks and open files. What wasn't durable isn't yet.
    pub fn present(&self) -> SimulatedFs {
        SimulatedFs::on(self.disk.clone())
    }
}

/// A disk after a crash.
#[derive(Clone, Debug)]
pub struct CrashImage {
    disk: Disk,
    changes: Arc<Changes>,
    kept: Vec<bool>,
}

impl CrashImage {
    /// Returns a hash of everything on the disk: equal disks have equal digests.
    pub fn digest(&self) -> u64 {
        self.disk.digest()
    }

    /// Whether the crash lost no change: the disk is the one that a process saw before it.
    pub fn is_complete(&self) -> bool {
        !self.kept.contains(&false)
    }

    /// Restarts the machine with this disk: no lock is held, no file is open.
    pub fn mount(self) -> SimulatedFs {
        SimulatedFs::on(self.disk)
    }
}

/// Lists the changes that the crash lost.
impl fmt::Display for CrashImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let changes = self.changes.list.iter().zip(&self.kept);
        let lost: Vec<&str> = changes
            .filter(|(_, kept)| !**kept)
            .map(|((_, shown), _)| shown.as_str())
            .collect();
        write!(f, "lost: [{}]", lost.join(", "))
    }
}

/// A change that isn't durable.
#[derive(Clone, Debug)]
enum Change {
    Sector { file: NodeId, index: usize },
    Length { file: NodeId },
    Name { folder: NodeId, index: usize },
}

/// All changes of a disk that aren't durable.
#[derive(Debug)]
struct Changes {
    disk: Disk,
    sector: usize,
    list: Vec<(Change, String)>,
}

impl Changes {
    fn of(disk: &Disk, sector: usize) -> Self {
        let mut changes = Self {
            disk: disk.clone(),
            sector,
            list: Vec::new(),
        };
        changes.collect(ROOT, "", &mut BTreeSet::new());
        changes
    }

    fn collect(&mut self, id: NodeId, path: &str, seen: &mut BTreeSet<NodeId>) {
        let Some(node) = self.disk.nodes.get(&id).cloned() else {
            return;
        };
        if !seen.insert(id) {
            return;
        }
        match node.as_ref() {
            Node::File(file) => self.collect_file(id, file, path),
            Node::Folder(folder) => {
                for (index, change) in folder.changes.iter().enumerate() {
                    let shown = match change {
                        NameChange::Added { name, .. } => format!("name {path}/{name}"),
                        NameChange::Moved { from, to, .. } => format!("rename {path}/{from} to {to}"),
                        NameChange::Removed { name } => format!("unlink {path}/{name}"),
                    };
                    self.list.push((Change::Name { folder: id, index }, shown));
                }
                for (child, name) in children(folder) {
                    self.collect(child, &format!("{path}/{name}"), seen);
                }
            }
        }
    }

    fn collect_file(&mut self, id: NodeId, file: &FileNode, path: &str) {
        let (current, durable) = (&file.current, &file.durable);
        if Arc::ptr_eq(current, durable) {
            return;
        }
        if current.len() != durable.len() {
            let shown = format!("length of {path}");
            self.list.push((Change::Length { file: id }, shown));
        }
        for index in 0..current.len().div_ceil(self.sector) {
            let range = index * self.sector..current.len().min((index + 1) * self.sector);
            let old = durable.get(range.start..).unwrap_or_default();
            let known = old.len().min(range.len());
            let (written, beyond) = current[range].split_at(known);
            // Beyond the durable end of the file, an unwritten sector reads as zeros.
            if *written != old[..known] || beyond.iter().any(|byte| *byte != 0) {
                let shown = format!("sector {index} of {path}");
                self.list.push((Change::Sector { file: id, index }, shown));
            }
        }
    }

    /// Returns the disk that has only the kept changes.
    fn image(changes: &Arc<Self>, kept: Vec<bool>) -> CrashImage {
        let mut survivors = Survivors::default();
        for ((change, _), kept) in changes.list.iter().zip(&kept) {
            match change {
                _ if !kept => {}
                Change::Sector { file, index } => survivors.sectors.entry(*file).or_default().push(*index),
                Change::Length { file } => drop(survivors.lengths.insert(*file)),
                Change::Name { folder, index } => survivors.names.entry(*folder).or_default().push(*index),
            }
        }
        let mut disk = Disk {
            nodes: BTreeMap::new(),
            next: changes.disk.next,
        };
        changes.copy(ROOT, &survivors, &mut disk);
        let changes = Arc::clone(changes);
        CrashImage { disk, changes, kept }
    }

    /// Copies the remains of a node, and of everything below it.
    fn copy(&self, id: NodeId, survivors: &Survivors, to: &mut Disk) {
        let Some(node) = self.disk.nodes.get(&id) else {
            return;
        };
        if to.nodes.contains_key(&id) {
            return;
        }
        let node = match node.as_ref() {
            // Equal images share what no crash changes.
            Node::File(file) if Arc::ptr_eq(&file.current, &file.durable) => Arc::clone(node),
            Node::File(file) => {
                let content = self.content(id, file, survivors);
                Arc::new(Node::File(FileNode {
                    current: Arc::clone(&content),
                    durable: content,
                }))
            }
            Node::Folder(folder) if folder.changes.is_empty() => {
                for child in folder.durable.values() {
                    self.copy(*child, survivors, to);
                }
                Arc::clone(node)
            }
            Node::Folder(folder) => {
                let mut names = folder.durable.clone();
                for index in survivors.names.get(&id).into_iter().flatten() {
                    folder.changes[*index].apply(&mut names);
                }
                for child in names.values() {
                    self.copy(*child, survivors, to);
                }
                Arc::new(Node::Folder(FolderNode {
                    current: names.clone(),
                    durable: names,
                    changes: Vec::new(),
                }))
            }
        };
        to.nodes.insert(id, node);
    }

    fn content(&self, id: NodeId, file: &FileNode, survivors: &Survivors) -> Arc<Content> {
        let (current, durable) = (&file.current, &file.durable);
        if current[..] == durable[..] {
            return Arc::clone(durable);
        }
        let sectors = survivors.sectors.get(&id).map_or(&[][..], Vec::as_slice);
        let ends = sectors.iter().map(|index| (index + 1) * self.sector);
        let length = if survivors.lengths.contains(&id) {
            current.len()
        } else {
            let end = ends.max().unwrap_or(0).min(current.len());
            durable.len().max(end)
        };
        let mut content = durable.to_vec();
        content.resize(length, 0);
        for index in sectors {
            let begin = index * self.sector;
            let end = (begin + self.sector).min(current.len()).min(length);
            content[begin..end].copy_from_slice(&current[begin..end]);
        }
        Arc::new(Content::new(content))
    }
}

#[derive(Default)]
struct Survivors {
    sectors: BTreeMap<NodeId, Vec<usize>>,
    lengths: BTreeSet<NodeId>,
    /// Positions in a folder's list of changes, ascending.
    names: BTreeMap<NodeId, Vec<usize>>,
}

/// Returns all children that a folder has, had at its last sync, or had in between. In the order of their creation: the names
/// of temporary files differ between two runs.
fn children(folder: &FolderNode) -> BTreeMap<NodeId, &str> {
    let mut children = BTreeMap::new();
    for change in &folder.changes {
        match change {
            NameChange::Added { name, node } | NameChange::Moved { to: name, node, .. } => {
                children.insert(*node, name.as_str());
            }
            NameChange::Removed { .. } => {}
        }
    }
    for (name, node) in folder.durable.iter().chain(&folder.current) {
        children.insert(*node, name.as_str());
    }
    children
}

/// SplitMix64: a random sequence that is determined by its seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }
}

#[cfg(test)]
mod tests;
