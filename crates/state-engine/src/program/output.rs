//! The stack outputs that a program declares: parses and evaluates the member `outputs`.

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

/// One output of the stack.
pub(super) struct Output {
    pub(super) name: String,
    pub(super) value: Expression,
    /// Whether the document marks the output as secret. An output with a secret value is secret even without a mark.
    sensitive: bool,
}

/// Reads a member of `outputs`. A mapping has the members `value`, `sensitive` and `description`; anything else
/// is the value itself.
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
        let problem = Problem::at(*place, path, "`value` is missing");
        fields.problem(problem.with_hint("write a mapping as an output as `{ value: { … } }`"));
        return None;
    };
    Some(Output {
        name: name.clone(),
        value: Expression::read(value, &path.member("value"), fields.problems),
        sensitive,
    })
}

/// Evaluates the outputs of the stack. `before` contains the previous outputs: an output whose new value isn't known
/// yet keeps its previous value, if it has one.
pub(super) fn evaluate_all(
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
            // Values that were valid by themselves may exceed the maximum depth when they are combined.
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

/// Copies the previous value of an output, if it has one, and the marks of the value's secret parts.
fn keep(name: &str, before: &StackOutputs, made: &mut StackOutputs) {
    if let Some(value) = before.values.get(name) {
        made.values.insert(name.to_owned(), value.clone());
        let marks = before.sensitive.iter().filter(|mark| top_level(mark) == name);
        made.sensitive.extend(marks.cloned());
    }
}
