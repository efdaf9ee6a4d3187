//! The rights of files and folders, as three or four octal digits.

use crate::kind::is_rights;
use rustix::fs::{Mode, RawMode, Stat};

/// The rights that the digits say.
pub(super) fn parse(text: &str) -> Option<u64> {
    let digits = is_rights(text).then_some(text)?;
    u64::from_str_radix(digits, 8).ok()
}

/// The digits of the rights.
pub(super) fn text(mode: u64) -> String {
    format!("{mode:04o}")
}

/// The rights of what has this status.
pub(super) fn of(stat: &Stat) -> u64 {
    u64::from(stat.st_mode) & 0o7777
}

/// The rights as the system takes them.
pub(super) fn raw(mode: u64) -> Mode {
    // Four octal digits fit, however wide the system's type is.
    Mode::from_raw_mode(RawMode::try_from(mode & 0o7777).unwrap_or_default())
}
