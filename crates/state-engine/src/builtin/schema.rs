//! What a kind takes and gives: one table for checks, for help and for the documentation.

use std::fmt;

/// What a built-in provider takes and gives.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct KindDescription {
    /// The kind as programs write it.
    pub kind: &'static str,
    /// What it makes, in a sentence.
    pub description: &'static str,
    /// What it takes, sorted by name.
    pub inputs: &'static [InputProperty],
    /// What it gives, sorted by name; the command's own outputs come beside these.
    pub outputs: &'static [OutputProperty],
}

/// An input.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct InputProperty {
    /// Its name.
    pub name: &'static str,
    /// What may stand there.
    pub takes: InputType,
    /// It has to be given.
    pub required: bool,
    /// What it is if it isn't given, as JSON; none: it is left out.
    pub default: Option<&'static str>,
    /// What it means.
    pub description: &'static str,
}

/// An output.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct OutputProperty {
    /// Its name.
    pub name: &'static str,
    /// It is always secret.
    pub sensitive: bool,
    /// What it means.
    pub description: &'static str,
}

/// What may stand in an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InputType {
    /// A string.
    Text,
    /// A string of three or four octal digits: the rights of a file or folder.
    Mode,
    /// A whole number from the first to the second.
    Whole(u64, u64),
    /// `true` or `false`.
    Flag,
    /// A list of strings.
    Texts,
    /// An object whose values are strings.
    TextMap,
    /// A program and its arguments as a list of strings, or with `shell: true` one string.
    Command,
    /// Any value.
    Any,
}

impl fmt::Display for InputType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text => f.write_str("string"),
            Self::Mode => f.write_str("string of octal digits"),
            Self::Whole(least, most) => write!(f, "whole number from {least} to {most}"),
            Self::Flag => f.write_str("true or false"),
            Self::Texts => f.write_str("list of strings"),
            Self::TextMap => f.write_str("object of strings"),
            Self::Command => f.write_str("list of strings, or a string with `shell: true`"),
            Self::Any => f.write_str("any value"),
        }
    }
}
