//! The unit tests of files.
