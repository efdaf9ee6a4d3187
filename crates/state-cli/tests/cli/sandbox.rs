//! A temporary folder for a test, and runs of `statectl` in it.

use serde_json::Value;
use state_manager::{Actor, Environment, Stack, Stacks};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// Returns the path of a Terraform state in the fixtures of the workspace.
pub(crate) fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/fixtures")
        .join(name)
}

/// Output and exit code of a run.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl CommandOutput {
    /// Asserts the exit code of the run.
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:#?}");
        self
    }

    /// Returns the only JSON document on stdout, after checking it against its schema. Asserts that stderr is empty.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.stderr, "", "{self:#?}");
        let document: Value =
            serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:#?}"));
        let objections = crate::schemas::objections(&document);
        assert!(objections.is_empty(), "{objections:#?}: {self:#?}");
        document
    }

    /// Returns the data of the JSON document on stdout. Asserts that the document has this kind.
    #[track_caller]
    pub(crate) fn data(&self, kind: &str) -> Value {
        let mut document = self.json();
        assert_eq!(document["kind"], kind, "{self:#?}");
        assert_eq!(document["format-version"], 1);
        document["data"].take()
    }
}

/// A folder that is deleted when the test ends.
#[derive(Debug)]
pub(crate) struct Sandbox {
    folder: TempDir,
}

impl Sandbox {
    /// Creates a sandbox with an empty folder.
    pub(crate) fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    /// Creates a sandbox with an empty folder in another folder.
    pub(crate) fn below(folder: &Path) -> Self {
        Self {
            folder: tempfile::tempdir_in(folder).unwrap(),
        }
    }

    /// Creates a sandbox with a store whose stack `default` has the fixture `shop`.
    pub(crate) fn with_shop() -> Self {
        let sandbox = Self::new();
        sandbox.import("shop.tfstate").exits(0);
        sandbox
    }

    /// Returns the path of the sandbox folder.
    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a file into the folder.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    /// Returns a command that runs `statectl` without a terminal, without the settings of the user who runs the test,
    /// and with new stacks in plaintext.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_statectl"));
        command
            .args(arguments)
            .current_dir(self.path())
            .stdin(Stdio::null())
            .env("XDG_CONFIG_HOME", self.path().join("user-config"))
            .env("XDG_STATE_HOME", self.path().join("user-state"))
            // Most tests are easier to read with a store in plaintext.
            .env("STATECTL_POLICY", "plaintext");
        for name in [
            "STATECTL_BACKEND",
            "STATECTL_STACK",
            "STATECTL_IDENTITY",
            "STATECTL_PASSPHRASE",
            "STATECTL_AGE_PLUGINS",
            "STATECTL_AGE_PLUGIN_TIMEOUT",
            "STATECTL_IMPORT_PASSPHRASE",
            "STATECTL_LOCK_ID",
            "STATECTL_EXPECT_KEY",
            "STATECTL_EXPECT_REVISION",
            "STATECTL_PROFILE",
            "STATECTL_LOCK_TIMEOUT",
            "NO_COLOR",
            "CLICOLOR_FORCE",
        ] {
            command.env_remove(name);
        }
        command
    }

    /// Like [`Sandbox::command`], but new stacks are sealed.
    pub(crate) fn sealing(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(arguments);
        command.env("STATECTL_POLICY", "sensitive");
        command
    }

    /// Runs `statectl` with these arguments.
    pub(crate) fn run(&self, arguments: &[&str]) -> CommandOutput {
        run(&mut self.command(arguments))
    }

    /// Runs `statectl import` on a fixture.
    pub(crate) fn import(&self, name: &str) -> CommandOutput {
        self.run(&["import", fixture(name).to_str().unwrap()])
    }

    /// Returns the history of the stack, newest revision first.
    pub(crate) fn history(&self) -> Vec<Value> {
        let ran = self.run(&["history", "--json"]);
        assert_eq!(ran.stderr, "", "{ran:#?}");
        let lines = ran.stdout.lines();
        lines
            .map(|line| {
                let mut line: Value = serde_json::from_str(line).unwrap();
                assert_eq!(line["kind"], "history", "{line}");
                assert_eq!(line["format-version"], 1);
                line["data"].take()
            })
            .collect()
    }

    /// Runs `work` on the stack `default` in this process, as the user `ana` on the host `ci-17`.
    pub(crate) fn on_stack<T>(&self, work: impl AsyncFnOnce(Stack) -> T) -> T {
        let url = format!("file://{}", self.path().join(".state").display());
        let actor = Actor {
            who: "ana".to_owned(),
            host: "ci-17".to_owned(),
            pid: 4711,
        };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let stacks = Stacks::open(&url, Environment::system(actor)).unwrap();
            let stack = stacks.get(&"default".parse().unwrap()).await.unwrap().unwrap();
            work(stack).await
        })
    }
}

/// `statectl` of a user with settings, an identity and known stacks of their own, whose new stacks are sealed.
pub(crate) fn user(sandbox: &Sandbox, who: &str, arguments: &[&str]) -> Command {
    let mut command = sandbox.sealing(arguments);
    let settings = sandbox.path().join(who);
    command
        .env("XDG_STATE_HOME", settings.join("seen"))
        .env("XDG_CONFIG_HOME", settings);
    command
}

/// Runs the command of [`user`] and collects its output.
pub(crate) fn as_user(sandbox: &Sandbox, who: &str, arguments: &[&str]) -> CommandOutput {
    run(&mut user(sandbox, who, arguments))
}

/// A sandbox with the fixture `shop` in a sealed stack, imported by the user `anna`.
pub(crate) fn sealed_shop() -> Sandbox {
    let sandbox = Sandbox::new();
    let shop = fixture("shop.tfstate");
    as_user(&sandbox, "anna", &["import", shop.to_str().unwrap()]).exits(0);
    sandbox
}

/// A prepared command, started by another program with these arguments before its own.
pub(crate) fn started_by(starter: &[&str], command: &Command) -> Command {
    let mut started = Command::new(starter[0]);
    started
        .args(&starter[1..])
        .arg(command.get_program())
        .args(command.get_args());
    if let Some(folder) = command.get_current_dir() {
        started.current_dir(folder);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => started.env(name, value),
            None => started.env_remove(name),
        };
    }
    started
}

/// Starts a program with the default reaction to SIGHUP, which the tests may have inherited as ignored.
pub(crate) const WITH_HANGUP: [&str; 2] = ["env", "--default-signal=HUP"];

/// Runs a prepared command and collects its output.
pub(crate) fn run(command: &mut Command) -> CommandOutput {
    let output = command.output().unwrap();
    CommandOutput {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}
