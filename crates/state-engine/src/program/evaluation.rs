//! Evaluation of expressions: replaces references with values, and tracks which parts of the result are secret or not
//! known yet.

use super::expression::{Expression, Form};
use super::node::separate;
use super::problem::{Problem, Problems, listed};
use super::secret::{below, token};
use super::setting::Settings;
use super::template::{ID, Piece, Reference, Step};
use crate::approval::SENSITIVE;
use crate::ledger::{CommittedResource, Ledger};
use state_core::json::{Json, Kind, View, write_string};
use state_core::sensitive::SecretStrings;
use state_core::{Address, nearest};

/// Placeholder for a value that isn't known before the run.
const UNKNOWN: &str = "(known after apply)";

/// The values that references can resolve to.
pub(super) struct Scope<'s> {
    pub(super) settings: &'s Settings,
    /// The committed resources. `None` before the plan and the run, when no output of a resource is known.
    pub(super) ledger: Option<&'s Ledger>,
}

/// The result of resolving a reference.
enum Lookup {
    /// A value, and JSON pointers to its secret parts.
    Value(Json, Vec<String>),
    /// The value isn't known yet.
    Unknown,
}

impl Scope<'_> {
    fn find(&self, reference: &Reference, problem: impl Fn(String) -> Problem) -> Result<Lookup, Problem> {
        let Reference { resource, name, .. } = reference;
        let Some(resource) = resource else {
            // The setting always exists: parsing refused references to undeclared settings, and every declared setting
            // has a value.
            let Some(setting) = self.settings.get(name) else {
                return Ok(Lookup::Unknown);
            };
            let (value, _) = reference.walk(setting.json.view(), String::new(), &problem)?;
            let secret = setting.secret.then(String::new);
            return Ok(Lookup::Value(
                Json::from_view(value),
                secret.into_iter().collect(),
            ));
        };
        let address = Address::new(resource.as_str()).ok();
        let committed = self.ledger.and_then(|ledger| ledger.committed(&address?));
        match committed {
            Some(committed) if committed.is_known(name) => output(committed, reference, problem),
            _ => Ok(Lookup::Unknown),
        }
    }
}

/// Returns the value of a resource's output, or its id.
fn output(
    committed: &CommittedResource,
    reference: &Reference,
    problem: impl Fn(String) -> Problem,
) -> Result<Lookup, Problem> {
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
        return Ok(Lookup::Value(
            Json::from_view(value),
            secret.into_iter().collect(),
        ));
    }
    let Some(value) = outputs.get(name) else {
        let members: Vec<_> = outputs.view().members().into_iter().flatten().collect();
        let names: Vec<&str> = members.iter().map(|(name, _)| &**name).chain([ID]).collect();
        let near = nearest(name, names.iter().copied());
        let suggestion = near
            .map(|near| format!("did you mean `{near}`? "))
            .unwrap_or_default();
        let problem = problem(format!("`{}` has no output `{name}`", entry.address));
        return Err(problem.with_hint(format!("{suggestion}available: {}", listed(&names))));
    };
    let (value, pointer) = reference.walk(value, format!("/{}", token(name)), &problem)?;
    let marks = &entry.sensitive_outputs;
    let secret = below(outputs.json(), marks, &SecretStrings::of_entry(entry), &pointer);
    Ok(Lookup::Value(Json::from_view(value), secret))
}

impl Reference {
    /// Follows the steps of the reference from the value `from`. Returns the value that they lead to, and its JSON
    /// pointer: `pointer`, the pointer of `from`, with a token for each step.
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
                    "`{self}` can't be resolved: a value of type {kind} has no `{step}`"
                )));
            };
            value = next;
            pointer.push('/');
            pointer.push_str(&token);
        }
        Ok((value, pointer))
    }
}

/// The result of evaluating an expression. Must not be used if a problem was reported.
pub(super) struct Evaluated {
    /// The value. `None` if a part of the value isn't known yet.
    pub(super) json: Option<String>,
    /// The value with placeholders in place of its unknown and secret parts, for display. `None` if the value is known.
    pub(super) partial: Option<String>,
    /// JSON pointers to the secret parts; an empty pointer marks the whole value.
    pub(super) secret: Vec<String>,
    /// Secrets that references embedded in longer strings.
    pub(super) joined: Vec<String>,
}

impl Expression {
    /// Evaluates the expression and reports problems.
    pub(super) fn evaluate(&self, scope: &Scope<'_>, problems: &mut Problems) -> Evaluated {
        let mut evaluation = Evaluation::new(scope, problems);
        evaluation.value(self);
        let Evaluation {
            json,
            secret,
            joined,
            is_unknown,
            ..
        } = evaluation;
        Evaluated {
            json: (!is_unknown).then_some(json),
            partial: is_unknown.then(|| self.partial(scope)),
            secret,
            joined,
        }
    }

    /// Evaluates the expression with placeholders in place of its unknown and secret parts.
    fn partial(&self, scope: &Scope<'_>) -> String {
        // `evaluate` reported the problems already.
        let mut problems = Problems::default();
        let mut evaluation = Evaluation {
            uses_placeholders: true,
            ..Evaluation::new(scope, &mut problems)
        };
        evaluation.value(self);
        evaluation.json
    }
}

/// An evaluation in progress. `json` is the part of the result that is already written.
struct Evaluation<'s> {
    scope: &'s Scope<'s>,
    problems: &'s mut Problems,
    json: String,
    /// JSON pointer of the part that is being evaluated.
    pointer: String,
    secret: Vec<String>,
    joined: Vec<String>,
    is_unknown: bool,
    /// Whether placeholders replace the unknown and secret parts.
    uses_placeholders: bool,
}

impl<'s> Evaluation<'s> {
    const fn new(scope: &'s Scope<'s>, problems: &'s mut Problems) -> Self {
        Self {
            scope,
            problems,
            json: String::new(),
            pointer: String::new(),
            secret: Vec::new(),
            joined: Vec::new(),
            is_unknown: false,
            uses_placeholders: false,
        }
    }

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
            Form::Joined(pieces) => self.joined(expression, pieces),
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

    fn joined(&mut self, expression: &Expression, pieces: &[Piece]) {
        let mut text = String::new();
        let mut is_secret = false;
        for piece in pieces {
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
                    let reason = format!("`{reference}` is of type {kind} and can't be embedded in a string");
                    let hint =
                        "only strings, numbers and booleans can; make the reference the whole value instead";
                    self.problems
                        .add(expression.problem_at(reference.place, reason).with_hint(hint));
                }
            }
            if !secret.is_empty() {
                is_secret = true;
                let piece = text.get(before..).unwrap_or_default();
                // An output or a log line may contain only one line of the secret, so each of its lines counts as
                // secret.
                self.joined.extend(piece.lines().chain([piece]).map(String::from));
            }
        }
        write_string(&mut self.json, &text);
        if is_secret {
            self.secret.push(self.pointer.clone());
        }
    }

    /// Resolves a reference. Returns the value and JSON pointers to its secret parts. `None` if the value isn't known
    /// yet, or if the reference can't be resolved; then the problem is reported.
    fn find(&mut self, expression: &Expression, reference: &Reference) -> Option<(Json, Vec<String>)> {
        let placeholder = |text| Some((Json::from_string(text), Vec::new()));
        match self
            .scope
            .find(reference, |reason| expression.problem_at(reference.place, reason))
        {
            Ok(Lookup::Value(_, secret)) if self.uses_placeholders && !secret.is_empty() => {
                return placeholder(SENSITIVE);
            }
            Ok(Lookup::Unknown) if self.uses_placeholders => return placeholder(UNKNOWN),
            Ok(Lookup::Value(value, secret)) => return Some((value, secret)),
            Ok(Lookup::Unknown) => self.is_unknown = true,
            Err(problem) => self.problems.add(problem),
        }
        None
    }
}
