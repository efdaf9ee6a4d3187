//! Unit tests of the built-in providers.
