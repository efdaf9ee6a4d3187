//! What a program lets its user choose: as it is declared, and as it is given.

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
    /// Anything that YAML or JSON can say: lists and mappings too.
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

    const fn takes(self, value: &Value) -> bool {
        match self {
            Self::String => matches!(value, Value::Text(_)),
            Self::Number => matches!(value, Value::Number(_)),
            Self::Boolean => matches!(value, Value::Bool(_)),
            Self::Any => true,
        }
    }

    /// What a text says, which may be a secret: an error doesn't quote it.
    fn of_text(self, text: &str) -> Option<Json> {
        match self {
            Self::String => Some(Json::from_string(text)),
            Self::Number => Json::parse(&scalar::number(text.trim()).ok()??).ok(),
            Self::Boolean => match text.trim() {
                "true" => Json::parse("true").ok(),
                "false" => Json::parse("false").ok(),
                _ => None,
            },
            // A name that stands twice is no JSON.
            Self::Any => json(&document::read(text.as_bytes(), &mut Problems::default())?),
        }
    }
}

impl fmt::Display for SettingType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A setting with what the document gives for it.
pub(super) struct Declaration {
    pub(super) setting: Setting,
    place: Place,
    given: Given,
}

enum Given {
    Nothing,
    Default(Json),
    /// A value that only the stack's key opens, and where it stands.
    Sealed(String, Place),
}

/// The value of a setting. It may be a secret, so there is no `Debug`.
pub(super) struct SettingValue {
    pub(super) json: Json,
    pub(super) secret: bool,
}

/// The values of all settings.
pub(super) type Settings = BTreeMap<String, SettingValue>;

/// Reads a member of `config`.
pub(super) fn declaration(member: &Member, path: &Path<'_>, problems: &mut Problems) -> Option<Declaration> {
    const MEMBERS: [&str; 5] = ["type", "default", "description", "secret", "sealed"];
    let mut fields = Fields::of(&member.value, &MEMBERS, path, problems)?;
    let kind = kind(&mut fields);
    let sealed = fields.text("sealed");
    let secret = fields.choice("secret");
    let in_default = path.member("default");
    let given = match (fields.get("default"), sealed) {
        (Some(node), Some(_)) => {
            let reason = "it has a sealed value already: leave one of them out";
            Err(Problem::at(node.place, &in_default, reason))
        }
        (Some(node), None) if secret == Some(true) => {
            let hint = format!(
                "leave it out, or write what `statectl secret encrypt {}` prints as `sealed`",
                member.name
            );
            let reason = "a secret doesn't stand in a document in the open";
            Err(Problem::at(node.place, &in_default, reason).with_hint(hint))
        }
        (Some(node), None) => {
            let json = json(node).filter(|_| kind.takes(&node.value));
            let wrong_type = || other(node, &in_default, &format!("of type {kind}"));
            json.map(Given::Default).ok_or_else(wrong_type)
        }
        (None, Some(sealed)) => {
            if secret == Some(false) {
                let reason = "what is sealed is secret: leave out `secret: false`";
                fields.problem(Problem::at(sealed.place, &path.member("sealed"), reason));
            }
            Ok(Given::Sealed(sealed.text.trim().to_owned(), sealed.place))
        }
        (None, None) => Ok(Given::Nothing),
    };
    let given = given.unwrap_or_else(|problem| {
        fields.problem(problem);
        Given::Nothing
    });
    Some(Declaration {
        setting: Setting {
            name: member.name.clone(),
            kind,
            description: fields.prose("description"),
            secret: secret == Some(true) || matches!(given, Given::Sealed(..)),
            required: matches!(given, Given::Nothing),
        },
        place: member.place,
        given,
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

/// A value without references; none if a name stands twice in it.
fn json(node: &Node) -> Option<Json> {
    Json::parse(&node.json()).ok()
}

/// The values of the settings: those that are given, else those of the document.
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
            let reason = "it was given, and the program has no such setting";
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
            return given.ok_or_else(|| wrong_type("the value that was given", self.place));
        }
        match &self.given {
            Given::Default(json) => Ok(json.clone()),
            Given::Sealed(sealed, place) => {
                let crypter = crypter.ok_or_else(|| {
                    let hint = format!(
                        "give it by `--config {name}=VALUE`, or use an identity of the stack's recipients"
                    );
                    Problem::at(*place, path, "there is no key at hand that opens it").with_hint(hint)
                })?;
                let opened = crypter.decrypt(name, sealed).map_err(|error| {
                    let hint = format!("seal it again: `statectl secret encrypt {name}`, for this stack");
                    Problem::at(*place, path, format!("it doesn't open: {error}")).with_hint(hint)
                })?;
                let text = String::from_utf8(opened).ok();
                let value = text.and_then(|text| kind.of_text(&text));
                value.ok_or_else(|| wrong_type("what is sealed", *place))
            }
            Given::Nothing => {
                let hint = format!("give it by `--config {name}=VALUE`");
                Err(Problem::at(self.place, path, format!("it has no value (type {kind})")).with_hint(hint))
            }
        }
    }
}
