//! Small disks for tests: file systems in files, which root mounts.

use state_core::testkit::run::skip;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// The shutdown of ext4 and XFS that writes nothing more, not even the log: `XFS_IOC_GOINGDOWN` with
/// `XFS_FSOP_GOING_FLAGS_NOLOGFLUSH`. Neither the standard library nor a tool that every system has calls it.
const SHUTDOWN: &str = "import fcntl, os, struct, sys; fcntl.ioctl(os.open(sys.argv[1], os.O_RDONLY), 0x8004587D, \
                        struct.pack('I', 2))";

#[derive(Clone, Copy, Debug)]
pub(crate) enum FileSystem {
    Ext4,
    Xfs,
}

impl FileSystem {
    /// The command that makes the file system, of which root may use no more space than others.
    fn make(self) -> Command {
        let (program, arguments) = match self {
            Self::Ext4 => ("mkfs.ext4", &["-q", "-F", "-m", "0"][..]),
            Self::Xfs => ("mkfs.xfs", &["-q", "-f"][..]),
        };
        let mut make = Command::new(program);
        make.args(arguments);
        make
    }
}

/// A disk, which is unmounted on drop.
pub(crate) struct Disk {
    folder: TempDir,
    is_mounted: bool,
}

impl Disk {
    /// Makes and mounts an empty disk. Reports a skip if this user or system can't do that.
    pub(crate) fn new(system: FileSystem, mebibytes: u64, untested: &str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("image");
        let file = fs::File::create(&image).unwrap();
        file.set_len(mebibytes << 20).unwrap();
        let mut make = system.make();
        make.arg(&image);
        let made = make.stdout(Stdio::null()).stderr(Stdio::null()).status();
        if !made.is_ok_and(|status| status.success()) {
            skip(make.get_program().to_str().unwrap(), untested);
            return None;
        }
        fs::create_dir(folder.path().join("root")).unwrap();
        let mut disk = Self {
            folder,
            is_mounted: false,
        };
        if !disk.mount() {
            skip("loop-mount", untested);
            return None;
        }
        Some(disk)
    }

    fn mount(&mut self) -> bool {
        let image = self.folder.path().join("image");
        let mut mount = Command::new("mount");
        mount.args(["-o", "loop"]).arg(image).arg(self.path());
        let mounted = mount.stderr(Stdio::null()).status();
        self.is_mounted = mounted.is_ok_and(|status| status.success());
        self.is_mounted
    }

    /// Cuts the power: what no fsync has made durable is lost, and each further access fails.
    pub(crate) fn cut_power(&self) {
        let mut cut = Command::new("python3");
        let cut = cut.args(["-c", SHUTDOWN]).arg(self.path()).status();
        assert!(cut.unwrap().success(), "the file system can't be shut down");
    }

    /// Mounts the disk again after [`Disk::cut_power`], when no process uses it any more.
    pub(crate) fn power_on(&mut self) {
        let unmounted = Command::new("umount").arg(self.path()).status();
        assert!(unmounted.unwrap().success(), "the disk is in use");
        assert!(self.mount(), "the disk can't be mounted again");
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
        if self.is_mounted {
            let unmounted = Command::new("umount").arg("--lazy").arg(self.path()).status();
            assert!(unmounted.unwrap().success() || std::thread::panicking());
        }
    }
}
