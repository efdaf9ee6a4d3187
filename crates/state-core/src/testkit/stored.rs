//! Large snapshots in the stored form, for benchmarks and tests of loading.

use crate::environment::Entropy;
use crate::id::{Lineage, Uid};
use memchr::memrchr;
use std::fmt::Write;

/// Returns the stored form of a snapshot with `count` entries, and its lineage. Inputs and outputs of an entry have a few
/// fixed fields and `words` tags: with 4 tags, an entry has about 1,040 bytes, with 34 tags about 3,680. Each entry depends
/// on two earlier ones. Other random bits give a text of the same shape with other values.
pub fn stored(entropy: &dyn Entropy, count: usize, words: usize) -> (Lineage, Vec<u8>) {
    let lineage = Lineage::random(entropy);
    let mut text = format!(
        "{{\"deployment-id\":\"shop\",\"format-version\":1,\"generated-at\":\"2026-05-30T12:00:00Z\",\
         \"lineage\":\"{lineage}\",\"stack\":{{}},\"entries\":[\n"
    );
    for index in 0..count {
        add_entry(&mut text, entropy, index, words);
        text.push_str(if index + 1 == count { "\n" } else { ",\n" });
    }
    text.push_str("]}\n");
    (lineage, text.into_bytes())
}

fn add_entry(text: &mut String, entropy: &dyn Entropy, index: usize, words: usize) {
    text.push_str("{\"address\":");
    add_address(text, index);
    let dependencies = [1, 30].into_iter().filter_map(|back| index.checked_sub(back));
    for (number, dependency) in dependencies.enumerate() {
        text.push_str(if number == 0 { ",\"depends-on\":[" } else { "," });
        add_address(text, dependency);
    }
    text.push_str(if index == 0 { "" } else { "]" });
    text.push_str(
        ",\"extensions\":{\"terraform\":{\"mode\":\"managed\",\
         \"provider\":\"provider[\\\"registry.terraform.io/hashicorp/aws\\\"]\"}},\"id\":\"",
    );
    add_word(text, entropy);
    text.push_str("\",\"inputs\":");
    add_properties(text, entropy, words);
    text.push_str(",\"kind\":\"aws_instance\",\"outputs\":");
    add_properties(text, entropy, words);
    text.push_str(",\"type\":\"leaf\",\"uid\":\"");
    text.push_str(&Uid::random(entropy).to_string());
    text.push_str("\"}");
}

fn add_address(text: &mut String, index: usize) {
    let written = write!(text, "\"module.web[{}].aws_instance.node[{index}]\"", index / 500);
    debug_assert!(written.is_ok(), "writing to a string can't fail");
}

fn add_properties(text: &mut String, entropy: &dyn Entropy, words: usize) {
    text.push_str("{\"arn\":\"arn:aws:ec2:eu-west-1:123456789012:instance/");
    add_word(text, entropy);
    text.push_str("\",\"ebs\":[{\"encrypted\":true,\"size\":8}],\"tags\":{");
    for number in 0..words {
        let comma = if number == 0 { "" } else { "," };
        let written = write!(text, "{comma}\"tag-{number:02}\":\"");
        debug_assert!(written.is_ok(), "writing to a string can't fail");
        add_word(text, entropy);
        text.push('"');
    }
    text.push_str("},\"zone\":null}");
}

/// Appends 32 random hexadecimal digits.
fn add_word(text: &mut String, entropy: &dyn Entropy) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in entropy.bits() {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
}

/// The blocks of a stored form, of whole lines with about 256 KiB.
#[derive(Clone, Debug)]
pub struct Blocks<'b>(&'b [u8]);

impl<'b> Blocks<'b> {
    const SIZE: usize = 256 << 10;

    /// The blocks of this text.
    pub const fn of(text: &'b [u8]) -> Self {
        Self(text)
    }
}

impl<'b> Iterator for Blocks<'b> {
    type Item = &'b [u8];

    fn next(&mut self) -> Option<&'b [u8]> {
        let window = &self.0[..Self::SIZE.min(self.0.len())];
        let newline = memrchr(b'\n', window).map(|at| at + 1);
        // A line that is longer than a block is a block of its own.
        let end = newline.or_else(|| memchr::memchr(b'\n', self.0).map(|at| at + 1));
        let (block, rest) = self.0.split_at(end.unwrap_or(self.0.len()));
        self.0 = rest;
        (!block.is_empty()).then_some(block)
    }
}
