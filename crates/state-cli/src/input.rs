//! Reads the files and streams that users name, with an upper limit: `/dev/zero` never ends.

use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Upper limit of a state or document, in bytes; also the limit of a decompressed state.
const MAX_BYTES: u64 = 1 << 30;

/// Upper limit of settings and identities, in bytes.
pub(crate) const MAX_SMALL: u64 = 1 << 20;

/// Reads a file, or stdin if the path is `-`. Accepts open pipes, because `<(command)` of a shell is one.
///
/// # Errors
/// `InvalidInput` for a device, a named pipe and a folder, `FileTooLarge` beyond 1 GiB.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>> {
    read_at_most(path, MAX_BYTES)
}

/// As [`read`], for text.
///
/// # Errors
/// Also `InvalidData` for a text that isn't UTF-8.
pub(crate) fn read_text(path: &Path) -> Result<String> {
    text(read(path)?)
}

fn read_at_most(path: &Path, limit: u64) -> Result<Vec<u8>> {
    if path != Path::new("-") {
        return limited(open(path)?, limit);
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

/// Opens a file that the user names.
///
/// # Errors
/// `InvalidInput` for a device and a named pipe.
pub(crate) fn open(path: &Path) -> Result<File> {
    // Checked before it is opened: opening a device may block or change it.
    let kind = std::fs::metadata(path)?.file_type();
    refuse_device(&kind)?;
    // Opening a named pipe waits for a process that writes to it, possibly for ever. The pipe of `<(command)` is open
    // already, and has a path such as `/dev/fd/63` or `/proc/self/fd/63`.
    let is_open = ["/dev", "/proc"].iter().any(|folder| path.starts_with(folder));
    if kind.is_fifo() && !is_open {
        return Err(Error::new(
            ErrorKind::InvalidInput,
            "it is a named pipe, not a file",
        ));
    }
    File::open(path)
}

fn refuse_device(kind: &std::fs::FileType) -> Result<()> {
    if kind.is_char_device() || kind.is_block_device() {
        return Err(Error::new(ErrorKind::InvalidInput, "it is a device, not a file"));
    }
    Ok(())
}

/// Reads to the end.
///
/// # Errors
/// `FileTooLarge` beyond `limit` bytes.
pub(crate) fn limited(source: impl Read, limit: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        let reason = format!("it is larger than the limit of {} MiB", limit >> 20);
        return Err(Error::new(ErrorKind::FileTooLarge, reason));
    }
    Ok(bytes)
}

/// As [`limited`], for text.
///
/// # Errors
/// Also `InvalidData` for a text that isn't UTF-8.
pub(crate) fn limited_text(source: impl Read, limit: u64) -> Result<String> {
    text(limited(source, limit)?)
}

fn text(bytes: Vec<u8>) -> Result<String> {
    String::from_utf8(bytes).map_err(|_| Error::new(ErrorKind::InvalidData, "it isn't UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::read_at_most;
    use std::io::{ErrorKind, Write};
    use std::os::fd::AsRawFd;
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

    #[test]
    fn named_pipe_is_refused_and_open_pipe_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        let error = read_at_most(&pipe, 10).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(b"key").unwrap();
        drop(writer);
        let open = format!("/dev/fd/{}", reader.as_raw_fd());
        assert_eq!(read_at_most(Path::new(&open), 10).unwrap(), b"key");
    }
}
