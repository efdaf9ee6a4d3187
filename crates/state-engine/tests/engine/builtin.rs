//! Tests of the built-in providers with real files, directories and processes.

mod approvals;
mod commands;
mod directories;
mod durable;
mod files;
mod identity;
mod lost;
mod processes;
mod randoms;

use state_core::head::SealingPolicy;
use state_core::{Address, EntryKey, LogLevel, MemoryBackend, Properties, SharedEntry, StackName};
use state_engine::builtin::registry_with_locks;
use state_engine::{Basis, CommandApprovals, Engine, state_core};
use state_engine::{DeclaredResource, Event, Goal, Interrupt, ListSource, Operation, Report, Run, StepOp};
use state_manager::{Actor, Environment, Stack, Stacks};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

/// A working directory and a stack in memory.
struct ProviderHarness {
    folder: TempDir,
    /// Locks of running commands.
    locks: TempDir,
    engine: Engine,
    stack: Stack,
    name: StackName,
    environment: Environment,
    /// Commands that the programs of earlier runs declared, as a client remembers them.
    approvals: CommandApprovals,
    /// All events of all runs, as text.
    messages: Arc<Mutex<Vec<String>>>,
}

fn goal(name: &str, kind: &str, inputs: &str) -> Goal {
    let mut goal = Goal::new(address(name), kind);
    goal.inputs = Properties::new(state_core::Json::parse(inputs).unwrap()).unwrap();
    goal
}

/// A command resource that uses the shell, from pairs of an input and its value.
fn shell(inputs: &[(&str, &str)]) -> Goal {
    let members = inputs.iter().map(|(name, text)| {
        let text = state_core::Json::from_string(text);
        format!(r#","{name}":{}"#, text.as_str())
    });
    let members: String = members.collect();
    goal("job", "command", &format!(r#"{{"shell":true{members}}}"#))
}

fn address(name: &str) -> Address {
    name.parse().unwrap()
}

fn after(mut goal: Goal, needs: &str) -> Goal {
    goal.options.depends_on.push(address(needs));
    goal
}

impl ProviderHarness {
    async fn new() -> Self {
        let environment = Environment::system(Actor::default());
        let stacks = Stacks::new(Arc::new(MemoryBackend::default()), environment.clone());
        let name: StackName = "shop/production".parse().unwrap();
        let stack = stacks
            .new_stack_with(&name, SealingPolicy::Plaintext)
            .await
            .unwrap();
        Self {
            folder: tempfile::tempdir().unwrap(),
            locks: tempfile::tempdir().unwrap(),
            engine: Engine::new(stacks, environment.clone()),
            stack,
            name,
            environment,
            approvals: CommandApprovals::default(),
            messages: Arc::default(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The absolute path as text, as it is used in ids and outputs.
    fn id(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    fn put(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), content).unwrap();
    }

    fn text(&self, name: &str) -> String {
        file_text(self.folder.path(), name)
    }

    /// Sorted names of the files and directories in the working directory.
    fn names(&self) -> Vec<String> {
        names(self.folder.path())
    }

    fn default_run(&self) -> Run {
        let folder = self.folder.path();
        let mut run = Run::new(registry_with_locks(&self.environment, folder, self.locks.path()));
        run.approvals = self.approvals.clone();
        let messages = Arc::clone(&self.messages);
        run.observer = Arc::new(move |event: &Event| {
            let text = match event {
                Event::Log(line) => format!("{}: {}", line.level, line.message),
                event => format!("{event:?}"),
            };
            messages.lock().unwrap().push(text);
        });
        run
    }

    async fn run(&self, operation: Operation, run: Run) -> Report {
        self.engine.run(&self.name, operation, run).await.unwrap()
    }

    async fn up(&self, goals: &[Goal]) -> Report {
        self.run(update(goals), self.default_run()).await
    }

    /// Runs an update that must succeed.
    async fn done(&self, goals: &[Goal]) -> Report {
        let report = self.up(goals).await;
        assert!(report.succeeded(), "{report:?}");
        report
    }

    async fn preview(&self, goals: &[Goal]) -> Report {
        let basis = Basis::tip(&self.stack).await.unwrap();
        let plan = self.engine.plan(basis, update(goals), self.default_run()).await;
        plan.unwrap().into_report()
    }

    async fn refresh(&self) -> Report {
        self.run(Operation::Refresh, self.default_run()).await
    }

    async fn destroy(&self) -> Report {
        self.run(Operation::Destroy, self.default_run()).await
    }

    /// Runs an update and interrupts it twice as soon as `is_so` returns true. The second interrupt ends calls in
    /// flight.
    async fn leave_when(&self, goals: &[Goal], is_so: impl Fn() -> bool) -> Report {
        let run = self.default_run();
        let interrupt: Interrupt = run.interrupt.clone();
        let leave = async {
            while !is_so() {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
            interrupt.request();
            interrupt.request();
        };
        let (report, ()) = tokio::join!(self.run(update(goals), run), leave);
        report
    }

    async fn entry(&self, name: &str) -> Option<SharedEntry> {
        let key = EntryKey::live(address(name));
        self.stack.tip().await.unwrap().state.entry(&key).cloned()
    }

    /// A recorded output as JSON.
    async fn output(&self, name: &str, output: &str) -> Option<String> {
        let entry = self.entry(name).await?;
        let outputs = entry.outputs.clone()?;
        outputs.get(output).map(|value| value.text().to_owned())
    }

    fn messages(&self) -> Vec<String> {
        self.messages.lock().unwrap().clone()
    }

    fn has_message(&self, level: LogLevel, what: &str) -> bool {
        let level = format!("{level}: ");
        self.messages()
            .iter()
            .any(|line| line.starts_with(&level) && line.contains(what))
    }
}

fn update(goals: &[Goal]) -> Operation {
    let declared = goals.iter().cloned().map(DeclaredResource::known).collect();
    Operation::Update(Box::new(ListSource::new(declared).unwrap()))
}

fn file_text(folder: &Path, name: &str) -> String {
    std::fs::read_to_string(folder.join(name)).unwrap()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// The operations of the steps that changed something.
fn ops(report: &Report) -> Vec<StepOp> {
    report
        .steps
        .iter()
        .filter(|step| step.is_change())
        .map(|step| step.op)
        .collect()
}

/// The failure reasons of a run. Asserts that the run failed and left no operation pending.
fn refusals(report: &Report) -> String {
    assert!(!report.succeeded(), "{report:?}");
    assert!(report.pending.is_empty(), "{report:?}");
    let reasons = report.failures.iter().flat_map(|failure| failure.reasons.clone());
    reasons.collect::<Vec<String>>().join("\n")
}
