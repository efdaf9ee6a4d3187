//! One call of a command: builds the environment of the process and interprets the exit code.

use super::lock::{CommandLock, CommandLocks};
use super::outcome::{CommandResult, Outcome};
use super::process::{Process, ProcessExit, Redactor};
use crate::approval::ResourceCommand;
use crate::builtin::members::{flag, members, text, texts, value};
use crate::log::Logger;
use crate::provider::CallContext;
use state_core::json::View;
use state_core::{LogLevel, MutationId, Properties};
use std::path::{Path, PathBuf};

/// Exit code for a missing object (`EX_NOINPUT`).
const MISSING: i32 = 66;

/// Exit code for "nothing was done, try again" (`EX_TEMPFAIL`).
const NOTHING_DONE: i32 = 75;

/// Maximum size of JSON in an environment variable. Linux allows 128 KiB.
const MAX_VARIABLE_BYTES: usize = 100_000;

/// The object that a command works on.
#[derive(Default)]
pub(super) struct Subject {
    /// The recorded id. `None` for a create, and for a read after a create with an unknown outcome.
    pub(super) id: Option<String>,
    /// The recorded outputs; empty without an id.
    pub(super) outputs: Properties,
    /// Id of the create that the command executes, or of the create with an unknown outcome that it investigates.
    pub(super) mutation: Option<MutationId>,
}

/// The commands of a resource with their environment.
pub(super) struct Call<'a> {
    pub(super) inputs: &'a Properties,
    dir: PathBuf,
    variables: Vec<(String, String)>,
    /// Replaces secrets in the lines that a command logs.
    hidden: Redactor,
    log: &'a Logger,
}

impl<'a> Call<'a> {
    pub(super) fn new(
        folder: &Path,
        inputs: &'a Properties,
        subject: &Subject,
        context: &'a CallContext,
    ) -> Self {
        let log = &context.log;
        let dir = directory(folder, inputs);
        let own = environment(inputs);
        let mut hidden = Redactor::default();
        own.iter().for_each(|(_, value)| hidden.add(value));
        hidden.add(&text(inputs, "stdin").unwrap_or_default());
        let secrets = secret_outputs(inputs, &subject.outputs);
        secrets.iter().for_each(|secret| hidden.add(secret));
        let mut variables = own;
        let mut add_json = |name: &str, json: &Properties| {
            let json = json.json().as_str();
            if json.len() <= MAX_VARIABLE_BYTES {
                variables.push((name.to_owned(), json.to_owned()));
            } else {
                let what = format!(
                    "environment variable {name} is omitted: it has more than {MAX_VARIABLE_BYTES} bytes"
                );
                log.emit(LogLevel::Warning, what);
            }
        };
        add_json("STATE_INPUTS", inputs);
        if let Some(id) = &subject.id {
            add_json("STATE_OUTPUTS", &subject.outputs);
            variables.push(("STATE_ID".to_owned(), id.clone()));
        }
        if let Some(mutation) = &subject.mutation {
            variables.push(("STATE_MUTATION".to_owned(), mutation.to_string()));
        }
        Self {
            inputs,
            dir,
            variables,
            hidden,
            log,
        }
    }

    /// Runs a command that changes the object, until it exits. The command holds the lock of its mutation.
    pub(super) async fn change(
        &self,
        name: &'static str,
        locks: &CommandLocks,
        mutation: MutationId,
    ) -> Outcome {
        match locks.take(mutation) {
            Ok(lock) => self.run_with(name, lock).await,
            Err(error) => {
                // Without its file, the next run doesn't take the command for one that ended.
                locks.forget(mutation);
                let warning = format!(
                    "`{name}` runs without a lock: if this process is killed, the next run doesn't know whether `{name}` still \
                     runs: {error}"
                );
                self.log.emit(LogLevel::Warning, warning);
                self.run_with(name, None).await
            }
        }
    }

    /// Runs a command that changes nothing, until it exits.
    pub(super) async fn run(&self, name: &'static str) -> Outcome {
        self.run_with(name, None).await
    }

    async fn run_with(&self, name: &'static str, lock: Option<CommandLock>) -> Outcome {
        let argv = argv(self.inputs, name);
        let mut variables = self.variables.clone();
        variables.push(("STATE_OP".to_owned(), name.to_owned()));
        let process = Process {
            argv: &argv,
            dir: &self.dir,
            variables: &variables,
            stdin: stdin(self.inputs, name),
            hidden: &self.hidden,
            log: self.log,
            lock,
        };
        match process.run().await {
            Err(reason) => Outcome::NotDone(format!("`{name}` can't be started: {reason}")),
            Ok(ProcessExit {
                code,
                description,
                printed,
            }) => match code {
                Some(0) => Outcome::Done(CommandResult {
                    printed,
                    command: name,
                }),
                Some(MISSING) => Outcome::Missing(format!(
                    "`{name}` reports that the object doesn't exist (exit code {MISSING})"
                )),
                Some(NOTHING_DONE) => Outcome::NotDone(format!(
                    "`{name}` reports that nothing was done (exit code {NOTHING_DONE})"
                )),
                _ => Outcome::Failed(format!("`{name}` failed: {description}")),
            },
        }
    }
}

/// Describes the command that [`Call::run`] would start, so that the engine can check its approval.
pub(super) fn resource_command(folder: &Path, inputs: &Properties, name: &'static str) -> ResourceCommand {
    ResourceCommand {
        name,
        argv: argv(inputs, name),
        dir: directory(folder, inputs),
        environment: environment(inputs),
        stdin: stdin(inputs, name),
    }
}

fn argv(inputs: &Properties, name: &str) -> Vec<String> {
    match flag(inputs, "shell") {
        true => {
            let script = text(inputs, name).unwrap_or_default();
            vec!["sh".to_owned(), "-c".to_owned(), script]
        }
        false => texts(inputs, name),
    }
}

fn directory(folder: &Path, inputs: &Properties) -> PathBuf {
    text(inputs, "dir").map_or_else(|| folder.to_owned(), |dir| folder.join(dir))
}

fn stdin(inputs: &Properties, name: &str) -> Option<String> {
    let is_fed = matches!(name, "create" | "update");
    text(inputs, "stdin").filter(|_| is_fed)
}

fn environment(inputs: &Properties) -> Vec<(String, String)> {
    let map = value(inputs, "environment").and_then(Properties::new);
    let variables = members(&map.unwrap_or_default()).into_iter();
    variables
        .filter_map(|(name, value)| Some((name, value.view().as_str()?.into_owned())))
        .collect()
}

/// All strings in the outputs that the inputs mark as secret. A mark is the name of an output or a JSON pointer into
/// it.
fn secret_outputs(inputs: &Properties, outputs: &Properties) -> Vec<String> {
    let named = texts(inputs, "sensitive_outputs");
    let is_secret = |name: &str| {
        let is_named =
            |mark: &String| mark == name || mark.trim_start_matches('/').split('/').next() == Some(name);
        flag(inputs, "sensitive") || named.iter().any(is_named)
    };
    let all = members(outputs);
    let mut found = Vec::new();
    for (_, value) in all.iter().filter(|(name, _)| is_secret(name)) {
        let mut open: Vec<View<'_>> = vec![value.view()];
        while let Some(view) = open.pop() {
            open.extend(view.elements().into_iter().flatten());
            open.extend(view.members().into_iter().flatten().map(|(_, value)| value));
            found.extend(view.as_str().map(|text| text.into_owned()));
        }
    }
    found
}
