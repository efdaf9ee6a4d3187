//! `statectl`.
fn main() {}
