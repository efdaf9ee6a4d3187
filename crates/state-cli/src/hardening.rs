//! Protects the memory of this process, which holds data keys and opened values.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Disables core dumps of this process: a dump would write keys and secrets to the disk. Called before any key is opened.
pub(crate) fn disable_core_dumps() {
    let limit = getrlimit(Resource::Core);
    // Only the soft limit: commands that a run starts may raise theirs again, up to the user's own hard limit.
    let limit = Rlimit {
        current: Some(0),
        maximum: limit.maximum,
    };
    // Lowering a soft limit can't be refused, and there is no better answer to an error than to go on.
    let _ = setrlimit(Resource::Core, limit).ok();
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        // The limit doesn't hold for dumps that the kernel pipes into a collector such as systemd-coredump. This does,
        // and it ends when a command is started.
        let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::disable_core_dumps;
    use rustix::process::{Resource, getrlimit};

    #[test]
    fn core_dumps_are_disabled_before_keys_are_opened() {
        disable_core_dumps();
        assert_eq!(getrlimit(Resource::Core).current, Some(0));
        #[cfg(target_os = "linux")]
        {
            use rustix::process::{DumpableBehavior, dumpable_behavior};
            assert_eq!(dumpable_behavior().unwrap(), DumpableBehavior::NotDumpable);
        }
    }
}
