//! What a kind takes and gives: one table for checks, for help and for the documentation.
//!
//! A provider that says it ([`Provider::describe`](crate::Provider::describe)) has programs told of misspelled inputs, wrong
//! types and outputs that nobody gives, with their place in the document and before anything is done.

use state_core::json::{Kind, ObjectWriter, View};
use state_core::{Json, Properties, nearest};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// What a provider takes and gives for a kind.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct KindDescription {
    /// The kind as programs write it.
    pub kind: &'static str,
    /// What it makes, in a sentence.
    pub description: &'static str,
    /// What it takes.
    pub inputs: &'static [InputProperty],
    /// What it gives.
    pub outputs: &'static [OutputProperty],
    /// An object may have outputs that stand in no table as well.
    pub more_outputs: bool,
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
            Self::Mode => f.write_str("string of three or four octal digits"),
            Self::Whole(least, most) => write!(f, "whole number from {least} to {most}"),
            Self::Flag => f.write_str("`true` or `false`"),
            Self::Texts => f.write_str("list of strings"),
            Self::TextMap => f.write_str("object of strings"),
            Self::Command => f.write_str("list of strings, or a string with `shell: true`"),
            Self::Any => f.write_str("anything"),
        }
    }
}

impl InputType {
    pub(crate) fn fits(self, value: View<'_>) -> bool {
        let is_text = |value: View<'_>| value.kind() == Kind::String;
        match self {
            Self::Any => true,
            Self::Text => is_text(value),
            Self::Mode => value.as_str().is_some_and(|text| is_rights(&text)),
            Self::Whole(least, most) => value
                .as_u64()
                .is_some_and(|number| (least..=most).contains(&number)),
            Self::Flag => value.as_bool().is_some(),
            Self::Texts => value.elements().is_some_and(|mut texts| texts.all(is_text)),
            Self::TextMap => value
                .members()
                .is_some_and(|mut members| members.all(|(_, value)| is_text(value))),
            Self::Command => is_text(value) || Self::Texts.fits(value),
        }
    }

    /// Whether a text may stand there.
    #[cfg(feature = "program")]
    pub(crate) const fn takes_text(self) -> bool {
        matches!(self, Self::Any | Self::Text | Self::Mode | Self::Command)
    }

    /// Why this, of all wrong things, is one that people write.
    fn hint(self, value: View<'_>) -> &'static str {
        match (self, value.kind()) {
            (Self::Mode, Kind::Number) => ": put it in quotes, for YAML reads 0644 as a decimal number",
            (Self::TextMap | Self::Texts | Self::Command, Kind::Array | Kind::Object) => {
                ": numbers and flags in it need quotes"
            }
            _ => "",
        }
    }
}

impl InputProperty {
    /// One that may be left out.
    pub const fn optional(name: &'static str, takes: InputType, description: &'static str) -> Self {
        Self {
            name,
            takes,
            required: false,
            default: None,
            description,
        }
    }

    /// One that has to be given.
    pub const fn required(name: &'static str, takes: InputType, description: &'static str) -> Self {
        Self {
            required: true,
            ..Self::optional(name, takes, description)
        }
    }

    /// One that has a value whether it is given or not.
    pub const fn or(
        name: &'static str,
        takes: InputType,
        default: &'static str,
        description: &'static str,
    ) -> Self {
        Self {
            default: Some(default),
            ..Self::optional(name, takes, description)
        }
    }

    pub(crate) fn is_missing(&self) -> String {
        format!("`{}` is missing: a {}", self.name, self.takes)
    }

    /// What is wrong with its value. The value isn't quoted: it may be secret.
    pub(crate) fn problem(&self, value: View<'_>) -> Option<String> {
        if self.takes.fits(value) {
            return None;
        }
        let Self { name, takes, .. } = self;
        let hint = takes.hint(value);
        Some(match value.kind() {
            // It has the right type, so it is the value that is wrong.
            Kind::Number if matches!(takes, InputType::Whole(..)) => format!("`{name}` must be a {takes}"),
            Kind::String if *takes == InputType::Mode => {
                format!("`{name}` must be a {takes}, such as \"0644\"")
            }
            kind => format!("`{name}` must be a {takes}, not {}{hint}", named(kind)),
        })
    }
}

fn named(kind: Kind) -> &'static str {
    match kind {
        Kind::Null => "null",
        Kind::Bool => "true or false",
        Kind::Number => "a number",
        Kind::String => "a string",
        Kind::Array => "such a list",
        Kind::Object => "such an object",
    }
}

impl OutputProperty {
    /// One that isn't secret.
    pub const fn new(name: &'static str, description: &'static str) -> Self {
        Self {
            name,
            sensitive: false,
            description,
        }
    }

    /// One that always is.
    pub const fn secret(name: &'static str, description: &'static str) -> Self {
        Self {
            sensitive: true,
            ..Self::new(name, description)
        }
    }
}

impl KindDescription {
    /// A kind that takes these and gives these.
    pub const fn new(
        kind: &'static str,
        description: &'static str,
        inputs: &'static [InputProperty],
        outputs: &'static [OutputProperty],
    ) -> Self {
        Self {
            kind,
            description,
            inputs,
            outputs,
            more_outputs: false,
        }
    }

    /// The same whose objects may have other outputs as well.
    #[must_use]
    pub const fn with_more_outputs(self) -> Self {
        Self {
            more_outputs: true,
            ..self
        }
    }

    /// An input by its name.
    pub fn input(&self, name: &str) -> Option<&'static InputProperty> {
        self.inputs.iter().find(|property| property.name == name)
    }

    /// Whether an object may have an output.
    pub fn gives(&self, name: &str) -> bool {
        self.more_outputs || self.outputs.iter().any(|property| property.name == name)
    }

    /// All that is wrong with names and types of inputs, each with the input's name and never with its value. `unknown` are
    /// those whose values nobody knows yet.
    pub fn problems(&self, inputs: &Properties, unknown: &BTreeSet<String>) -> Vec<String> {
        let mut problems = Vec::new();
        for (name, value) in inputs.view().members().into_iter().flatten() {
            match self.input(&name) {
                Some(property) => problems.extend(property.problem(value)),
                None => problems.push(self.stranger(&name)),
            }
        }
        for name in unknown {
            if self.input(name).is_none() {
                problems.push(self.stranger(name));
            }
        }
        let is_given = |name: &str| inputs.get(name).is_some() || unknown.contains(name);
        problems.extend(self.missing(is_given).map(InputProperty::is_missing));
        problems
    }

    /// The inputs that have to be given and aren't.
    pub(crate) fn missing(
        &self,
        is_given: impl Fn(&str) -> bool,
    ) -> impl Iterator<Item = &'static InputProperty> {
        let required = self.inputs.iter().filter(|input| input.required);
        required.filter(move |input| !is_given(input.name))
    }

    fn stranger(&self, name: &str) -> String {
        let names = self.inputs.iter().map(|input| input.name);
        let is_none = self.has_no_input(name);
        match nearest(name, names.clone()) {
            Some(meant) => format!("{is_none}: did you mean `{meant}`?"),
            None => format!("{is_none}; it takes {}", names.collect::<Vec<_>>().join(", ")),
        }
    }

    pub(crate) fn has_no_input(&self, name: &str) -> String {
        format!("`{name}` is no input of `{}`", self.kind)
    }

    /// The inputs with what they are if they aren't given.
    #[must_use]
    pub fn with_defaults(&self, inputs: &Properties, unknown: &BTreeSet<String>) -> Properties {
        let lacks = |name: &str| inputs.get(name).is_none() && !unknown.contains(name);
        let defaults = self.inputs.iter().filter(|input| lacks(input.name));
        let defaults =
            defaults.filter_map(|input| Some((input.name.to_owned(), Json::parse(input.default?).ok()?)));
        let mut all = members(inputs);
        all.extend(defaults);
        properties_of(&all)
    }
}

/// The members of an object.
pub(crate) type Members = BTreeMap<String, Json>;

pub(crate) fn members(properties: &Properties) -> Members {
    let members = properties.view().members().into_iter().flatten();
    members
        .map(|(name, value)| (name.into_owned(), Json::from_view(value)))
        .collect()
}

/// An object of these members.
pub(crate) fn properties_of(members: &Members) -> Properties {
    let mut text = String::new();
    let mut object = ObjectWriter::new(&mut text);
    for (name, value) in members {
        object.raw(name, value.as_str());
    }
    object.finish();
    // Sorted, and of canonical pieces, so it is canonical, and an object.
    Properties::new(Json::from_canonical(&text)).unwrap_or_default()
}

/// Whether these are three or four octal digits.
pub(crate) fn is_rights(text: &str) -> bool {
    let is_octal = text.bytes().all(|digit| (b'0'..=b'7').contains(&digit));
    is_octal && (3..=4).contains(&text.len())
}
