//! The model of a disk: its visible content, its durable content, and the changes that a crash may lose.

use rustix::io::Errno;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

/// The number of a file or a folder, like an inode number.
pub(super) type NodeId = u64;

/// The root folder of the simulated disk, `/`.
pub(super) const ROOT: NodeId = 0;

/// Files and folders. A clone shares all content until one of the two changes.
#[derive(Clone, Debug)]
pub(super) struct Disk {
    pub(super) nodes: BTreeMap<NodeId, Arc<Node>>,
    pub(super) next: NodeId,
}

#[derive(Clone, Debug)]
pub(super) enum Node {
    File(FileNode),
    Folder(FolderNode),
}

/// The content of a file.
#[derive(Clone, Debug, Default)]
pub(super) struct FileNode {
    /// The bytes that a process reads.
    pub(super) current: Arc<Content>,
    /// The bytes that the last sync made durable.
    pub(super) durable: Arc<Content>,
}

/// The bytes of a file, and their hash once it was needed.
#[derive(Debug, Default)]
pub(super) struct Content {
    bytes: Vec<u8>,
    hash: OnceLock<u64>,
}

impl Content {
    pub(super) fn new(bytes: Vec<u8>) -> Self {
        let hash = OnceLock::new();
        Self { bytes, hash }
    }

    fn hash(&self) -> u64 {
        *self.hash.get_or_init(|| hash_of(&self.bytes))
    }

    fn bytes_mut(&mut self) -> &mut Vec<u8> {
        self.hash = OnceLock::new();
        &mut self.bytes
    }
}

/// A copy is about to be changed, so it has no hash.
impl Clone for Content {
    fn clone(&self) -> Self {
        Self::new(self.bytes.clone())
    }
}

impl Deref for Content {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The names in a folder.
#[derive(Clone, Debug, Default)]
pub(super) struct FolderNode {
    /// The names that a process sees.
    pub(super) current: BTreeMap<String, NodeId>,
    /// The names that the last sync made durable.
    pub(super) durable: BTreeMap<String, NodeId>,
    /// The changes since the last sync, in order.
    pub(super) changes: Vec<NameChange>,
}

/// A change of a folder that isn't durable yet.
#[derive(Clone, Debug)]
pub(super) enum NameChange {
    Added { name: String, node: NodeId },
    Moved { from: String, to: String, node: NodeId },
    Removed { name: String },
}

impl NameChange {
    pub(super) fn apply(&self, names: &mut BTreeMap<String, NodeId>) {
        match self {
            Self::Added { name, node } => {
                names.insert(name.clone(), *node);
            }
            Self::Moved { from, to, node } => {
                // The new name may reach the disk although the old one never did.
                if names.get(from) == Some(node) {
                    names.remove(from);
                }
                names.insert(to.clone(), *node);
            }
            Self::Removed { name } => {
                names.remove(name);
            }
        }
    }
}

impl FolderNode {
    fn change(&mut self, change: NameChange) {
        change.apply(&mut self.current);
        self.changes.push(change);
    }
}

impl Disk {
    /// Creates an empty disk.
    pub(super) fn new() -> Self {
        let root = Arc::new(Node::Folder(FolderNode::default()));
        Self {
            nodes: BTreeMap::from([(ROOT, root)]),
            next: ROOT + 1,
        }
    }

    pub(super) fn node(&self, id: NodeId) -> Result<&Node, Errno> {
        self.nodes.get(&id).map(Arc::as_ref).ok_or(Errno::BADF)
    }

    pub(super) fn folder(&self, id: NodeId) -> Result<&FolderNode, Errno> {
        match self.node(id)? {
            Node::Folder(folder) => Ok(folder),
            Node::File(_) => Err(Errno::NOTDIR),
        }
    }

    pub(super) fn file(&self, id: NodeId) -> Result<&FileNode, Errno> {
        match self.node(id)? {
            Node::File(file) => Ok(file),
            Node::Folder(_) => Err(Errno::ISDIR),
        }
    }

    fn folder_mut(&mut self, id: NodeId) -> Result<&mut FolderNode, Errno> {
        match Arc::make_mut(self.nodes.get_mut(&id).ok_or(Errno::BADF)?) {
            Node::Folder(folder) => Ok(folder),
            Node::File(_) => Err(Errno::NOTDIR),
        }
    }

    fn file_mut(&mut self, id: NodeId) -> Result<&mut FileNode, Errno> {
        match Arc::make_mut(self.nodes.get_mut(&id).ok_or(Errno::BADF)?) {
            Node::File(file) => Ok(file),
            Node::Folder(_) => Err(Errno::ISDIR),
        }
    }

    /// Returns the node with a name in a folder.
    pub(super) fn child(&self, folder: NodeId, name: &str) -> Result<NodeId, Errno> {
        let names = &self.folder(folder)?.current;
        names.get(name).copied().ok_or(Errno::NOENT)
    }

    /// Creates a file or a folder.
    pub(super) fn add(&mut self, folder: NodeId, name: &str, node: Node) -> Result<NodeId, Errno> {
        let id = self.next;
        self.name(folder, name, id)?;
        self.nodes.insert(id, Arc::new(node));
        self.next += 1;
        Ok(id)
    }

    /// Gives a file a second name.
    pub(super) fn link(&mut self, folder: NodeId, from: &str, to: &str) -> Result<(), Errno> {
        let node = self.child(folder, from)?;
        self.file(node)?;
        self.name(folder, to, node)
    }

    fn name(&mut self, folder: NodeId, name: &str, node: NodeId) -> Result<(), Errno> {
        let folder = self.folder_mut(folder)?;
        if folder.current.contains_key(name) {
            return Err(Errno::EXIST);
        }
        let name = name.to_owned();
        folder.change(NameChange::Added { name, node });
        Ok(())
    }

    /// Moves a file to another name in its folder.
    pub(super) fn rename(
        &mut self,
        folder: NodeId,
        from: &str,
        to: &str,
        replace: bool,
    ) -> Result<(), Errno> {
        let node = self.child(folder, from)?;
        match self.child(folder, to) {
            Ok(_) if !replace => return Err(Errno::EXIST),
            Ok(target) => drop(self.file(target)?),
            Err(_) => {}
        }
        let (from, to) = (from.to_owned(), to.to_owned());
        let folder = self.folder_mut(folder)?;
        folder.change(NameChange::Moved { from, to, node });
        Ok(())
    }

    /// Removes the name of a file. Open handles can still read its content.
    pub(super) fn unlink(&mut self, folder: NodeId, name: &str) -> Result<(), Errno> {
        self.file(self.child(folder, name)?)?;
        let name = name.to_owned();
        self.folder_mut(folder)?.change(NameChange::Removed { name });
        Ok(())
    }

    /// Removes an empty folder.
    pub(super) fn remove_folder(&mut self, folder: NodeId, name: &str) -> Result<(), Errno> {
        if !self.folder(self.child(folder, name)?)?.current.is_empty() {
            return Err(Errno::NOTEMPTY);
        }
        let name = name.to_owned();
        self.folder_mut(folder)?.change(NameChange::Removed { name });
        Ok(())
    }

    /// Writes bytes; a gap before them reads as zeros.
    pub(super) fn write(&mut self, file: NodeId, bytes: &[u8], offset: u64) -> Result<(), Errno> {
        let begin = usize::try_from(offset).map_err(|_| Errno::FBIG)?;
        let end = begin.checked_add(bytes.len()).ok_or(Errno::FBIG)?;
        let content = Arc::make_mut(&mut self.file_mut(file)?.current).bytes_mut();
        if content.len() < end {
            content.resize(end, 0);
        }
        content[begin..end].copy_from_slice(bytes);
        Ok(())
    }

    /// Cuts or extends a file.
    pub(super) fn set_length(&mut self, file: NodeId, length: u64) -> Result<(), Errno> {
        let length = usize::try_from(length).map_err(|_| Errno::FBIG)?;
        let content = Arc::make_mut(&mut self.file_mut(file)?.current);
        content.bytes_mut().resize(length, 0);
        Ok(())
    }

    /// Makes the content of a file, or the names in a folder, durable.
    pub(super) fn sync(&mut self, node: NodeId) -> Result<(), Errno> {
        match Arc::make_mut(self.nodes.get_mut(&node).ok_or(Errno::BADF)?) {
            Node::File(file) => file.durable = Arc::clone(&file.current),
            Node::Folder(folder) => {
                folder.durable.clone_from(&folder.current);
                folder.changes.clear();
            }
        }
        Ok(())
    }

    /// Makes all files and folders durable.
    pub(super) fn sync_all(&mut self) {
        let all: Vec<NodeId> = self.nodes.keys().copied().collect();
        for node in all {
            // All these ids come from the map itself.
            self.sync(node).ok();
        }
    }

    /// Returns a hash of everything that is durable. The names of temporary files contain process ids, so they are left
    /// out.
    pub(super) fn digest(&self) -> u64 {
        self.hash_folder(ROOT)
    }

    fn hash_folder(&self, folder: NodeId) -> u64 {
        let Ok(folder) = self.folder(folder) else { return 0 };
        // A sum, because temporary files have no order without their names.
        let hashes = folder.durable.iter().map(|(name, node)| {
            let name = if name.starts_with(".tmp-") { ".tmp-" } else { name };
            match self.node(*node) {
                Ok(Node::File(file)) => hash_of(&(name, file.durable.hash())),
                Ok(Node::Folder(_)) => hash_of(&(name, '/', self.hash_folder(*node))),
                Err(_) => hash_of(&name),
            }
        });
        hashes.fold(folder.durable.len() as u64, u64::wrapping_add)
    }
}

fn hash_of(value: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
