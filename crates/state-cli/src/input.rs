//! Reads the files and streams that users name, with an upper limit: `/dev/zero` never ends.

use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Upper limit of a state or document, in bytes; also the limit of a decompressed state.
const MAX_BYTES: u64 = 1 << 30;

/// Reads a file, or stdin if the path is `-`. Accepts pipes, because `<(command)` of a shell is one.
///
/// # Errors
/// `InvalidInput` for a device and a folder, `FileTooLarge` beyond 1 GiB.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>> {
    read_at_most(path, MAX_BYTES)
}

/// As [`read`], for text.
///
/// # Errors
/// Also `InvalidData` for a text that isn't UTF-8.
pub(crate) fn read_text(path: &Path) -> Result<String> {
    String::from_utf8(read(path)?).map_err(|_| Error::new(ErrorKind::InvalidData, "it isn't UTF-8"))
}

fn read_at_most(path: &Path, limit: u64) -> Result<Vec<u8>> {
    if path != Path::new("-") {
        // Checked before it is opened: opening a device may block or change it.
        refuse_device(&std::fs::metadata(path)?.file_type())?;
        return limited(File::open(path)?, limit);
    }
    let stdin = std::io::stdin().lock();
    let file = File::from(stdin.as_fd().try_clone_to_owned()?);
    let kind = file.metadata()?.file_type();
    // A terminal is a device too, and typing a state by hand is unusual but harmless.
    if !rustix::termios::isatty(&file) {
        refuse_device(&kind)?;
    }
    drop(file);
    limited(stdin, limit)
}

fn refuse_device(kind: &std::fs::FileType) -> Result<()> {
    if kind.is_char_device() || kind.is_block_device() {
        return Err(Error::new(ErrorKind::InvalidInput, "it is a device, not a file"));
    }
    Ok(())
}

fn limited(source: impl Read, limit: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        let reason = format!("it is larger than the limit of {} MiB", limit >> 20);
        return Err(Error::new(ErrorKind::FileTooLarge, reason));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::read_at_most;
    use std::io::ErrorKind;
    use std::path::Path;

    #[test]
    fn devices_and_oversized_files_are_refused() {
        let refused = |path: &Path, limit| read_at_most(path, limit).map_err(|error| error.kind());
        assert_eq!(refused(Path::new("/dev/zero"), 10), Err(ErrorKind::InvalidInput));
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("state");
        std::fs::write(&file, [b'x'; 10]).unwrap();
        assert_eq!(refused(&file, 9), Err(ErrorKind::FileTooLarge));
        assert_eq!(refused(&file, 10), Ok(vec![b'x'; 10]));
        assert!(refused(folder.path(), 10).is_err());
    }
}
