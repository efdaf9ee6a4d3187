//! Entries whose content follows from their tag, so that a test can check an entry without knowing its history. The
//! tag is a short text that each change of the entry chooses anew. It is also the entry's id.

use state_core::{Address, Dependency, Entry, Json, Properties, Result};

/// The stack that all workers use, except the worker `move`.
pub const STACK: &str = "tests/stack";

/// The stack that entries are moved from.
pub const SOURCE: &str = "tests/source";

/// The stack that entries are moved to.
pub const DESTINATION: &str = "tests/there";

/// The addresses of the moved entries. The second entry depends on the first.
pub const MOVED: [&str; 2] = ["t0.anchor", "t0.other"];

/// Number of tasks of a worker that change the stack concurrently.
pub const TASKS: u64 = 8;

/// Prefix of the tags of entries with 300 KB of outputs.
pub const LARGE: &str = "large";

/// Returns the address of a task's anchor: the entry on which all other entries of the task depend.
pub fn anchor(task: u64) -> Result<Address> {
    Ok(Address::new(format!("t{task}.anchor"))?)
}

/// Returns the number of the task that an address belongs to; `None` for an address of no task.
pub fn task_of(address: &str) -> Option<u64> {
    address.strip_prefix('t')?.split('.').next()?.parse().ok()
}

/// Returns the intended entry of a step, without the id and outputs that the provider returns.
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

/// Returns the [`intended`] entry with the provider's result: the tag as id, and the [`outputs`] of the tag.
pub fn made(address: Address, tag: &str) -> Result<Entry> {
    Ok(Entry {
        id: Some(tag.to_owned()),
        outputs: Some(outputs(tag)),
        ..intended(address)?
    })
}

/// Returns the outputs of an entry with this tag.
///
/// The length follows from the tag: 300 KB for a tag that begins with [`LARGE`], 20 to 60 KB for one in eight of the
/// other tags, and less than 500 bytes for the rest.
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
