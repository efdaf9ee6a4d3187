//! The provider of random values, which exist only in the state.

mod draw;

use super::members::{Members, checked_inputs, flag, properties, text, value};
use crate::kind::InputType::{self, Any, Flag, Text, Whole};
use crate::kind::{InputProperty, KindDescription, OutputProperty};
use crate::provider::{
    CheckRequest, CheckedInputs, CreateRequest, DeleteRequest, Diff, DiffRequest, Failure, Object, Provider,
    ReadRequest, ReadResult, UpdateRequest,
};
use async_trait::async_trait;
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use draw::{Alphabet, Draw};
use state_core::{Entropy, Json, Properties};
use std::sync::Arc;

const KEEPERS: InputProperty =
    InputProperty::optional("keepers", Any, "any value; a change generates a new value");

const COUNT: InputType = Whole(0, 1024);

pub(super) const PASSWORD: KindDescription = KindDescription::new(
    "random:password",
    "A random password.",
    &[
        InputProperty::or("digits", Flag, "true", "whether to use digits"),
        KEEPERS,
        InputProperty::or("length", Whole(8, 1024), "24", "number of characters"),
        InputProperty::or("lower", Flag, "true", "whether to use lower-case letters"),
        InputProperty::or("min_digits", COUNT, "0", "minimum number of digits"),
        InputProperty::or("min_lower", COUNT, "0", "minimum number of lower-case letters"),
        InputProperty::or("min_special", COUNT, "0", "minimum number of special characters"),
        InputProperty::or("min_upper", COUNT, "0", "minimum number of upper-case letters"),
        InputProperty::or("special", Flag, "true", "whether to use special characters"),
        InputProperty::or(
            "special_characters",
            Text,
            "\"!@#$%&*()-_=+[]{}<>:?\"",
            "the allowed special characters",
        ),
        InputProperty::or("upper", Flag, "true", "whether to use upper-case letters"),
    ],
    &[OutputProperty::secret("result", "the generated password")],
);

pub(super) const ID: KindDescription = KindDescription::new(
    "random:id",
    "Random bytes as text, for unique names.",
    &[
        InputProperty::or("bytes", Whole(1, 1024), "8", "number of bytes"),
        KEEPERS,
        InputProperty::optional("prefix", Text, "prefix of each output"),
    ],
    &[
        OutputProperty::new("base64url", "the bytes in URL-safe base64 without padding"),
        OutputProperty::new("hex", "the bytes in hexadecimal digits"),
    ],
);

/// The character classes of a password, with the inputs of their minimum counts.
const CLASSES: [(&str, &str); 4] = [
    ("lower", "min_lower"),
    ("upper", "min_upper"),
    ("digits", "min_digits"),
    ("special", "min_special"),
];

/// The kind of random value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Password,
    Id,
}

impl Value {
    const fn kind(self) -> &'static KindDescription {
        match self {
            Self::Password => &PASSWORD,
            Self::Id => &ID,
        }
    }

    /// Name of the output that contains the value. If this output isn't recorded, the value is lost, because only the
    /// state contains the value.
    const fn output(self) -> &'static str {
        match self {
            Self::Password => "result",
            Self::Id => "hex",
        }
    }

    /// Whether the outputs contain the value.
    fn is_in(self, outputs: &Properties) -> bool {
        value(outputs, self.output()).is_some()
    }

    fn object(self, id: String, outputs: Properties) -> Object {
        let mut object = Object::new(id, outputs);
        let secret = self.kind().outputs.iter().filter(|output| output.sensitive);
        object.sensitive_outputs = secret.map(|output| output.name.to_owned()).collect();
        object
    }
}

/// The provider of the kinds `random:id` and `random:password`.
#[derive(Debug)]
pub(super) struct Randoms {
    pub(super) value: Value,
    pub(super) entropy: Arc<dyn Entropy>,
}

#[async_trait]
impl Provider for Randoms {
    fn describe(&self, _kind: &str) -> Option<KindDescription> {
        Some(*self.value.kind())
    }

    async fn check(&self, request: CheckRequest) -> Result<CheckedInputs, Failure> {
        let inputs = checked_inputs(self.value.kind(), &request, |inputs, problems| {
            if self.value == Value::Password && request.unknown.is_empty() && problems.is_empty() {
                problems.extend(password_problems(inputs));
            }
        });
        inputs.map(CheckedInputs::new)
    }

    async fn diff(&self, request: DiffRequest) -> Result<Diff, Failure> {
        // Old inputs get defaults too: if a later version adds an input, resources that were recorded without it keep
        // their values.
        let kind = self.value.kind();
        let old_inputs = kind.with_defaults(&request.old_inputs, &request.unknown);
        let mut diff = Diff::changed(Diff::of_inputs(&old_inputs, &request.inputs));
        diff.changed.extend(request.unknown);
        // A create that was resolved manually has no recorded value, so the value is lost.
        if !self.value.is_in(&request.old_outputs) {
            diff.changed.insert(self.value.output().to_owned());
        }
        diff.replace = diff.changed.clone();
        Ok(diff)
    }

    async fn create(&self, request: CreateRequest) -> Result<Object, Failure> {
        let mut draw = Draw::new(&*self.entropy);
        let outputs = match self.value {
            Value::Password => {
                let password = draw.password(whole(&request.inputs, "length"), &alphabets(&request.inputs));
                Members::from([("result".to_owned(), Json::from_string(&password))])
            }
            Value::Id => id(&mut draw, &request.inputs),
        };
        // The id is independent of the value: ids aren't secret, and two short values may be equal.
        let id = draw::hex(&draw.bytes(16));
        Ok(self.value.object(id, properties(&outputs)))
    }

    /// Returns the recorded value. A create with an unknown outcome recorded no value, so its object counts as missing.
    async fn read(&self, request: ReadRequest) -> Result<ReadResult, Failure> {
        Ok(match request.id {
            Some(id) if self.value.is_in(&request.outputs) => {
                let mut object = self.value.object(id, request.outputs);
                object.inputs = Some(request.inputs);
                ReadResult::Object(object)
            }
            _ => ReadResult::Missing,
        })
    }

    /// Returns the recorded value: every change of an input replaces the object, so there is nothing to update.
    async fn update(&self, request: UpdateRequest) -> Result<Object, Failure> {
        let id = request.id.unwrap_or_default();
        Ok(self.value.object(id, request.old_outputs))
    }

    async fn delete(&self, _request: DeleteRequest) -> Result<(), Failure> {
        Ok(())
    }
}

fn id(draw: &mut Draw<'_>, inputs: &Properties) -> Members {
    let bytes = draw.bytes(whole(inputs, "bytes"));
    let prefix = text(inputs, "prefix").unwrap_or_default();
    let with_prefix = |text: String| Json::from_string(&format!("{prefix}{text}"));
    let base64url = with_prefix(BASE64_URL_SAFE_NO_PAD.encode(&bytes));
    let hex = with_prefix(draw::hex(&bytes));
    Members::from([("base64url".to_owned(), base64url), ("hex".to_owned(), hex)])
}

fn whole(inputs: &Properties, name: &str) -> usize {
    let number = inputs.get(name).and_then(|number| number.as_u64());
    number.map_or(0, |number| usize::try_from(number).unwrap_or_default())
}

/// The enabled character classes with their minimum counts.
fn alphabets(inputs: &Properties) -> Vec<Alphabet> {
    let special = text(inputs, "special_characters").unwrap_or_default();
    let characters: [Vec<char>; 4] = [
        ('a'..='z').collect(),
        ('A'..='Z').collect(),
        ('0'..='9').collect(),
        special.chars().collect(),
    ];
    let all = CLASSES.into_iter().zip(characters);
    all.filter(|((class, _), _)| flag(inputs, class))
        .map(|((_, least), characters)| Alphabet {
            characters,
            least: whole(inputs, least),
        })
        .collect()
}

/// Problems of inputs of a password that are valid alone but contradict each other, and of `special_characters`.
fn password_problems(inputs: &Properties) -> Vec<String> {
    let mut problems = Vec::new();
    for (class, least) in CLASSES {
        if !flag(inputs, class) && whole(inputs, least) > 0 {
            problems.push(format!("`{least}` contradicts `{class}: false`"));
        }
    }
    if CLASSES.iter().all(|(class, _)| !flag(inputs, class)) {
        problems.push("`lower`, `upper`, `digits` and `special` can't all be false".to_owned());
    }
    let least: usize = CLASSES.iter().map(|(_, least)| whole(inputs, least)).sum();
    if least > whole(inputs, "length") {
        problems.push(format!("`length` is less than the {least} required characters"));
    }
    let special = text(inputs, "special_characters").unwrap_or_default();
    let mut seen = std::collections::BTreeSet::new();
    let is_fair = |c: char| c.is_ascii_graphic() && !c.is_ascii_alphanumeric();
    if special.is_empty() || !special.chars().all(|c| is_fair(c) && seen.insert(c)) {
        problems.push(
            "`special_characters` must be visible ASCII characters that are neither letters nor digits, each of them once"
                .to_owned(),
        );
    }
    problems
}
