//! The outputs of a program: as they are declared, and as they are made when everything is committed.

use super::evaluation::Scope;
use super::expression::Expression;
use super::fields::Fields;
use super::node::{Member, Path, Value};
use super::problem::{Problem, Problems, ProgramError};
use super::secret::{token, top_level};
use crate::source::SourceOutputs;
use state_core::Json;
use state_core::mutation::StackOutputs;
use std::collections::BTreeSet;

/// An output of the stack.
pub(super) struct Output {
    pub(super) name: String,
    pub(super) value: Expression,
    /// It is secret whatever it is made of.
    sensitive: bool,
}

/// Reads a member of `outputs`. A mapping says more than the value; anything else is the value.
pub(super) fn output(member: &Member, path: &Path<'_>, problems: &mut Problems) -> Option<Output> {
    const MEMBERS: [&str; 3] = ["value", "sensitive", "description"];
    let Member { name, place, value } = member;
    if !matches!(value.value, Value::Map(_)) {
        return Some(Output {
            name: name.clone(),
            value: Expression::read(value, path, problems),
            sensitive: false,
        });
    }
    let mut fields = Fields::of(value, &MEMBERS, path, problems)?;
    fields.prose("description");
    let sensitive = fields.flag("sensitive");
    let Some(value) = fields.get("value") else {
        let problem = Problem::at(*place, path, "it has no `value`");
        fields.problem(problem.with_hint("a mapping as an output is written `{ value: { … } }`"));
        return None;
    };
    Some(Output {
        name: name.clone(),
        value: Expression::read(value, &path.member("value"), fields.problems),
        sensitive,
    })
}

/// The outputs of the stack. One that nobody knows yet stays as it was.
pub(super) fn made(
    name: &str,
    declared: &[Output],
    scope: &Scope<'_>,
    before: &StackOutputs,
) -> Result<SourceOutputs, ProgramError> {
    let mut made = StackOutputs::default();
    let mut unknown = BTreeSet::new();
    let mut problems = Problems::default();
    for output in declared {
        let evaluated = output.value.evaluate(scope, &mut problems);
        let Some(json) = evaluated.json else {
            keep(&output.name, before, &mut made);
            unknown.insert(output.name.clone());
            continue;
        };
        if problems.is_empty() {
            // What was put together of values that are in a state may only be too deep for one.
            match Json::parse(&json) {
                Ok(json) => drop(made.values.insert(output.name.clone(), json)),
                Err(error) => problems.add(output.value.problem(error.to_string())),
            }
        }
        let first = token(&output.name);
        if output.sensitive || evaluated.secret.iter().any(String::is_empty) {
            made.sensitive.push(output.name.clone());
        } else {
            let secret = evaluated.secret.iter();
            let marks = secret.map(|pointer| format!("/{first}{pointer}"));
            made.sensitive.extend(marks);
        }
    }
    let outputs = made;
    problems.none_in(name, SourceOutputs { outputs, unknown })
}

fn keep(name: &str, before: &StackOutputs, made: &mut StackOutputs) {
    if let Some(value) = before.values.get(name) {
        made.values.insert(name.to_owned(), value.clone());
        let marks = before.sensitive.iter().filter(|mark| top_level(mark) == name);
        made.sensitive.extend(marks.cloned());
    }
}
