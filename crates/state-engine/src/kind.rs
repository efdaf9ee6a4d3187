//! Descriptions of resource kinds: their inputs and outputs, in one table for validation, help and documentation.
//!
//! When a provider describes its kinds ([`Provider::describe`](crate::Provider::describe)), misspelled inputs,
//! wrong types and unknown outputs in a program are reported with their position in the document before the run
//! begins.

use state_core::json::{Kind, ObjectWriter, View};
use state_core::{Json, Properties, nearest};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Inputs and outputs of one resource kind.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct KindDescription {
    /// Name of the kind, as programs write it.
    pub kind: &'static str,
    /// One sentence that describes the resource.
    pub description: &'static str,
    /// The inputs of the kind.
    pub inputs: &'static [InputProperty],
    /// The outputs of the kind.
    pub outputs: &'static [OutputProperty],
    /// Whether objects may have outputs that aren't listed in `outputs`.
    pub more_outputs: bool,
}

/// One input of a kind.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct InputProperty {
    /// Name of the input.
    pub name: &'static str,
    /// Type of the input's value.
    pub takes: InputType,
    /// Whether the program must set the input.
    pub required: bool,
    /// Default value as JSON. `None` if an unset input stays absent.
    pub default: Option<&'static str>,
    /// Description of the input for help and documentation.
    pub description: &'static str,
}

/// One output of a kind.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct OutputProperty {
    /// Name of the output.
    pub name: &'static str,
    /// Whether the output is always secret.
    pub sensitive: bool,
    /// Description of the output for help and documentation.
    pub description: &'static str,
}

/// The type of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InputType {
    /// A string without further restrictions.
    Text,
    /// A string of three or four octal digits: the permissions of a file or directory.
    Mode,
    /// An integer between the two bounds, inclusive.
    Whole(u64, u64),
    /// A boolean: `true` or `false`.
    Flag,
    /// A list of strings.
    Texts,
    /// An object whose values are all strings.
    TextMap,
    /// A program and its arguments as a list of strings, or with `shell: true` one string.
    Command,
    /// A JSON value of any type.
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
    /// Whether a value has this type. `Command` accepts a list and a string; the provider checks which of them the
    /// input `shell` requires.
    pub(crate) fn fits(self, value: View<'_>) -> bool {
        let is_text = |value: View<'_>| value.kind() == Kind::String;
        match self {
            Self::Any => true,
            Self::Text => is_text(value),
            Self::Mode => value.as_str().is_some_and(|text| is_octal_mode(&text)),
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

    /// Whether the type accepts a string.
    #[cfg(feature = "program")]
    pub(crate) const fn takes_text(self) -> bool {
        matches!(self, Self::Any | Self::Text | Self::Mode | Self::Command)
    }

    /// The type as the end of a sentence such as "must be …".
    fn with_article(self) -> String {
        match self {
            Self::Flag => self.to_string(),
            Self::TextMap => format!("an {self}"),
            Self::Any => "any JSON value".to_owned(),
            _ => format!("a {self}"),
        }
    }

    /// A hint for a mistake that is common with this type.
    fn hint(self, value: View<'_>) -> &'static str {
        match (self, value.kind()) {
            (Self::Mode, Kind::Number) => ": quote it, because 0644 without quotes is a number",
            (Self::TextMap, Kind::Object) | (Self::Texts | Self::Command, Kind::Array) => {
                ": quote numbers and booleans in it"
            }
            _ => "",
        }
    }
}

impl InputProperty {
    /// Creates an optional input without a default.
    pub const fn optional(name: &'static str, takes: InputType, description: &'static str) -> Self {
        Self {
            name,
            takes,
            required: false,
            default: None,
            description,
        }
    }

    /// Creates a required input.
    pub const fn required(name: &'static str, takes: InputType, description: &'static str) -> Self {
        Self {
            required: true,
            ..Self::optional(name, takes, description)
        }
    }

    /// Creates an optional input with a default, given as JSON.
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

    /// The message about a required input that isn't set.
    pub(crate) fn missing_message(&self) -> String {
        format!(
            "`{}` is missing; it must be {}",
            self.name,
            self.takes.with_article()
        )
    }

    /// Describes what is wrong with a value, if anything. The value isn't quoted because it may be secret.
    pub(crate) fn problem(&self, value: View<'_>) -> Option<String> {
        if self.takes.fits(value) {
            return None;
        }
        let Self { name, takes, .. } = self;
        let (hint, wanted) = (takes.hint(value), takes.with_article());
        Some(match value.kind() {
            // The type is right, so the message is about the value.
            Kind::Number if matches!(takes, InputType::Whole(..)) => format!("`{name}` must be {wanted}"),
            Kind::String if *takes == InputType::Mode => {
                format!("`{name}` must be {wanted}, such as \"0644\"")
            }
            kind => format!("`{name}` must be {wanted}, not {}{hint}", named(kind)),
        })
    }
}

fn named(kind: Kind) -> &'static str {
    match kind {
        Kind::Null => "null",
        Kind::Bool => "a boolean",
        Kind::Number => "a number",
        Kind::String => "a string",
        Kind::Array => "this list",
        Kind::Object => "this object",
    }
}

impl OutputProperty {
    /// Creates an output that isn't secret by default.
    pub const fn new(name: &'static str, description: &'static str) -> Self {
        Self {
            name,
            sensitive: false,
            description,
        }
    }

    /// Creates an output that is always secret.
    pub const fn secret(name: &'static str, description: &'static str) -> Self {
        Self {
            sensitive: true,
            ..Self::new(name, description)
        }
    }
}

impl KindDescription {
    /// Creates a kind with these inputs and outputs.
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

    /// Allows objects of this kind to have outputs that the description doesn't list.
    #[must_use]
    pub const fn with_more_outputs(self) -> Self {
        Self {
            more_outputs: true,
            ..self
        }
    }

    /// Returns the input with this name.
    pub fn input(&self, name: &str) -> Option<&'static InputProperty> {
        self.inputs.iter().find(|property| property.name == name)
    }

    /// Whether objects of this kind may have an output with this name.
    pub fn has_output(&self, name: &str) -> bool {
        self.more_outputs || self.outputs.iter().any(|property| property.name == name)
    }

    /// Lists every wrong name, type and missing value of the inputs. Messages name the input and never quote its
    /// value. `unknown` names the inputs whose values aren't known yet.
    pub fn problems(&self, inputs: &Properties, unknown: &BTreeSet<String>) -> Vec<String> {
        let mut problems = Vec::new();
        for (name, value) in inputs.view().members().into_iter().flatten() {
            match self.input(&name) {
                Some(property) => problems.extend(property.problem(value)),
                None => problems.push(self.unknown_input(&name)),
            }
        }
        for name in unknown {
            if self.input(name).is_none() {
                problems.push(self.unknown_input(name));
            }
        }
        let is_given = |name: &str| inputs.get(name).is_some() || unknown.contains(name);
        problems.extend(self.missing(is_given).map(InputProperty::missing_message));
        problems
    }

    /// The required inputs that aren't set.
    pub(crate) fn missing(
        &self,
        is_given: impl Fn(&str) -> bool,
    ) -> impl Iterator<Item = &'static InputProperty> {
        let required = self.inputs.iter().filter(|input| input.required);
        required.filter(move |input| !is_given(input.name))
    }

    fn unknown_input(&self, name: &str) -> String {
        let names = self.inputs.iter().map(|input| input.name);
        let message = self.no_input_message(name);
        match nearest(name, names.clone()) {
            Some(suggestion) => format!("{message}: did you mean `{suggestion}`?"),
            None => format!(
                "{message}; its inputs are {}",
                names.collect::<Vec<_>>().join(", ")
            ),
        }
    }

    /// The message about an input that the kind doesn't have.
    pub(crate) fn no_input_message(&self, name: &str) -> String {
        format!("`{}` has no input `{name}`", self.kind)
    }

    /// Returns the inputs with defaults filled in for unset inputs. Inputs in `unknown` get no default: they are set,
    /// but their values aren't known yet.
    #[must_use]
    pub fn with_defaults(&self, inputs: &Properties, unknown: &BTreeSet<String>) -> Properties {
        let is_unset = |name: &str| inputs.get(name).is_none() && !unknown.contains(name);
        let defaults = self.inputs.iter().filter(|input| is_unset(input.name));
        let defaults =
            defaults.filter_map(|input| Some((input.name.to_owned(), Json::parse(input.default?).ok()?)));
        let mut all = members(inputs);
        all.extend(defaults);
        properties_of(&all)
    }
}

/// The members of a JSON object by name.
pub(crate) type Members = BTreeMap<String, Json>;

pub(crate) fn members(properties: &Properties) -> Members {
    let members = properties.view().members().into_iter().flatten();
    members
        .map(|(name, value)| (name.into_owned(), Json::from_view(value)))
        .collect()
}

/// Builds a JSON object from members.
pub(crate) fn properties_of(members: &Members) -> Properties {
    let mut text = String::new();
    let mut object = ObjectWriter::new(&mut text);
    for (name, value) in members {
        object.raw(name, value.as_str());
    }
    object.finish();
    // The map is sorted and its values are canonical, so the text is a canonical object.
    Properties::new(Json::from_canonical(&text)).unwrap_or_default()
}

/// Whether the text is three or four octal digits.
pub(crate) fn is_octal_mode(text: &str) -> bool {
    let is_octal = text.bytes().all(|digit| (b'0'..=b'7').contains(&digit));
    is_octal && (3..=4).contains(&text.len())
}
