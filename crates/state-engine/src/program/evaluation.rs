//! Values of expressions: references are replaced by what they stand for.

use super::expression::{Expression, Form};
use super::node::separate;
use super::problem::{Problem, Problems, listed};
use super::secret::{below, token};
use super::setting::Settings;
use super::template::{ID, Piece, Reference, Step};
use crate::ledger::{Committed, Ledger};
use state_core::json::{Json, Kind, View, write_string};
use state_core::sensitive::SecretStrings;
use state_core::{Address, nearest};

/// What references lead to.
pub(super) struct Scope<'s> {
    pub(super) settings: &'s Settings,
    /// None while nothing is done yet: then nobody knows what resources say.
    pub(super) ledger: Option<&'s Ledger>,
}

/// What a reference leads to.
enum Found {
    /// A value, and pointers to what is secret in it.
    Value(Json, Vec<String>),
    /// Nobody knows it yet.
    Unknown,
}

impl Scope<'_> {
    fn find(&self, reference: &Reference, problem: impl Fn(String) -> Problem) -> Result<Found, Problem> {
        let Reference { resource, name, .. } = reference;
        let Some(resource) = resource else {
            // Links were checked when the document was read.
            let Some(setting) = self.settings.get(name) else {
                return Ok(Found::Unknown);
            };
            let (value, _) = reference.walk(setting.json.view(), String::new(), &problem)?;
            let secret = setting.secret.then(String::new);
            return Ok(Found::Value(Json::from_view(value), secret.into_iter().collect()));
        };
        let address = Address::new(resource.as_str()).ok();
        let committed = self.ledger.and_then(|ledger| ledger.committed(&address?));
        match committed {
            Some(committed) if committed.knows(name) => output(committed, reference, problem),
            _ => Ok(Found::Unknown),
        }
    }
}

/// The value of a resource's output, or its id.
fn output(
    committed: &Committed,
    reference: &Reference,
    problem: impl Fn(String) -> Problem,
) -> Result<Found, Problem> {
    let entry = committed.entry();
    let Reference { name, .. } = reference;
    let outputs = committed.outputs();
    if name == ID {
        let Some(id) = committed.id() else {
            return Err(problem(format!("`{}` has no id", entry.address)));
        };
        let secret = SecretStrings::of_entry(entry).occur_in(id).then(String::new);
        let id = Json::from_string(id);
        let (value, _) = reference.walk(id.view(), String::new(), &problem)?;
        return Ok(Found::Value(Json::from_view(value), secret.into_iter().collect()));
    }
    let Some(value) = outputs.get(name) else {
        let members: Vec<_> = outputs.view().members().into_iter().flatten().collect();
        let names: Vec<&str> = members.iter().map(|(name, _)| &**name).chain([ID]).collect();
        let near = nearest(name, names.iter().copied());
        let meant = near
            .map(|near| format!("did you mean `{near}`? "))
            .unwrap_or_default();
        let problem = problem(format!("`{}` has no output `{name}`", entry.address));
        return Err(problem.with_hint(format!("{meant}there are: {}", listed(&names))));
    };
    let (value, pointer) = reference.walk(value, format!("/{}", token(name)), &problem)?;
    let marks = &entry.sensitive_outputs;
    let secret = below(outputs.json(), marks, &SecretStrings::of_entry(entry), &pointer);
    Ok(Found::Value(Json::from_view(value), secret))
}

impl Reference {
    /// Goes its steps, and tells the pointer to where it came.
    fn walk<'v>(
        &self,
        from: View<'v>,
        mut pointer: String,
        problem: impl Fn(String) -> Problem,
    ) -> Result<(View<'v>, String), Problem> {
        let mut value = from;
        for step in &self.steps {
            let (next, token) = match step {
                Step::Member(name) => (value.get(name), token(name).into_owned()),
                Step::Element(index) => (value.index(*index), index.to_string()),
            };
            let Some(next) = next else {
                let kind = value.kind();
                return Err(problem(format!(
                    "`{self}` leads nowhere: `{step}` isn't there, in a value of type {kind}"
                )));
            };
            value = next;
            pointer.push('/');
            pointer.push_str(&token);
        }
        Ok((value, pointer))
    }
}

/// A value whose references were replaced. After a problem it means nothing.
pub(super) struct Evaluated {
    /// None while something in it isn't known yet.
    pub(super) json: Option<String>,
    /// Pointers to what is secret in it; the empty one says that all of it is.
    pub(super) secret: Vec<String>,
    /// Secrets that were joined to longer texts.
    pub(super) joined: Vec<String>,
}

impl Expression {
    /// Its value; what is wrong with it is told.
    pub(super) fn evaluate(&self, scope: &Scope<'_>, problems: &mut Problems) -> Evaluated {
        let mut evaluation = Evaluation {
            scope,
            problems,
            json: String::new(),
            pointer: String::new(),
            secret: Vec::new(),
            joined: Vec::new(),
            is_unknown: false,
        };
        evaluation.value(self);
        Evaluated {
            json: (!evaluation.is_unknown).then_some(evaluation.json),
            secret: evaluation.secret,
            joined: evaluation.joined,
        }
    }
}

/// A value that is being put together.
struct Evaluation<'s> {
    scope: &'s Scope<'s>,
    problems: &'s mut Problems,
    json: String,
    /// Where in the value what comes next stands.
    pointer: String,
    secret: Vec<String>,
    joined: Vec<String>,
    is_unknown: bool,
}

impl Evaluation<'_> {
    fn value(&mut self, expression: &Expression) {
        match &expression.form {
            Form::Plain(json) => self.json.push_str(json),
            Form::Reference(reference) => {
                if let Some((value, secret)) = self.find(expression, reference) {
                    self.json.push_str(value.as_str());
                    let secret = secret
                        .into_iter()
                        .map(|pointer| format!("{}{pointer}", self.pointer));
                    self.secret.extend(secret);
                }
            }
            Form::Joined(stored_items) => self.joined(expression, stored_items),
            Form::List(elements) => {
                self.json.push('[');
                for (at, element) in elements.iter().enumerate() {
                    separate(&mut self.json, at);
                    self.inside(&at.to_string(), element);
                }
                self.json.push(']');
            }
            Form::Map(members) => {
                self.json.push('{');
                for (at, (name, member)) in members.iter().enumerate() {
                    separate(&mut self.json, at);
                    write_string(&mut self.json, name);
                    self.json.push(':');
                    self.inside(&token(name), member);
                }
                self.json.push('}');
            }
        }
    }

    fn inside(&mut self, token: &str, expression: &Expression) {
        let length = self.pointer.len();
        self.pointer.push('/');
        self.pointer.push_str(token);
        self.value(expression);
        self.pointer.truncate(length);
    }

    fn joined(&mut self, expression: &Expression, stored_items: &[Piece]) {
        let mut text = String::new();
        let mut is_secret = false;
        for piece in stored_items {
            let reference = match piece {
                Piece::Text(piece) => {
                    text.push_str(piece);
                    continue;
                }
                Piece::Reference(reference) => reference,
            };
            let Some((value, secret)) = self.find(expression, reference) else {
                continue;
            };
            let view = value.view();
            let before = text.len();
            match view.kind() {
                Kind::String => text.push_str(&view.as_str().unwrap_or_default()),
                Kind::Number | Kind::Bool => text.push_str(view.text()),
                kind @ (Kind::Null | Kind::Array | Kind::Object) => {
                    let reason = format!("`{reference}` is of type {kind}, which can't be joined to a text");
                    let hint =
                        "only strings, numbers and booleans can; alone in its string it is taken as it is";
                    self.problems
                        .add(expression.problem_at(reference.place, reason).with_hint(hint));
                }
            }
            if !secret.is_empty() {
                is_secret = true;
                let piece = text.get(before..).unwrap_or_default();
                self.joined.extend(piece.lines().chain([piece]).map(String::from));
            }
        }
        write_string(&mut self.json, &text);
        if is_secret {
            self.secret.push(self.pointer.clone());
        }
    }

    fn find(&mut self, expression: &Expression, reference: &Reference) -> Option<(Json, Vec<String>)> {
        match self
            .scope
            .find(reference, |reason| expression.problem_at(reference.place, reason))
        {
            Ok(Found::Value(value, secret)) => return Some((value, secret)),
            Ok(Found::Unknown) => self.is_unknown = true,
            Err(problem) => self.problems.add(problem),
        }
        None
    }
}
