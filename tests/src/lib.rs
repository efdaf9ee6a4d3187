//! Laws and scenarios across crates; the tests are in `suite/`.
