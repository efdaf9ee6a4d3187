//! Fuzzes the decoder `keys` with the properties in `decoders.rs`.
#![no_main]

#[path = "../decoders.rs"]
#[expect(dead_code, reason = "each target uses only one of the decoders")]
mod decoders;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| decoders::keys(bytes));
