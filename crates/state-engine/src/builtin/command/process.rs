//! Runs the child process of a command: captures its standard output, and logs its standard error without secrets.

use super::lock::CommandLock;
use crate::log::Logger;
use command_fds::CommandFdExt;
use rustix::process::{Pid, Signal, kill_process_group};
use state_core::sensitive::MIN_SECRET_CHARS;
use state_core::{Json, LogLevel};
use std::ffi::OsString;
use std::os::fd::AsFd;
use std::path::Path;
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, Command};

/// Maximum size of the captured standard output.
const MAX_STDOUT: usize = 1 << 20;

/// Maximum size of the logged standard error.
const MAX_STDERR: usize = 64 << 10;

/// Size of the read buffer.
const PIECE: usize = 16 << 10;

/// Prefixes of variables that commands must not inherit, because such variables may contain identities and passphrases.
const INTERNAL_PREFIXES: [&str; 2] = ["STATECTL_", "STATE_"];

/// The parameters of a process.
pub(super) struct Process<'a> {
    pub(super) argv: &'a [String],
    pub(super) dir: &'a Path,
    pub(super) variables: &'a [(String, String)],
    pub(super) stdin: Option<String>,
    pub(super) hidden: &'a Redactor,
    pub(super) log: &'a Logger,
    /// The lock that the process holds until it exits; none for a process that changes nothing.
    pub(super) lock: Option<CommandLock>,
}

/// The result of a process.
pub(super) struct ProcessExit {
    /// The exit code. `None` if a signal ended the process, or if waiting for the process failed.
    pub(super) code: Option<i32>,
    /// Exit status as text for the user.
    pub(super) description: String,
    pub(super) printed: Stdout,
}

impl Process<'_> {
    /// Runs the process until it exits. When the future is dropped, the whole process group is killed.
    ///
    /// # Errors
    /// The reason why the process couldn't be started.
    pub(super) async fn run(mut self) -> Result<ProcessExit, String> {
        let mut child = self.spawn()?;
        let mut group = Group::of(child.id());
        if let (Some(lock), Some(leader)) = (&mut self.lock, group.0) {
            lock.name_holder(leader);
        }
        let (Some(mut out), Some(mut err)) = (child.stdout.take(), child.stderr.take()) else {
            return Err("its output can't be captured".to_owned());
        };
        let feed = feed(child.stdin.take(), self.stdin.take());
        let mut printed = Stdout::default();
        let mut log_lines = LogLines {
            log: self.log,
            hidden: self.hidden,
            open: Vec::new(),
            total: 0,
        };
        let status = {
            let mut io = pin!(async {
                tokio::join!(
                    feed,
                    read_to_end(&mut out, &mut printed),
                    read_to_end(&mut err, &mut log_lines)
                )
            });
            let mut end = pin!(child.wait());
            let mut io_is_done = false;
            loop {
                tokio::select! {
                    status = &mut end => break status,
                    _ = &mut io, if !io_is_done => io_is_done = true,
                }
            }
        };
        // Everything that the process printed before its exit is already in the pipes. Background processes may hold
        // the pipes open for ever, so only the available bytes are read.
        read_available(&out, &mut printed);
        read_available(&err, &mut log_lines);
        log_lines.end();
        group.disarm();
        if let Some(lock) = self.lock {
            lock.release();
        }
        Ok(ProcessExit {
            code: status.as_ref().ok().and_then(ExitStatus::code),
            description: status.map_or_else(|error| error.to_string(), |status| status.to_string()),
            printed,
        })
    }
}

impl Process<'_> {
    /// Starts the process in a group of its own.
    fn spawn(&self) -> Result<Child, String> {
        let (program, arguments) = self.argv.split_first().ok_or("it is empty")?;
        let mut command = Command::new(program);
        command.args(arguments).current_dir(self.dir);
        for name in internal_variables(std::env::vars_os()) {
            command.env_remove(name);
        }
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        let stdin = match &self.stdin {
            Some(_) => Stdio::piped(),
            None => Stdio::null(),
        };
        command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.process_group(0).kill_on_drop(true);
        if let Some(lock) = &self.lock {
            let descriptor = lock.descriptor().map_err(|error| error.to_string())?;
            // Only this process inherits the descriptor: it is closed in all others that are started at the same time.
            command.preserved_fds(vec![descriptor]);
        }
        let spawned = command.spawn();
        spawned.map_err(|error| spawn_error(program, self.dir, &error))
    }
}

fn internal_variables(variables: impl Iterator<Item = (OsString, OsString)>) -> Vec<OsString> {
    let is_ours = |name: &OsString| {
        let name = name.to_string_lossy();
        INTERNAL_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
    };
    variables.map(|(name, _)| name).filter(is_ours).collect()
}

fn spawn_error(program: &str, dir: &Path, error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound if !dir.is_dir() => format!("directory {} doesn't exist", dir.display()),
        std::io::ErrorKind::NotFound => format!("program {program} not found"),
        std::io::ErrorKind::ArgumentListTooLong => format!("{error}: pass large values in `stdin`"),
        _ => format!("{program}: {error}"),
    }
}

/// A process group that is killed on drop unless it is disarmed.
struct Group(Option<Pid>);

impl Group {
    fn of(leader: Option<u32>) -> Self {
        let leader = leader.and_then(|pid| i32::try_from(pid).ok());
        Self(leader.and_then(Pid::from_raw))
    }

    fn disarm(&mut self) {
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The leader wasn't reaped yet, so its process id can't denote an unrelated process group.
        if let Some(leader) = self.0 {
            kill_process_group(leader, Signal::KILL).ok();
        }
    }
}

/// Writes the text to the process. A process that doesn't read its input is no error.
async fn feed(pipe: Option<ChildStdin>, text: Option<String>) {
    if let (Some(mut pipe), Some(text)) = (pipe, text)
        && pipe.write_all(text.as_bytes()).await.is_ok()
    {
        pipe.shutdown().await.ok();
    }
}

/// Receives the output of a process in pieces.
trait ByteSink {
    fn take(&mut self, piece: &[u8]);
}

async fn read_to_end(pipe: &mut (impl AsyncRead + Unpin), into: &mut impl ByteSink) {
    let mut piece = vec![0; PIECE];
    while let Ok(length) = pipe.read(&mut piece).await {
        match piece.get(..length) {
            None | Some([]) => return,
            Some(read) => into.take(read),
        }
    }
}

/// Reads the bytes that are in the pipe now, without waiting for more: at most `MAX_STDOUT`, so that a background
/// process that prints constantly can't keep the call from returning.
fn read_available(pipe: &impl AsFd, into: &mut impl ByteSink) {
    let mut piece = vec![0; PIECE];
    for _ in 0..MAX_STDOUT / PIECE {
        match rustix::io::read(pipe, &mut piece[..]) {
            Err(rustix::io::Errno::INTR) => {}
            Ok(0) | Err(_) => return,
            Ok(length) => into.take(piece.get(..length).unwrap_or_default()),
        }
    }
}

/// Captures the standard output of a process.
#[derive(Default)]
pub(super) struct Stdout {
    pub(super) bytes: Vec<u8>,
    /// Whether more was printed than is captured.
    pub(super) is_cut: bool,
}

impl ByteSink for Stdout {
    fn take(&mut self, piece: &[u8]) {
        let room = MAX_STDOUT.saturating_sub(self.bytes.len());
        self.is_cut |= piece.len() > room;
        self.bytes.extend(piece.iter().take(room));
    }
}

/// Logs standard error line by line.
struct LogLines<'a> {
    log: &'a Logger,
    hidden: &'a Redactor,
    /// The incomplete last line.
    open: Vec<u8>,
    /// Length of all complete lines in bytes, whether or not they were logged.
    total: usize,
}

impl LogLines<'_> {
    fn line_ends(&mut self) {
        let line = std::mem::take(&mut self.open);
        let is_full = self.total > MAX_STDERR;
        self.total = self.total.saturating_add(line.len());
        if is_full || line.is_empty() {
            return;
        }
        if self.total > MAX_STDERR {
            // The whole line is dropped: if it were truncated inside a secret, the rest of the secret would not be
            // redacted.
            let reason = "further lines on its standard error are not logged";
            self.log.emit(LogLevel::Warning, reason);
            return;
        }
        let line = self.hidden.hide(&String::from_utf8_lossy(&line));
        self.log.emit(LogLevel::Info, shown(&line));
    }

    fn end(&mut self) {
        if !self.open.is_empty() {
            self.line_ends();
        }
    }
}

impl ByteSink for LogLines<'_> {
    fn take(&mut self, piece: &[u8]) {
        for &byte in piece {
            match byte {
                b'\n' => self.line_ends(),
                // A line that is longer than the limit isn't logged, so its further bytes aren't stored.
                _ if self.open.len() <= MAX_STDERR => self.open.push(byte),
                _ => {}
            }
        }
    }
}

/// Removes control characters except tabs, because they could move the terminal's cursor.
fn shown(line: &str) -> String {
    let visible = line.chars().filter(|c| !c.is_control() || *c == '\t');
    visible.collect()
}

/// Replaces secret texts in log lines by `***`.
#[derive(Default)]
pub(super) struct Redactor {
    texts: Vec<String>,
}

impl Redactor {
    /// Adds the lines of a text, in plain form and, because a command may print JSON, as the content of a JSON string.
    /// Short lines are left out: they may be part of many innocent words.
    pub(super) fn add(&mut self, text: &str) {
        let is_long = |line: &&str| line.chars().count() >= MIN_SECRET_CHARS;
        for line in text.lines().filter(is_long) {
            let json = Json::from_string(line);
            let in_json = json.as_str().trim_matches('"');
            if in_json != line {
                self.texts.push(in_json.to_owned());
            }
            self.texts.push(line.to_owned());
        }
        // The longest text is replaced first, because it may contain a shorter one.
        self.texts.sort_by_key(|text| std::cmp::Reverse(text.len()));
    }

    fn hide(&self, line: &str) -> String {
        let mut line = line.to_owned();
        for text in &self.texts {
            if line.contains(&**text) {
                line = line.replace(&**text, "***");
            }
        }
        line
    }
}
