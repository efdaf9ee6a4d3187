//! A folder with a store, a home and a working folder, which is put back to its beginning before each run of a command.

use super::rows::{Policy, Row};
use super::scenes::{self, CANARY, Scene};
use crate::crash::strace;
use crate::process::WORKER;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// The end of a process.
#[derive(Debug)]
pub(super) struct Ended {
    /// The exit code; `None` after a signal.
    pub(super) code: Option<i32>,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

impl Ended {
    /// Returns the end of a process with this output. The last line of a worker, which reports its memory, is omitted.
    pub(super) fn of(output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let stderr = text(&output.stderr);
        let stderr = stderr.lines().filter(|line| !line.starts_with("VmHWM:"));
        Self {
            code: output.status.code(),
            stdout: text(&output.stdout),
            stderr: stderr.map(|line| format!("{line}\n")).collect(),
        }
    }
}

/// The folder of one thread.
pub(super) struct Bench {
    root: TempDir,
    /// The scenes that were made in this folder. A client remembers stores by their paths, so that another thread can't
    /// use them.
    scenes: BTreeMap<(Scene, Policy), TempDir>,
    /// The content of the folder before the command of the present row.
    start: TempDir,
    policy: Policy,
}

impl Bench {
    pub(super) fn new() -> Self {
        Self {
            root: tempfile::tempdir().expect("a folder"),
            scenes: BTreeMap::new(),
            start: tempfile::tempdir().expect("a folder"),
            policy: Policy::Plain,
        }
    }

    /// The folder with the store, the home and the working folder.
    pub(super) fn root(&self) -> &Path {
        self.root.path()
    }

    fn home(&self) -> PathBuf {
        self.root().join("home")
    }

    fn work(&self) -> PathBuf {
        self.root().join("work")
    }

    /// Makes the scene of a row, and keeps it as the beginning of each later run.
    pub(super) fn load(&mut self, row: &Row, policy: Policy) {
        self.policy = policy;
        let key = (row.scene, policy);
        if let Some(scene) = self.scenes.get(&key) {
            self.replace_by(scene.path());
        } else {
            self.make(row.scene);
            self.scenes.insert(key, strace::copy(self.root()));
        }
        self.script(row.script);
        self.start = strace::copy(self.root());
    }

    /// Puts the folder back to the beginning of the row.
    pub(super) fn reset(&self) {
        self.replace_by(self.start.path());
    }

    fn replace_by(&self, content: &Path) {
        self.clear();
        strace::copy_into(content, self.root());
    }

    fn clear(&self) {
        for path in strace::children(self.root()) {
            std::fs::remove_dir_all(path).expect("a folder is deleted");
        }
    }

    fn make(&self, scene: Scene) {
        self.clear();
        for folder in [self.home(), self.work(), self.home().join("run")] {
            std::fs::create_dir(&folder).expect("a folder is made");
            let private = std::fs::Permissions::from_mode(0o700);
            std::fs::set_permissions(folder, private).expect("a folder gets its permissions");
        }
        let mut files = scenes::files();
        files.push(("canary", CANARY.to_owned()));
        for (name, content) in files {
            std::fs::write(self.work().join(name), content).expect("a file is written");
        }
        let editor = "#!/bin/sh\nsed -i s/10.0.0.0/10.2.0.0/ \"$1\"\n".to_owned();
        let statectl = format!("#!/bin/sh\nexec {WORKER} cli \"$@\"\n");
        for (name, script) in [("editor", editor), ("statectl", statectl)] {
            let path = self.work().join(name);
            std::fs::write(&path, script).expect("a script is written");
            let executable = std::fs::Permissions::from_mode(0o755);
            std::fs::set_permissions(path, executable).expect("a script gets its permissions");
        }
        self.script(scene.script());
    }

    /// Runs a shell script that must succeed.
    fn script(&self, script: &str) {
        let ended = self.shell(script);
        assert_eq!(ended.code, Some(0), "{script}: {ended:?}");
    }

    /// Runs a command that a person pasted, and answers its questions with yes.
    pub(super) fn paste(&self, pasted: &str) -> Ended {
        self.shell(&format!(
            "statectl() {{ command statectl \"$@\" --yes; }}; {pasted}"
        ))
    }

    fn shell(&self, script: &str) -> Ended {
        let mut command = Command::new("sh");
        command.args(["-ec", script]);
        ends(&mut self.as_user(command))
    }

    /// Runs `statectl` with the arguments of a row.
    pub(super) fn run(&self, row: &Row) -> Ended {
        ends(&mut self.command_under(&[], row))
    }

    /// Runs `statectl` with the arguments of a row, started by the beginning of a command line, such as
    /// [`strace::injecting`].
    pub(super) fn run_under(&self, line: &[OsString], row: &Row) -> Ended {
        ends(&mut self.command_under(line, row))
    }

    /// Returns the command that [`Self::run_under`] runs.
    pub(super) fn command_under(&self, line: &[OsString], row: &Row) -> Command {
        let mut command = match line.is_empty() {
            true => Command::new(WORKER),
            false => strace::starting(line, WORKER),
        };
        command.arg("cli").args(self.words(&row.arguments)).arg("--yes");
        self.as_user(command)
    }

    /// Runs `statectl` with these arguments, separated by spaces.
    pub(super) fn statectl(&self, arguments: &str) -> Ended {
        let mut command = Command::new(WORKER);
        command.arg("cli").args(self.words(arguments));
        ends(&mut self.as_user(command))
    }

    fn words(&self, arguments: &str) -> Vec<String> {
        let word = |word: &str| match word.strip_prefix('@') {
            Some(file) if self.work().join(file).exists() => {
                let content = std::fs::read_to_string(self.work().join(file));
                content.expect("a file of the scene").trim().to_owned()
            }
            _ => word.to_owned(),
        };
        arguments.split_whitespace().map(word).collect()
    }

    /// Returns the command of a user without other settings than those of the bench.
    fn as_user(&self, mut command: Command) -> Command {
        let path = std::env::var("PATH").unwrap_or_default();
        command
            .env_clear()
            .current_dir(self.work())
            .stdin(Stdio::null())
            .env("PATH", format!("{}:{path}", self.work().display()))
            .env("CANARY", CANARY)
            .env("USER", "tester")
            .env("HOME", self.home())
            .env("XDG_CONFIG_HOME", self.home().join("config"))
            .env("XDG_STATE_HOME", self.home().join("state"))
            .env("XDG_RUNTIME_DIR", self.home().join("run"))
            .env("EDITOR", self.work().join("editor"))
            .env("STATECTL_POLICY", self.policy.name());
        command
    }

    /// Returns a file of the store or the home that contains the secret, also in compressed form.
    pub(super) fn leak(&self) -> Option<PathBuf> {
        let stores = ["work/.state", "work/there"].map(|store| self.root().join(store));
        let folders = stores.into_iter().chain([self.home()]);
        folders
            .filter(|folder| folder.exists())
            .find_map(|folder| leak(&folder))
    }
}

fn ends(command: &mut Command) -> Ended {
    Ended::of(&command.output().expect("the program starts"))
}

fn leak(folder: &Path) -> Option<PathBuf> {
    let contains = |bytes: &[u8]| {
        bytes
            .windows(CANARY.len())
            .any(|window| window == CANARY.as_bytes())
    };
    strace::children(folder).into_iter().find_map(|path| {
        if path.is_dir() {
            return leak(&path);
        }
        // The reserve of the store has no content.
        if path.file_name().is_some_and(|name| name == "reserve") {
            return None;
        }
        let bytes = std::fs::read(&path).expect("a file of the store or the home");
        let unpacked = zstd::stream::decode_all(&bytes[..]).unwrap_or_default();
        (contains(&bytes) || contains(&unpacked)).then_some(path)
    })
}
