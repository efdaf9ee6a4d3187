//! Settings of a program: declarations and values.

use super::fields::{Fields, other};
use super::node::{Member, Node, Path, Place, Value};
use super::problem::{Problem, Problems};
use super::{document, scalar};
use state_core::{Crypter, Json};
use std::collections::BTreeMap;
use std::fmt;

/// A setting that a program declares.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Setting {
    /// Name of the setting, as in `--config NAME=VALUE` and `${config.NAME}`.
    pub name: String,
    /// Type of the setting's value.
    pub kind: SettingType,
    /// Description of the setting, if the document has one.
    pub description: Option<String>,
    /// Whether the setting's value is secret.
    pub secret: bool,
    /// Whether the user must pass a value, because the document has neither a default nor a sealed value.
    pub required: bool,
}

/// The type of a setting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SettingType {
    /// A string, taken literally.
    #[default]
    String,
    /// A number in JSON syntax.
    Number,
    /// The boolean `true` or `false`.
    Boolean,
    /// Any YAML or JSON value, including lists and mappings.
    Any,
}

impl SettingType {
    /// All setting types, in documentation order.
    pub const ALL: [Self; 4] = [Self::String, Self::Number, Self::Boolean, Self::Any];

    /// Name of the type in documents.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::Any => "any",
        }
    }

    const fn takes(self, value: &Value) -> bool {
        match self {
            Self::String => matches!(value, Value::Text(_)),
            Self::Number => matches!(value, Value::Number(_)),
            Self::Boolean => matches!(value, Value::Bool(_)),
            Self::Any => true,
        }
    }

    /// Parses a value that the user passed or that was decrypted. `None` if the text isn't of this type. The text may
    /// be a secret, so no error quotes it.
    fn of_text(self, text: &str) -> Option<Json> {
        match self {
            Self::String => Some(Json::from_string(text)),
            Self::Number => Json::parse(&scalar::number(text.trim()).ok()??).ok(),
            Self::Boolean => match text.trim() {
                "true" => Json::parse("true").ok(),
                "false" => Json::parse("false").ok(),
                _ => None,
            },
            // A value with duplicate names is invalid: `json` returns `None`.
            Self::Any => json(&document::read(text.as_bytes(), &mut Problems::default())?),
        }
    }
}

impl fmt::Display for SettingType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A setting with its value in the document, if any.
pub(super) struct Declaration {
    pub(super) setting: Setting,
    place: Place,
    source: ValueSource,
}

/// The value of a setting in the document.
enum ValueSource {
    Absent,
    Default(Json),
    /// A value that was encrypted with the stack's data key, and its position.
    Sealed(String, Place),
}

/// The value of a setting. The type has no `Debug`, because the value may be secret.
pub(super) struct SettingValue {
    pub(super) json: Json,
    pub(super) secret: bool,
}

/// The values of all settings.
pub(super) type Settings = BTreeMap<String, SettingValue>;

/// Reads one member of `config`.
pub(super) fn declaration(member: &Member, path: &Path<'_>, problems: &mut Problems) -> Option<Declaration> {
    const MEMBERS: [&str; 5] = ["type", "default", "description", "secret", "sealed"];
    let mut fields = Fields::of(&member.value, &MEMBERS, path, problems)?;
    let kind = kind(&mut fields);
    let sealed = fields.text("sealed");
    let secret = fields.choice("secret");
    let in_default = path.member("default");
    let source = match (fields.get("default"), sealed) {
        (Some(node), Some(_)) => {
            let reason = "`default` and `sealed` can't be combined: remove one of them";
            Err(Problem::at(node.place, &in_default, reason))
        }
        (Some(node), None) if secret == Some(true) => {
            let hint = format!(
                "remove it, or set `sealed` to the output of `statectl secret encrypt {}`",
                member.name
            );
            let reason = "a secret can't have a default in plain text";
            Err(Problem::at(node.place, &in_default, reason).with_hint(hint))
        }
        (Some(node), None) => {
            let json = json(node).filter(|_| kind.takes(&node.value));
            let wrong_type = || other(node, &in_default, &format!("of type {kind}"));
            json.map(ValueSource::Default).ok_or_else(wrong_type)
        }
        (None, Some(sealed)) => {
            if secret == Some(false) {
                let reason = "a sealed value is always secret: remove `secret: false`";
                fields.problem(Problem::at(sealed.place, &path.member("sealed"), reason));
            }
            Ok(ValueSource::Sealed(sealed.text.trim().to_owned(), sealed.place))
        }
        (None, None) => Ok(ValueSource::Absent),
    };
    let source = source.unwrap_or_else(|problem| {
        fields.problem(problem);
        ValueSource::Absent
    });
    Some(Declaration {
        setting: Setting {
            name: member.name.clone(),
            kind,
            description: fields.prose("description"),
            secret: secret == Some(true) || matches!(source, ValueSource::Sealed(..)),
            required: matches!(source, ValueSource::Absent),
        },
        place: member.place,
        source,
    })
}

fn kind(fields: &mut Fields<'_, '_>) -> SettingType {
    let Some(named) = fields.text("type") else {
        return SettingType::default();
    };
    let mut all = SettingType::ALL.into_iter();
    all.find(|kind| kind.as_str() == named.text).unwrap_or_else(|| {
        let names = SettingType::ALL.map(SettingType::as_str);
        let reason = format!("there is no type `{}`", named.text.escape_debug());
        let problem = Problem::at(named.place, &fields.path.member("type"), reason);
        fields.problems.add_named(problem, named.text, names);
        SettingType::default()
    })
}

/// The JSON of a value without references. `None` if the value has duplicate names.
fn json(node: &Node) -> Option<Json> {
    Json::parse(&node.json()).ok()
}

/// Returns the values of the settings. `given` contains the values that the user passed. They take precedence over the
/// values in the document.
pub(super) fn values(
    declarations: &[Declaration],
    given: &BTreeMap<String, String>,
    crypter: Option<&dyn Crypter>,
    problems: &mut Problems,
) -> Settings {
    let config = Path::Whole;
    let config = config.member(super::template::CONFIG);
    for name in given.keys() {
        if !declarations.iter().any(|declared| declared.setting.name == *name) {
            let names = declarations.iter().map(|declared| declared.setting.name.as_str());
            let nowhere = Place { line: 0, column: 0 };
            let reason = "the program has no such setting";
            let problem = Problem::at(nowhere, &config.member(name), reason);
            problems.add_named(problem, name, names);
        }
    }
    let mut values = Settings::new();
    for declared in declarations {
        let name = &declared.setting.name;
        match declared.value(given.get(name), crypter, &config.member(name)) {
            Ok(json) => {
                let secret = declared.setting.secret;
                values.insert(name.clone(), SettingValue { json, secret });
            }
            Err(problem) => problems.add(problem),
        }
    }
    values
}

impl Declaration {
    fn value(
        &self,
        given: Option<&String>,
        crypter: Option<&dyn Crypter>,
        path: &Path<'_>,
    ) -> Result<Json, Problem> {
        let Setting { name, kind, .. } = &self.setting;
        let wrong_type = |what: &str, place| {
            let reason = match kind {
                SettingType::Any => format!("{what} can't be read as YAML or JSON"),
                _ => format!("{what} isn't of type {kind}"),
            };
            Problem::at(place, path, reason)
        };
        if let Some(given) = given {
            let given = kind.of_text(given);
            return given.ok_or_else(|| wrong_type("the given value", self.place));
        }
        match &self.source {
            ValueSource::Default(json) => Ok(json.clone()),
            ValueSource::Sealed(sealed, place) => {
                let crypter = crypter.ok_or_else(|| {
                    let hint = format!(
                        "pass `--config {name}=VALUE`, or use an identity that is a recipient of the stack"
                    );
                    Problem::at(*place, path, "no available key can decrypt it").with_hint(hint)
                })?;
                let opened = crypter.decrypt(name, sealed).map_err(|error| {
                    let hint =
                        format!("encrypt it again for this stack with `statectl secret encrypt {name}`");
                    Problem::at(*place, path, format!("it can't be decrypted: {error}")).with_hint(hint)
                })?;
                let text = String::from_utf8(opened).ok();
                let value = text.and_then(|text| kind.of_text(&text));
                value.ok_or_else(|| wrong_type("the sealed value", *place))
            }
            ValueSource::Absent => {
                let hint = format!("pass `--config {name}=VALUE`");
                Err(
                    Problem::at(self.place, path, format!("a value of type {kind} is required"))
                        .with_hint(hint),
                )
            }
        }
    }
}
