//! Entries whose content follows from their tag, so that a test can check each entry by itself.

use state_core::{Address, Dependency, Entry, Json, Properties, Result};

/// The stack that all workers use.
pub const STACK: &str = "tests/stack";

/// The stack that entries are moved from.
pub const SOURCE: &str = "tests/source";

/// The stack that entries are moved to, from [`SOURCE`].
pub const THERE: &str = "tests/there";

/// The entries that are moved; the second depends on the first.
pub const MOVED: [&str; 2] = ["t0.anchor", "t0.other"];

/// Number of tasks that commit concurrently.
pub const TASKS: u64 = 8;

/// Prefix of the tags of large entries.
pub const LARGE: &str = "large";

/// Returns the address of the entry that all others of a task depend on.
pub fn anchor(task: u64) -> Result<Address> {
    Ok(Address::new(format!("t{task}.anchor"))?)
}

/// Returns the task that an address belongs to.
pub fn task_of(address: &str) -> Option<u64> {
    address.strip_prefix('t')?.split('.').next()?.parse().ok()
}

/// Returns an entry as it is before the provider was called.
pub fn intended(address: Address) -> Result<Entry> {
    let depends_on = match task_of(address.as_str()).map(anchor).transpose()? {
        Some(anchor) if anchor != address => vec![Dependency::Entry(anchor)],
        _ => Vec::new(),
    };
    Ok(Entry {
        depends_on,
        ..Entry::leaf(address, "thing")
    })
}

/// Returns the same entry with the provider's result.
pub fn made(address: Address, tag: &str) -> Result<Entry> {
    Ok(Entry {
        id: Some(tag.to_owned()),
        outputs: Some(outputs(tag)),
        ..intended(address)?
    })
}

/// Returns the outputs of an entry with this tag: a few bytes, 20 to 60 KB for one in eight, 300 KB for [`LARGE`] ones.
pub fn outputs(tag: &str) -> Properties {
    let sum = tag
        .bytes()
        .fold(0_usize, |sum, byte| sum * 31 % 65_521 + usize::from(byte));
    let length = match sum % 8 {
        _ if tag.starts_with(LARGE) => 300_000,
        0 => 20_000 + sum % 40_000,
        _ => 40 + sum % 400,
    };
    let fill: String = tag.chars().cycle().take(length).collect();
    let mut text = String::new();
    let mut writer = state_core::json::ObjectWriter::new(&mut text);
    writer.string("fill", &fill).string("tag", tag);
    writer.finish();
    Json::parse(&text)
        .ok()
        .and_then(Properties::new)
        .unwrap_or_else(Properties::empty)
}
