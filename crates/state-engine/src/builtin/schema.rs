//! What a kind takes and gives: one table for checks, for help and for the documentation.

use super::members::{members, properties};
use super::mode;
use crate::provider::{CheckRequest, Failure};
use state_core::json::{Kind, View};
use state_core::{Json, Properties, nearest};
use std::collections::BTreeSet;
use std::fmt;

/// What a built-in provider takes and gives.
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
    pub(super) fn fits(self, value: View<'_>) -> bool {
        let is_text = |value: View<'_>| value.kind() == Kind::String;
        match self {
            Self::Any => true,
            Self::Text => is_text(value),
            Self::Mode => value.as_str().is_some_and(|text| mode::parse(&text).is_some()),
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
    pub(super) const fn optional(name: &'static str, takes: InputType, description: &'static str) -> Self {
        Self {
            name,
            takes,
            required: false,
            default: None,
            description,
        }
    }

    /// One that has to be given.
    pub(super) const fn required(name: &'static str, takes: InputType, description: &'static str) -> Self {
        Self {
            required: true,
            ..Self::optional(name, takes, description)
        }
    }

    /// One that has a value whether it is given or not.
    pub(super) const fn or(
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

    /// What is wrong with its value. The value isn't quoted: it may be secret.
    fn problem(&self, value: View<'_>) -> Option<String> {
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

impl KindDescription {
    fn input(&self, name: &str) -> Option<&'static InputProperty> {
        self.inputs.iter().find(|property| property.name == name)
    }

    /// All that is wrong with names and types, each with the property's name.
    pub(super) fn problems(&self, request: &CheckRequest) -> Vec<String> {
        let CheckRequest { inputs, unknown, .. } = request;
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
        let is_given = |name| inputs.get(name).is_some() || unknown.contains(name);
        for InputProperty { name, takes, .. } in self.inputs.iter().filter(|input| input.required) {
            if !is_given(*name) {
                problems.push(format!("`{name}` is missing: a {takes}"));
            }
        }
        problems
    }

    fn stranger(&self, name: &str) -> String {
        let names = self.inputs.iter().map(|input| input.name);
        match nearest(name, names.clone()) {
            Some(meant) => format!("`{name}` is no input of `{}`: did you mean `{meant}`?", self.kind),
            None => {
                let names: Vec<&str> = names.collect();
                format!(
                    "`{name}` is no input of `{}`; it takes {}",
                    self.kind,
                    names.join(", ")
                )
            }
        }
    }

    /// The inputs with what they are if they aren't given.
    pub(super) fn with_defaults(&self, inputs: &Properties, unknown: &BTreeSet<String>) -> Properties {
        let mut all = members(inputs);
        for InputProperty { name, default, .. } in self.inputs {
            if let Some(default) = default
                && !all.contains_key(*name)
                && !unknown.contains(*name)
            {
                all.insert((*name).to_owned(), Json::from_canonical(default));
            }
        }
        properties(&all)
    }
}

/// Every problem at once, or the inputs with their defaults.
pub(super) fn judged(
    kind: &KindDescription,
    request: &CheckRequest,
    more: impl FnOnce(&Properties, &mut Vec<String>),
) -> Result<Properties, Failure> {
    let mut problems = kind.problems(request);
    let inputs = kind.with_defaults(&request.inputs, &request.unknown);
    more(&inputs, &mut problems);
    match problems.is_empty() {
        true => Ok(inputs),
        false => Err(Failure::NotDone(problems)),
    }
}
