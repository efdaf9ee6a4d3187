//! Infrastructure state on a local filesystem: fenced, fsynced, recovered after any crash.
