//! Configuration schemas of backends, and the decoder of configuration values.
//!
//! Values are text: from the parameters of a URL, from `--backend-config key=value`, or from a file. The schema gives
//! each value its type. The decoder reports all problems at once and never shows secret values.

use crate::error::{Error, Result};
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

/// The schema of a configuration: its fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct ConfigurationType {
    fields: Vec<FieldType>,
}

/// One field of a configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct FieldType {
    name: String,
    kind: FieldKind,
    required: bool,
    default: Option<FieldValue>,
    secret: bool,
    description: String,
}

named! {
    /// The type of a field's value.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "kebab-case")]
    #[non_exhaustive]
    pub enum FieldKind {
        /// Text without further restrictions.
        String = "string",
        /// A whole number, possibly negative.
        Integer = "integer",
        /// A boolean, written as `true` or `false`.
        Boolean = "boolean",
        /// A path in the filesystem; a relative path is resolved against the working folder.
        Path = "path",
    }
}

/// The decoded value of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FieldValue {
    /// Text without further restrictions.
    String(String),
    /// A whole number, possibly negative.
    Integer(i64),
    /// A boolean, `true` or `false`.
    Boolean(bool),
    /// A path in the filesystem.
    Path(PathBuf),
}

impl FieldKind {
    fn decode(self, text: &str) -> Option<FieldValue> {
        match self {
            Self::String => Some(FieldValue::String(text.to_owned())),
            Self::Integer => text.parse().ok().map(FieldValue::Integer),
            Self::Boolean => text.parse().ok().map(FieldValue::Boolean),
            Self::Path => (!text.is_empty()).then(|| FieldValue::Path(text.into())),
        }
    }
}

impl FieldValue {
    /// The kind of the value.
    pub const fn kind(&self) -> FieldKind {
        match self {
            Self::String(_) => FieldKind::String,
            Self::Integer(_) => FieldKind::Integer,
            Self::Boolean(_) => FieldKind::Boolean,
            Self::Path(_) => FieldKind::Path,
        }
    }
}

impl fmt::Display for FieldValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::String(text) => f.write_str(text),
            Self::Integer(number) => number.fmt(f),
            Self::Boolean(yes) => yes.fmt(f),
            Self::Path(path) => path.display().fmt(f),
        }
    }
}

impl Serialize for FieldValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        match self {
            Self::Integer(number) => serializer.serialize_i64(*number),
            Self::Boolean(yes) => serializer.serialize_bool(*yes),
            Self::String(_) | Self::Path(_) => serializer.collect_str(self),
        }
    }
}

impl FieldType {
    /// Creates an optional field.
    pub fn new(name: impl Into<String>, kind: FieldKind, description: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            kind,
            required: false,
            default: None,
            secret: false,
            description: description.into(),
        }
    }

    /// Returns the field, marked as mandatory.
    #[must_use]
    pub fn required(self) -> Self {
        Self {
            required: true,
            ..self
        }
    }

    /// Returns the field with a default value.
    #[must_use]
    pub fn with_default(self, default: FieldValue) -> Self {
        Self {
            default: Some(default),
            ..self
        }
    }

    /// Returns the field, marked as secret: its value is never shown.
    #[must_use]
    pub fn secret(self) -> Self {
        Self { secret: true, ..self }
    }

    /// The field's name in kebab-case.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The type of the field's value.
    pub const fn kind(&self) -> FieldKind {
        self.kind
    }

    /// Whether the field is mandatory.
    pub const fn is_required(&self) -> bool {
        self.required
    }

    /// The value of the field if the configuration doesn't contain it.
    pub const fn default(&self) -> Option<&FieldValue> {
        self.default.as_ref()
    }

    /// Whether the field's value is never shown.
    pub const fn is_secret(&self) -> bool {
        self.secret
    }

    /// Description of the field, for help and error messages.
    pub fn description(&self) -> &str {
        &self.description
    }

    fn problem(&self) -> Option<String> {
        let letters = |word: &str| {
            !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
        };
        let kebab = self.name.split('-').all(letters) && !self.name.starts_with(|c: char| c.is_ascii_digit());
        if !kebab {
            return Some(format!("`{}` is not kebab-case", self.name.escape_debug()));
        }
        let default = self.default.as_ref()?;
        if default.kind() != self.kind {
            return Some(format!("the default of `{}` has another kind", self.name));
        }
        (self.required || self.secret).then(|| {
            format!(
                "`{}` has a default, so it can be neither required nor secret",
                self.name
            )
        })
    }
}

impl ConfigurationType {
    /// Creates a schema with these fields, in the order in which messages list them.
    ///
    /// # Errors
    /// `Invalid` if a name isn't kebab-case or occurs twice, or a default doesn't match its field.
    pub fn new(fields: Vec<FieldType>) -> Result<Self> {
        let mut problems: Vec<String> = fields.iter().filter_map(FieldType::problem).collect();
        for (index, field) in fields.iter().enumerate() {
            if fields[..index].iter().any(|other| other.name == field.name) {
                problems.push(format!("`{}` is declared twice", field.name));
            }
        }
        if problems.is_empty() {
            return Ok(Self { fields });
        }
        Err(Error::invalid("a configuration schema", problems.join("; ")))
    }

    /// The fields of the schema.
    pub fn fields(&self) -> &[FieldType] {
        &self.fields
    }

    /// The field with this name.
    pub fn field(&self, name: &str) -> Option<&FieldType> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// Decodes configuration values; `object` names the configured object in errors. If a key occurs again, the last
    /// value applies.
    ///
    /// # Errors
    /// `Invalid` with all problems: unknown keys (the error lists the known ones), values of another kind, missing
    /// fields.
    pub fn decode<K, V>(&self, object: &str, given: impl IntoIterator<Item = (K, V)>) -> Result<Configuration>
    where
        K: AsRef<str>,
        V: AsRef<str>,
    {
        let mut problems = Vec::new();
        let mut texts = BTreeMap::new();
        for (name, text) in given {
            match self.field(name.as_ref()) {
                Some(field) => {
                    texts.insert(field.name.as_str(), text);
                }
                None => problems.push(self.unknown(name.as_ref())),
            }
        }
        let mut values = BTreeMap::new();
        for field in &self.fields {
            let value = match texts.get(field.name.as_str()) {
                Some(text) => field.kind.decode(text.as_ref()).or_else(|| {
                    problems.push(field.mismatch(text.as_ref()));
                    None
                }),
                None if field.required => {
                    problems.push(format!("`{}` is missing: {}", field.name, field.description));
                    None
                }
                None => field.default.clone(),
            };
            values.extend(value.map(|value| (field.name.clone(), value)));
        }
        if problems.is_empty() {
            let secrets = self.fields.iter().filter(|field| field.secret);
            let secrets = secrets.map(|field| field.name.clone()).collect();
            return Ok(Configuration { values, secrets });
        }
        Err(Error::invalid(
            format!("configuration of {object}"),
            problems.join("; "),
        ))
    }

    fn unknown(&self, name: &str) -> String {
        let shown: String = name.chars().take(60).collect();
        let known: Vec<_> = self
            .fields
            .iter()
            .map(|field| format!("`{}`", field.name))
            .collect();
        let known = if known.is_empty() {
            "there are no keys".to_owned()
        } else {
            format!("known keys are {}", known.join(", "))
        };
        format!("unknown key `{}`: {known}", shown.escape_debug())
    }
}

impl FieldType {
    /// Describes a value of the wrong kind. A secret value is not shown.
    fn mismatch(&self, text: &str) -> String {
        let wanted = match self.kind {
            FieldKind::Boolean => "`true` or `false`",
            FieldKind::Integer => "a whole number",
            FieldKind::Path => "a path",
            FieldKind::String => "text",
        };
        if self.secret {
            return format!("`{}` takes {wanted}", self.name);
        }
        let shown: String = text.chars().take(60).collect();
        format!("`{}` takes {wanted}, not `{}`", self.name, shown.escape_debug())
    }
}

/// A decoded configuration. Its `Debug` output hides secret values.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Configuration {
    values: BTreeMap<String, FieldValue>,
    secrets: Vec<String>,
}

impl Configuration {
    /// The value of a field; `None` if it isn't set and has no default.
    pub fn get(&self, name: &str) -> Option<&FieldValue> {
        self.values.get(name)
    }

    /// The value of a text field.
    pub fn string(&self, name: &str) -> Option<&str> {
        match self.get(name)? {
            FieldValue::String(text) => Some(text),
            _ => None,
        }
    }

    /// The value of an integer field.
    pub fn integer(&self, name: &str) -> Option<i64> {
        match self.get(name)? {
            FieldValue::Integer(number) => Some(*number),
            _ => None,
        }
    }

    /// The value of a boolean field.
    pub fn boolean(&self, name: &str) -> Option<bool> {
        match self.get(name)? {
            FieldValue::Boolean(yes) => Some(*yes),
            _ => None,
        }
    }

    /// The value of a path field.
    pub fn path(&self, name: &str) -> Option<&Path> {
        match self.get(name)? {
            FieldValue::Path(path) => Some(path),
            _ => None,
        }
    }
}

impl fmt::Debug for Configuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut map = f.debug_map();
        for (name, value) in &self.values {
            if self.secrets.contains(name) {
                map.entry(name, &format_args!("(secret)"));
            } else {
                map.entry(name, value);
            }
        }
        map.finish()
    }
}

#[cfg(test)]
mod tests;
