//! Automation of this workspace: `cargo xtask ci`.
fn main() {}
