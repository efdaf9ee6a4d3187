//! Folders and files of the user that survive a loss of power once they were reported.

use std::fs::{DirBuilder, File};
use std::io::{Result, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

/// Creates a folder and its parents, which only their owner can access, if they are missing.
pub(crate) fn create_folder(folder: &Path) -> Result<()> {
    let missing: Vec<&Path> = folder.ancestors().take_while(|path| !path.exists()).collect();
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    // The sync of a file in the folder doesn't make the names of the folders around it durable.
    let parents = missing.iter().filter_map(|made| made.parent());
    parents
        .filter(|parent| !parent.as_os_str().is_empty())
        .try_for_each(|parent| File::open(parent)?.sync_all())
}

/// Replaces a file in an existing folder. A reader sees the old or the new content, also after a loss of power. `staged`
/// is a path in the same folder, whose file is overwritten.
pub(crate) fn replace(path: &Path, staged: &Path, content: &[u8]) -> Result<()> {
    let mut file = File::create(staged)?;
    file.write_all(content)?;
    // Otherwise the renamed file may be empty after a loss of power.
    file.sync_all()?;
    std::fs::rename(staged, path)?;
    path.parent()
        .map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}
