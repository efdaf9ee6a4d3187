//! Fuzzes the decoder `program`: see `decoders.rs`.
#![no_main]

#[path = "../decoders.rs"]
#[expect(dead_code, reason = "every target uses one of them")]
mod decoders;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| decoders::program(bytes));
