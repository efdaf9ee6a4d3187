//! Worker processes that a test starts, reads, suspends and kills.

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use state_tests::line::Line;
use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// The test fails if a worker prints nothing for this time.
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(60);

/// Path of the worker program.
pub(crate) const WORKER: &str = env!("CARGO_BIN_EXE_state-worker");

/// Returns a command that runs `statectl` with these arguments, without the settings of the user who runs the test. Its
/// folders for settings and memory are the caller's to set.
pub(crate) fn statectl(arguments: &[&str]) -> Command {
    let mut command = Command::new(WORKER);
    command.arg("cli").args(arguments);
    for name in [
        "STATECTL_BACKEND",
        "STATECTL_STACK",
        "STATECTL_POLICY",
        "STATECTL_PROFILE",
    ] {
        command.env_remove(name);
    }
    command
}

/// A running worker. Dropping the value kills the process.
pub(crate) struct Worker {
    child: Child,
    lines: Receiver<Line>,
    listener: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts a worker with these arguments.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new(WORKER);
        command.args(arguments);
        Self::of(command)
    }

    /// Starts a worker by a command that runs [`WORKER`], for example under `strace`.
    pub(crate) fn of(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the worker starts");
        let pipe = child.stdout.take().expect("the output of the worker is a pipe");
        let (sender, lines) = channel();
        // Read in a separate thread, so that a full pipe never blocks the worker.
        let listener = std::thread::spawn(move || {
            for line in parsed(BufReader::new(pipe).lines()) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self {
            child,
            lines,
            listener: Some(listener),
        }
    }

    /// Returns the process id of the worker.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the next line of output. Returns `None` after the worker has exited.
    pub(crate) fn next_line(&self) -> Option<Line> {
        match self.lines.recv_timeout(OUTPUT_TIMEOUT) {
            Ok(line) => Some(line),
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => None,
            Err(error) => panic!("the worker hangs: {error}"),
        }
    }

    /// Reads lines up to and including the first match. Panics if the worker exits before a match.
    pub(crate) fn read_until(&self, matches: impl Fn(&Line) -> bool) -> Vec<Line> {
        let mut lines = Vec::new();
        while let Some(line) = self.next_line() {
            let is_last = matches(&line);
            lines.push(line);
            if is_last {
                return lines;
            }
        }
        panic!("the worker exited before the expected line: {lines:?}");
    }

    /// Returns the lines that a suspended worker has written and that weren't read yet.
    pub(crate) fn lines_so_far(&self) -> Vec<Line> {
        let mut lines = Vec::new();
        while let Ok(line) = self.lines.recv_timeout(Duration::from_millis(20)) {
            lines.push(line);
        }
        lines
    }

    /// Suspends the worker and waits until it is suspended.
    pub(crate) fn stop(&self) {
        self.signal(Signal::STOP);
        let found = waitpid(Some(self.id()), WaitOptions::UNTRACED).expect("a child can be waited for");
        assert!(
            found.is_some_and(|(_, status)| status.stopped()),
            "the worker must be suspended"
        );
    }

    /// Resumes a suspended worker.
    pub(crate) fn wake(&self) {
        self.signal(Signal::CONT);
    }

    /// Kills the worker like `kill -9`, and returns the rest of its output.
    pub(crate) fn kill(mut self) -> Vec<Line> {
        self.child.kill().expect("the worker can be killed");
        self.rest().1
    }

    /// Waits until the worker exits. Returns whether it exited with code 0, and the rest of its output.
    pub(crate) fn end(mut self) -> (bool, Vec<Line>) {
        self.rest()
    }

    /// Reads the output until the worker exits. Returns whether the exit code was 0, and the lines.
    fn rest(&mut self) -> (bool, Vec<Line>) {
        let mut lines = Vec::new();
        while let Some(line) = self.next_line() {
            lines.push(line);
        }
        let status = self.child.wait().expect("a child can be waited for");
        if let Some(listener) = self.listener.take() {
            listener.join().expect("every line of a worker can be read");
        }
        (status.success(), lines)
    }

    fn signal(&self, signal: Signal) {
        kill_process(self.id(), signal).expect("a child can be signalled");
    }

    fn id(&self) -> Pid {
        i32::try_from(self.child.id())
            .ok()
            .and_then(Pid::from_raw)
            .expect("a process has an id")
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Parses the lines of a worker. Panics at a line that is no [`Line`].
fn parsed(lines: Lines<BufReader<ChildStdout>>) -> impl Iterator<Item = Line> {
    lines.map(|line| {
        let text = line.expect("a worker writes text");
        text.parse().expect("every line of a worker can be parsed")
    })
}

/// Returns whether a program is installed. The program must accept the option `-V`.
pub(crate) fn is_installed(program: &str) -> bool {
    Command::new(program)
        .arg("-V")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok()
}
