//! Who runs this process: the only place that asks the system for it.

use state_manager::Actor;

/// The user, the machine and the process.
pub(crate) fn actor() -> Actor {
    Actor {
        who: user(),
        host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        pid: std::process::id(),
    }
}

fn user() -> String {
    ["USER", "LOGNAME"]
        .iter()
        .filter_map(|name| std::env::var(name).ok())
        .find(|name| !name.is_empty())
        .unwrap_or_else(|| format!("uid-{}", rustix::process::getuid().as_raw()))
}
