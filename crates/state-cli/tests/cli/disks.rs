//! Small disks for tests: file systems in files, which root mounts.

use state_core::testkit::run::skip;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// A mounted disk, which is unmounted on drop.
pub(crate) struct Disk {
    folder: TempDir,
}

impl Disk {
    /// Makes and mounts an empty disk with ext4, of which root may use no more space than others. Reports a skip if this user
    /// or system can't do that.
    pub(crate) fn new(mebibytes: u64, untested: &str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("image");
        let file = fs::File::create(&image).unwrap();
        file.set_len(mebibytes << 20).unwrap();
        let mut make = Command::new("mkfs.ext4");
        make.args(["-q", "-F", "-m", "0"]).arg(&image);
        let made = make.stdout(Stdio::null()).status();
        if !made.is_ok_and(|status| status.success()) {
            skip("mkfs.ext4", untested);
            return None;
        }
        let root = folder.path().join("root");
        fs::create_dir(&root).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-o", "loop"]).arg(&image).arg(&root);
        let mounted = mount.stderr(Stdio::null()).status();
        if !mounted.is_ok_and(|status| status.success()) {
            skip("loop-mount", untested);
            return None;
        }
        Some(Self { folder })
    }

    /// The root folder of the disk.
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("root")
    }

    /// Fills the disk with files in the folder `filler` until not a byte is free.
    pub(crate) fn fill(&self) {
        let folder = self.path().join("filler");
        fs::create_dir_all(&folder).unwrap();
        let number = fs::read_dir(&folder).unwrap().count();
        let open = OpenOptions::new()
            .create(true)
            .append(true)
            .open(folder.join(number.to_string()));
        let mut file = open.unwrap();
        for length in [1 << 20, 64 << 10, 4 << 10, 1] {
            let bytes = vec![1; length];
            while file.write_all(&bytes).is_ok() {
                // A write into the cache doesn't prove that there is a block for it.
                if file.sync_all().is_err() {
                    break;
                }
            }
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg("--lazy").arg(self.path()).status();
        assert!(unmounted.unwrap().success() || std::thread::panicking());
    }
}
