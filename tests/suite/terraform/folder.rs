//! A working folder of Terraform, whose state is a stack of a store.

use crate::process::WORKER;
use rustix::process::{Pid, Signal, kill_process};
use state_core::testkit::run::skip;
use state_tests::clients::{self, Client};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A resource, an output with a secret, and a variable that changes both.
const CONFIGURATION: &str = r#"
terraform {
  backend "http" {}
}
variable "release" { default = "one" }
resource "terraform_data" "db" { input = "db" }
resource "terraform_data" "web" { input = "${var.release} on ${terraform_data.db.id}" }
output "release" { value = terraform_data.web.output }
output "password" {
  value     = "canary-${var.release}"
  sensitive = true
}
"#;

/// A resource whose creation lasts until the file `go` exists.
pub(super) const SLOW: &str = r#"
resource "terraform_data" "slow" {
  provisioner "local-exec" {
    command = "touch started; i=0; until [ -f go ] || [ $i = 600 ]; do sleep 0.05; i=$((i+1)); done"
  }
}
"#;

/// Number of the next unique store in this process.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// A working folder, a home folder and the URL of a store.
pub(super) struct WorkFolder {
    client: Client,
    folder: TempDir,
    store: String,
}

/// The exit code and output of a command.
#[derive(Debug)]
pub(super) struct CommandOutput {
    pub(super) code: i32,
    pub(super) out: String,
    pub(super) err: String,
}

impl CommandOutput {
    fn of(output: &Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Asserts that the command exited with this code.
    #[track_caller]
    pub(super) fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:#?}");
        self
    }

    /// Asserts that stderr contains this text, whatever the terminal's width and frame.
    #[track_caller]
    pub(super) fn reports(self, text: &str) -> Self {
        let words = self.err.replace('│', " ");
        let words: Vec<&str> = words.split_whitespace().collect();
        assert!(words.join(" ").contains(text), "`{text}`: {self:#?}");
        self
    }
}

impl WorkFolder {
    /// A new folder for each installed client and each store: one in files, and one on a server if it runs.
    pub(super) fn all(untested: &str) -> Vec<Self> {
        let clients = clients::terraforms(untested);
        let server = std::env::var("STATE_TEST_S3_URL")
            .ok()
            .filter(|url| !url.is_empty());
        if server.is_none() {
            skip("STATE_TEST_S3_URL", "Terraform's backend on a real object store");
        }
        let mut folders = Vec::new();
        for client in clients {
            folders.push(Self::new(client.clone(), None));
            folders.extend(server.as_ref().map(|url| Self::new(client.clone(), Some(url))));
        }
        folders
    }

    fn new(client: Client, server: Option<&String>) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let store = match server {
            None => format!("file://{}", folder.path().join("store").display()),
            Some(url) => {
                let number = NEXT.fetch_add(1, Ordering::Relaxed);
                let (bucket, query) = url.split_once('?').unwrap_or((url, ""));
                format!("{bucket}/terraform-{}-{number}?{query}", std::process::id())
            }
        };
        let new = Self {
            client,
            folder,
            store,
        };
        for name in ["home", "work"] {
            std::fs::create_dir(new.folder.path().join(name)).expect("a folder");
        }
        new.write("main.tf", CONFIGURATION);
        new
    }

    /// The client and the kind of the store, for messages.
    pub(super) fn name(&self) -> String {
        let kind = self.store.split(':').next().unwrap_or_default();
        format!("{} on {kind}", self.client.name)
    }

    /// The folder in which Terraform works.
    pub(super) fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// Writes a file of the working folder.
    pub(super) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.work().join(name), text).expect("a file is written");
    }

    /// A command in the working folder, without the settings of the user who runs the test.
    fn clean(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        for (name, _) in std::env::vars() {
            if ["STATECTL_", "TF_", "XDG_"]
                .iter()
                .any(|prefix| name.starts_with(prefix))
            {
                command.env_remove(name);
            }
        }
        command
            .env("HOME", self.folder.path().join("home"))
            .env("USER", "tess")
            .env("STATECTL_BACKEND", &self.store)
            .env("CHECKPOINT_DISABLE", "1")
            .env("TF_IN_AUTOMATION", "1")
            .current_dir(self.work())
            .stdin(Stdio::null());
        command
    }

    /// A command that runs `statectl` with these arguments.
    pub(super) fn statectl_command(&self, arguments: &[&str]) -> Command {
        let mut command = self.clean(Path::new(WORKER));
        command.arg("cli").args(arguments);
        command
    }

    /// Runs `statectl` with these arguments.
    pub(super) fn statectl(&self, arguments: &[&str]) -> CommandOutput {
        finished(&mut self.statectl_command(arguments))
    }

    /// A command that runs the client with these arguments, without `statectl`.
    pub(super) fn client_command(&self, arguments: &[&str]) -> Command {
        let mut command = self.clean(&self.client.program);
        command.args(arguments);
        command
    }

    /// A command that runs the client under `statectl run`.
    pub(super) fn run_command(&self, arguments: &[&str]) -> Command {
        let program = self.client.program.to_str().expect("a path in UTF-8");
        self.statectl_command(&[&["run", "--", program], arguments].concat())
    }

    /// Runs the client under `statectl run`.
    pub(super) fn run(&self, arguments: &[&str]) -> CommandOutput {
        finished(&mut self.run_command(arguments))
    }

    /// Applies the configuration for a release.
    pub(super) fn apply(&self, release: &str) -> CommandOutput {
        let release = format!("release={release}");
        self.run(&["apply", "-auto-approve", "-no-color", "-var", &release])
    }

    /// Plans for a release. The exit code is 0 without changes and 2 with changes.
    pub(super) fn plan(&self, release: &str) -> CommandOutput {
        let release = format!("release={release}");
        self.run(&["plan", "-detailed-exitcode", "-no-color", "-var", &release])
    }

    /// Prepares the working folder for the backend.
    pub(super) fn init(&self) {
        self.run(&["init", "-no-color"]).exits(0);
    }

    /// The state as `statectl` exports it.
    pub(super) fn exported(&self) -> String {
        self.statectl(&["export", "--show-secrets"]).exits(0).out
    }

    /// Starts a command, and waits until the slow resource is being created.
    pub(super) fn started(&self, command: &mut Command) -> Child {
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let child = child.expect("the command starts");
        wait_for("the slow resource", || self.work().join("started").exists());
        child
    }

    /// Lets the creation of the slow resource end.
    pub(super) fn go(&self) {
        self.write("go", "");
    }

    /// Whether a text occurs in a file of the store, if the store is in files.
    pub(super) fn store_contains(&self, text: &str) -> bool {
        let Some(folder) = self.store.strip_prefix("file://") else {
            return false;
        };
        contains(Path::new(folder), text.as_bytes())
    }
}

fn contains(folder: &Path, text: &[u8]) -> bool {
    let files = std::fs::read_dir(folder).expect("a folder of the store");
    files.map(|file| file.expect("a file").path()).any(|path| {
        if path.is_dir() {
            return contains(&path, text);
        }
        let bytes = std::fs::read(&path).expect("a file of the store");
        bytes.windows(text.len()).any(|window| window == text)
    })
}

/// Runs a command to its end.
pub(super) fn finished(command: &mut Command) -> CommandOutput {
    CommandOutput::of(&command.output().expect("the command runs"))
}

/// Waits for the end of a command that was started.
pub(super) fn ended(child: Child) -> CommandOutput {
    CommandOutput::of(&child.wait_with_output().expect("the command ends"))
}

/// Waits for at most a minute.
#[expect(clippy::disallowed_methods, reason = "the test waits for a process")]
pub(super) fn wait_for(what: &str, is_done: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_done() {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "no {what} within a minute"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The process ids of the children of a process.
pub(super) fn children(pid: u32) -> Vec<u32> {
    let path = format!("/proc/{pid}/task");
    let tasks = std::fs::read_dir(path).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    let ids = lists.flat_map(|list| {
        let ids = list.split_whitespace().filter_map(|id| id.parse().ok());
        ids.collect::<Vec<u32>>()
    });
    ids.collect()
}

/// Sends a signal to a process.
pub(super) fn send(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid)
        .ok()
        .and_then(Pid::from_raw)
        .expect("a process id");
    kill_process(pid, signal).expect("the process gets the signal");
}
