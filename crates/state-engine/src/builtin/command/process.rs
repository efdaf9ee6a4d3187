//! A process from its start to its end, with all that it says.

use crate::log::Logger;
use rustix::process::{Pid, Signal, kill_process_group};
use state_core::sensitive::MIN_SECRET_CHARS;
use state_core::{Json, LogLevel};
use std::ffi::OsString;
use std::os::fd::AsFd;
use std::path::Path;
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStdin, Command};

/// So much of the standard output is kept.
const MOST_PRINTED: usize = 1 << 20;

/// So much of the standard error is kept.
const MOST_LOGGED: usize = 64 << 10;

/// So much is read at once.
const PIECE: usize = 16 << 10;

/// Not for others: identities and passphrases are among them.
const OURS: [&str; 2] = ["STATECTL_", "STATE_"];

/// What is started.
pub(super) struct Process<'a> {
    pub(super) argv: &'a [String],
    pub(super) dir: &'a Path,
    pub(super) variables: &'a [(String, String)],
    pub(super) stdin: Option<String>,
    pub(super) hidden: &'a Hidden,
    pub(super) log: &'a Logger,
}

/// How it ended.
pub(super) struct Ended {
    /// None: a signal ended it.
    pub(super) code: Option<i32>,
    /// For people.
    pub(super) how: String,
    pub(super) printed: Printed,
}

impl Process<'_> {
    /// Runs it to its end. When this is dropped the process and those that it started are killed.
    ///
    /// # Errors
    /// Why it couldn't be started.
    pub(super) async fn run(self) -> Result<Ended, String> {
        let (program, arguments) = self.argv.split_first().ok_or("it is empty")?;
        let mut command = Command::new(program);
        command.args(arguments).current_dir(self.dir);
        for name in ours(std::env::vars_os()) {
            command.env_remove(name);
        }
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        let stdin = match &self.stdin {
            Some(_) => Stdio::piped(),
            None => Stdio::null(),
        };
        command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.process_group(0).kill_on_drop(true);
        let mut child = command
            .spawn()
            .map_err(|error| unstarted(program, self.dir, &error))?;
        let mut group = Group::of(child.id());
        let (Some(mut out), Some(mut err)) = (child.stdout.take(), child.stderr.take()) else {
            return Err("its output can't be read".to_owned());
        };
        let feed = feed(child.stdin.take(), self.stdin);
        let mut printed = Printed::default();
        let mut said = Lines {
            log: self.log,
            hidden: self.hidden,
            open: Vec::new(),
            kept: 0,
        };
        let status = {
            let mut talk = pin!(async {
                tokio::join!(
                    feed,
                    take_in(&mut out, &mut printed),
                    take_in(&mut err, &mut said)
                )
            });
            let mut end = pin!(child.wait());
            let mut is_silent = false;
            loop {
                tokio::select! {
                    status = &mut end => break status,
                    _ = &mut talk, if !is_silent => is_silent = true,
                }
            }
        };
        // What it printed before its end is in the pipes; those that it started may hold them open for ever.
        take_rest(&out, &mut printed);
        take_rest(&err, &mut said);
        said.end();
        group.spare();
        Ok(Ended {
            code: status.as_ref().ok().and_then(ExitStatus::code),
            how: status.map_or_else(|error| error.to_string(), |status| status.to_string()),
            printed,
        })
    }
}

fn ours(variables: impl Iterator<Item = (OsString, OsString)>) -> Vec<OsString> {
    let is_ours = |name: &OsString| {
        let name = name.to_string_lossy();
        OURS.iter().any(|prefix| name.starts_with(prefix))
    };
    variables.map(|(name, _)| name).filter(is_ours).collect()
}

fn unstarted(program: &str, dir: &Path, error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound if !dir.is_dir() => format!("there is no folder {}", dir.display()),
        std::io::ErrorKind::NotFound => format!("there is no program {program}"),
        std::io::ErrorKind::ArgumentListTooLong => format!("{error}: give it on `stdin`"),
        _ => format!("{program}: {error}"),
    }
}

/// A process group that is killed unless it is spared.
struct Group(Option<Pid>);

impl Group {
    fn of(leader: Option<u32>) -> Self {
        let leader = leader.and_then(|pid| i32::try_from(pid).ok());
        Self(leader.and_then(Pid::from_raw))
    }

    fn spare(&mut self) {
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Its leader isn't waited for yet, so nobody else has got its number.
        if let Some(leader) = self.0 {
            kill_process_group(leader, Signal::KILL).ok();
        }
    }
}

/// Writes all to the process. One that doesn't read is no fault.
async fn feed(pipe: Option<ChildStdin>, text: Option<String>) {
    if let (Some(mut pipe), Some(text)) = (pipe, text)
        && pipe.write_all(text.as_bytes()).await.is_ok()
    {
        pipe.shutdown().await.ok();
    }
}

trait Takes {
    fn take(&mut self, piece: &[u8]);
}

async fn take_in(pipe: &mut (impl AsyncRead + Unpin), into: &mut impl Takes) {
    let mut piece = vec![0; PIECE];
    while let Ok(length) = pipe.read(&mut piece).await {
        match piece.get(..length) {
            None | Some([]) => return,
            Some(read) => into.take(read),
        }
    }
}

/// What is in the pipe now, and no more than that.
fn take_rest(pipe: &impl AsFd, into: &mut impl Takes) {
    let mut piece = vec![0; PIECE];
    for _ in 0..MOST_PRINTED / PIECE {
        match rustix::io::read(pipe, &mut piece[..]) {
            Err(rustix::io::Errno::INTR) => {}
            Ok(0) | Err(_) => return,
            Ok(length) => into.take(piece.get(..length).unwrap_or_default()),
        }
    }
}

/// The standard output.
#[derive(Default)]
pub(super) struct Printed {
    pub(super) bytes: Vec<u8>,
    /// It printed more than is kept.
    pub(super) is_cut: bool,
}

impl Takes for Printed {
    fn take(&mut self, piece: &[u8]) {
        let room = MOST_PRINTED.saturating_sub(self.bytes.len());
        self.is_cut |= piece.len() > room;
        self.bytes.extend(piece.iter().take(room));
    }
}

/// The standard error, line by line into the log.
struct Lines<'a> {
    log: &'a Logger,
    hidden: &'a Hidden,
    /// The line that isn't whole yet.
    open: Vec<u8>,
    kept: usize,
}

impl Lines<'_> {
    fn line_ends(&mut self) {
        let line = std::mem::take(&mut self.open);
        let is_full = self.kept > MOST_LOGGED;
        self.kept = self.kept.saturating_add(line.len());
        if is_full || line.is_empty() {
            return;
        }
        if self.kept > MOST_LOGGED {
            // Not cut: half a secret would not be known for one.
            let reason = "it said more on its standard error than is kept";
            self.log.say(LogLevel::Warning, reason);
            return;
        }
        let line = self.hidden.hide(&String::from_utf8_lossy(&line));
        self.log.say(LogLevel::Info, shown(&line));
    }

    fn end(&mut self) {
        if !self.open.is_empty() {
            self.line_ends();
        }
    }
}

impl Takes for Lines<'_> {
    fn take(&mut self, piece: &[u8]) {
        for &byte in piece {
            match byte {
                b'\n' => self.line_ends(),
                // What goes beyond isn't kept anyway.
                _ if self.open.len() <= MOST_LOGGED => self.open.push(byte),
                _ => {}
            }
        }
    }
}

/// A line without what would move the cursor of who reads it.
fn shown(line: &str) -> String {
    let visible = line.chars().filter(|c| !c.is_control() || *c == '\t');
    visible.collect()
}

/// Texts that aren't for the log.
#[derive(Default)]
pub(super) struct Hidden {
    texts: Vec<String>,
}

impl Hidden {
    /// Hides the lines of a text, as they are and as they stand in JSON. Short ones are too common to be told from others.
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
        // The longest first: one may stand in another.
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
