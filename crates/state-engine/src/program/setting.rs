//! What a program lets its user choose.

use std::fmt;

/// A setting that a program declares.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Setting {
    /// Its name, as in `--config NAME=VALUE` and `${config.NAME}`.
    pub name: String,
    /// What its values are.
    pub kind: SettingType,
    /// What it is for.
    pub description: Option<String>,
    /// Whether its values are secret.
    pub secret: bool,
    /// Whether it must be given: the document has neither a default nor a sealed value.
    pub required: bool,
}

/// What the values of a setting are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SettingType {
    /// A text as it is given.
    #[default]
    String,
    /// A number.
    Number,
    /// `true` or `false`.
    Boolean,
    /// Anything that YAML or JSON can say: lists and objects too.
    Any,
}

impl SettingType {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::String, Self::Number, Self::Boolean, Self::Any];

    /// As documents write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::Any => "any",
        }
    }
}

impl fmt::Display for SettingType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
