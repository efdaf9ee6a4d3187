//! The provider of the kind `command`, whose objects are created, read, updated and deleted by commands of the program.
//! The documentation of [`builtin`](super) describes the environment and the exit codes of these commands.

mod call;
mod lock;
mod outcome;
mod process;

use super::members::{checked_inputs, flag, members, properties, text};
use crate::approval::{CommandCall, ResourceCommand};
use crate::kind::InputType::{Any, Command, Flag, Text, TextMap, Texts};
use crate::kind::{InputProperty, KindDescription, OutputProperty};
use crate::provider::{
    CheckRequest, CheckedInputs, CreateRequest, DeleteRequest, Diff, DiffRequest, EarlierWork, Failure,
    Object, Provider, ReadRequest, ReadResult, UpdateRequest,
};
use async_trait::async_trait;
use call::{Call, Subject, resource_command};
pub(super) use lock::CommandLocks;
use outcome::{Outcome, UNFINISHED, command_object, is_unfinished, marked_unfinished};
use state_core::json::Kind;
use state_core::{MutationId, Properties};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Inputs whose change updates the object, or replaces it if there is no `update` command.
const WORK: [&str; 5] = ["create", "dir", "environment", "shell", "stdin"];

/// Inputs that only mark outputs as secret. A change of such an input runs no command.
const MARKS: [&str; 2] = ["sensitive", "sensitive_outputs"];

const COMMANDS: [&str; 4] = ["create", "read", "update", "delete"];

pub(super) const KIND: KindDescription = KindDescription::new(
    "command",
    "An object that commands create, read, update and delete.",
    &[
        InputProperty::required("create", Command, "creates the object"),
        InputProperty::optional("delete", Command, "deletes the object; without it nothing runs"),
        InputProperty::optional(
            "dir",
            Text,
            "directory in which the commands run; default: the working directory",
        ),
        InputProperty::optional("environment", TextMap, "environment variables for the commands"),
        InputProperty::optional(
            "read",
            Command,
            "reads the object; without it the recorded outputs are used",
        ),
        InputProperty::optional("sensitive", Flag, "whether all outputs are secret"),
        InputProperty::optional("sensitive_outputs", Texts, "names of the secret outputs"),
        InputProperty::optional("shell", Flag, "whether each command is one string for `sh -c`"),
        InputProperty::optional("stdin", Text, "standard input of `create` and `update`"),
        InputProperty::optional("triggers", Any, "any value; a change replaces the object"),
        InputProperty::optional(
            "update",
            Command,
            "updates the object; without it changes replace the object",
        ),
    ],
    &[
        OutputProperty::new(
            "stdout",
            "printed text, unless it is a JSON object; the members of a JSON object are outputs",
        ),
        OutputProperty::new(
            UNFINISHED,
            "the command that failed and must run again: `create` or `update`",
        ),
    ],
)
.with_more_outputs();

/// The provider of the kind `command`.
#[derive(Debug)]
pub(super) struct Commands {
    pub(super) folder: PathBuf,
    pub(super) locks: CommandLocks,
}

#[async_trait]
impl Provider for Commands {
    fn describe(&self, _kind: &str) -> Option<KindDescription> {
        Some(KIND)
    }

    fn commands(
        &self,
        _kind: &str,
        _id: Option<&str>,
        inputs: &Properties,
        call: CommandCall,
    ) -> Vec<ResourceCommand> {
        // After a failed `create` or `delete`, the provider runs `read`, so `read` needs an approval too.
        let names: &[&'static str] = match call {
            CommandCall::Create => &["create", "read"],
            CommandCall::Read => &["read"],
            CommandCall::Update => &["update"],
            CommandCall::Delete => &["delete", "read"],
        };
        let present = names.iter().filter(|name| inputs.get(name).is_some());
        present
            .map(|name| resource_command(&self.folder, inputs, name))
            .collect()
    }

    fn note_work(&self, mutation: MutationId) {
        self.locks.note(mutation);
    }

    fn earlier_work(&self, mutation: MutationId) -> EarlierWork {
        self.locks.work(mutation)
    }

    fn forget_work(&self, mutation: MutationId) {
        self.locks.forget(mutation);
    }

    async fn check(&self, request: CheckRequest) -> Result<CheckedInputs, Failure> {
        let inputs = checked_inputs(&KIND, &request, |inputs, problems| {
            if !request.unknown.contains("shell") {
                problems.extend(malformed_commands(inputs));
            }
            problems.extend(invalid_names(inputs));
        });
        inputs.map(CheckedInputs::new)
    }

    async fn diff(&self, request: DiffRequest) -> Result<Diff, Failure> {
        Ok(diff(&request))
    }

    async fn create(&self, request: CreateRequest) -> Result<Object, Failure> {
        let CreateRequest { inputs, mutation, .. } = &request;
        let subject = Subject {
            mutation: Some(*mutation),
            ..Subject::default()
        };
        let call = Call::new(&self.folder, inputs, &subject, &request.context);
        let outcome = call.change("create", &self.locks, *mutation).await;
        let own_id = mutation.to_string();
        match outcome {
            Outcome::Done(command_object) => command_object.object(inputs, &own_id, &Properties::empty()),
            Outcome::NotDone(reason) => Err(Failure::not_done(reason)),
            Outcome::Missing(reason) | Outcome::Failed(reason) if inputs.get("read").is_none() => {
                let outputs = marked_unfinished(&Properties::empty(), "create");
                Err(Failure::partial(
                    command_object(&outputs, inputs, &own_id),
                    reason,
                ))
            }
            Outcome::Missing(reason) | Outcome::Failed(reason) => match self.inspect(&call, &subject).await {
                Ok(ReadResult::Object(mut object)) => {
                    // The create stopped halfway, and without `update` it can't be completed.
                    if inputs.get("update").is_none() {
                        object.outputs = marked_unfinished(&object.outputs, "create");
                    }
                    Err(Failure::partial(object, reason))
                }
                Ok(ReadResult::Missing) => Err(Failure::not_done(reason)),
                _ => Err(Failure::unknown(reason)),
            },
        }
    }

    async fn read(&self, request: ReadRequest) -> Result<ReadResult, Failure> {
        let subject = Subject {
            id: request.id.clone(),
            outputs: request.outputs.clone(),
            mutation: request.mutation,
        };
        let call = Call::new(&self.folder, &request.inputs, &subject, &request.context);
        let found = self.inspect(&call, &subject).await?;
        Ok(match found {
            ReadResult::Object(object) if request.id.is_none() && request.others.contains(&object.id) => {
                ReadResult::Missing
            }
            // `read` confirms the object of a create with an unknown outcome. Without `update`, the only way to make sure
            // that the create was complete would be to delete an object that works: it is kept as requested.
            ReadResult::Object(object) if request.id.is_none() && request.inputs.get("update").is_none() => {
                ReadResult::Object(Object {
                    inputs: Some(request.inputs),
                    ..object
                })
            }
            found => found,
        })
    }

    async fn update(&self, request: UpdateRequest) -> Result<Object, Failure> {
        let UpdateRequest {
            inputs,
            old_inputs,
            old_outputs,
            ..
        } = &request;
        let id = request.id.clone().unwrap_or_default();
        let changed = Diff::of_inputs(old_inputs, inputs);
        let changes_only_marks = !changed.is_empty() && changed.iter().all(|name| MARKS.contains(&&**name));
        // No command needs to run if only the marks of secret outputs changed.
        if changes_only_marks && !is_unfinished(old_outputs, "update") {
            return Ok(command_object(old_outputs, inputs, &id));
        }
        let subject = Subject {
            id: request.id.clone(),
            outputs: old_outputs.clone(),
            mutation: None,
        };
        let call = Call::new(&self.folder, inputs, &subject, &request.context);
        match call.change("update", &self.locks, request.mutation).await {
            Outcome::Done(command_object) => command_object.object(inputs, &id, &without_marker(old_outputs)),
            Outcome::NotDone(reason) => Err(Failure::not_done(reason)),
            Outcome::Missing(reason) | Outcome::Failed(reason) => {
                let outputs = marked_unfinished(old_outputs, "update");
                Err(Failure::partial(command_object(&outputs, inputs, &id), reason))
            }
        }
    }

    async fn delete(&self, request: DeleteRequest) -> Result<(), Failure> {
        if request.inputs.get("delete").is_none() {
            return Ok(());
        }
        let subject = Subject {
            id: request.id.clone(),
            outputs: request.outputs.clone(),
            mutation: None,
        };
        let call = Call::new(&self.folder, &request.inputs, &subject, &request.context);
        match call.change("delete", &self.locks, request.mutation).await {
            Outcome::Done(_) | Outcome::Missing(_) => Ok(()),
            Outcome::NotDone(reason) => Err(Failure::not_done(reason)),
            Outcome::Failed(reason) => match self.inspect(&call, &subject).await {
                Ok(ReadResult::Missing) => Ok(()),
                Ok(ReadResult::Object(_)) => Err(Failure::not_done(reason)),
                _ => Err(Failure::unknown(reason)),
            },
        }
    }
}

impl Commands {
    /// Reads the object with the `read` command. Without a `read` command, returns the recorded object, or
    /// `Indeterminate` if no object is recorded.
    async fn inspect(&self, call: &Call<'_>, subject: &Subject) -> Result<ReadResult, Failure> {
        let inputs = call.inputs;
        if inputs.get("read").is_none() {
            return Ok(match &subject.id {
                Some(id) => ReadResult::Object(command_object(&subject.outputs, inputs, id)),
                None => ReadResult::Indeterminate,
            });
        }
        let own_id = subject.id.clone();
        let own_id = own_id.or(subject.mutation.as_ref().map(MutationId::to_string));
        match call.run("read").await {
            Outcome::Done(command_object) => {
                let object = command_object.object(inputs, &own_id.unwrap_or_default(), &subject.outputs);
                // A read changes nothing, so any failure counts as not done.
                let mut object = object.map_err(|failure| Failure::NotDone(failure.reasons().to_vec()))?;
                if let Some(what) = text(&subject.outputs, UNFINISHED) {
                    object.outputs = marked_unfinished(&object.outputs, &what);
                }
                Ok(ReadResult::Object(object))
            }
            Outcome::Missing(_) => Ok(ReadResult::Missing),
            Outcome::NotDone(_) if subject.id.is_none() => Ok(ReadResult::Indeterminate),
            Outcome::NotDone(reason) | Outcome::Failed(reason) => Err(Failure::not_done(reason)),
        }
    }
}

/// Returns the outputs without the output `unfinished`.
fn without_marker(outputs: &Properties) -> Properties {
    let mut outputs = members(outputs);
    outputs.remove(UNFINISHED);
    properties(&outputs)
}

fn diff(request: &DiffRequest) -> Diff {
    let DiffRequest {
        old_inputs,
        old_outputs,
        inputs,
        unknown,
        ..
    } = request;
    let mut differs = Diff::of_inputs(old_inputs, inputs);
    differs.extend(unknown.iter().cloned());
    let mut diff = Diff::changed(differs.iter().filter(|name| MARKS.contains(&&***name)).cloned());
    let work = differs.iter().filter(|name| WORK.contains(&&***name));
    let work: BTreeSet<String> = work.cloned().collect();
    let can_update = inputs.get("update").is_some() || unknown.contains("update");
    let mut runs = !work.is_empty();
    if !can_update {
        diff.replace.extend(work.iter().cloned());
    }
    diff.changed.extend(work);
    if differs.contains("triggers") {
        diff.replace.insert("triggers".to_owned());
    }
    if is_unfinished(old_outputs, "create") {
        diff.replace.insert("create".to_owned());
        diff.delete_before_replace = true;
    }
    if is_unfinished(old_outputs, "update") {
        runs = true;
        match can_update {
            true => diff.changed.insert("update".to_owned()),
            false => diff.replace.insert("update".to_owned()),
        };
    }
    diff.changed.extend(diff.replace.iter().cloned());
    // The output of a command that will run is unknown.
    let outputs = members(old_outputs).into_keys().filter(|_| runs);
    diff.changed_outputs = Some(outputs.collect());
    diff
}

/// Problems of the commands: an empty command, and a list or string that contradicts the input `shell`.
fn malformed_commands(inputs: &Properties) -> Vec<String> {
    let is_shell = flag(inputs, "shell");
    let mut problems = Vec::new();
    for name in COMMANDS {
        let Some(command) = inputs.get(name) else { continue };
        let is_empty = match command.kind() {
            Kind::String => command.as_str().is_some_and(|text| text.trim().is_empty()),
            _ => {
                let program = command.elements().and_then(|mut parts| parts.next());
                program.is_none_or(|program| program.as_str().is_some_and(|text| text.is_empty()))
            }
        };
        match (command.kind(), is_shell) {
            (Kind::String | Kind::Array, _) if is_empty => problems.push(format!("`{name}` is empty")),
            (Kind::String, false) => problems.push(format!(
                "`{name}` must be a list of a program and its arguments; set `shell: true` to use a string"
            )),
            (Kind::Array, true) => {
                problems.push(format!("`{name}` must be a string, because `shell` is `true`"));
            }
            _ => {}
        }
    }
    problems
}

/// Problems of the names of environment variables, and an empty `dir`.
fn invalid_names(inputs: &Properties) -> Vec<String> {
    let variables = inputs.get("environment").and_then(|map| map.members());
    let names = variables.into_iter().flatten().map(|(name, _)| name);
    let wrong = names.filter_map(|name| match &*name {
        "" => Some("`environment` contains a variable with an empty name".to_owned()),
        name if name.contains(['=', '\0']) => Some(format!(
            "`environment` can't have the variable `{}`",
            name.escape_debug()
        )),
        name if name.starts_with("STATE_") => Some(format!(
            "`environment` can't have the variable `{name}`: the prefix `STATE_` is reserved"
        )),
        _ => None,
    });
    let mut problems: Vec<String> = wrong.collect();
    if text(inputs, "dir").is_some_and(|dir| dir.is_empty()) {
        problems.push("`dir` is empty".to_owned());
    }
    problems
}
