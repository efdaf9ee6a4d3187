//! Worker processes that a test starts, reads, suspends and kills.

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use state_tests::line::Line;
use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Time without output of a worker after which the test fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// Path of the worker program.
pub(crate) const WORKER: &str = env!("CARGO_BIN_EXE_state-worker");

/// A running worker. It is killed when it is dropped.
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

    /// Starts a worker with another command.
    pub(crate) fn of(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the worker starts");
        let pipe = child.stdout.take().expect("its output is a pipe");
        let (sender, lines) = channel();
        // Read in a separate thread, so that a full pipe never blocks the worker.
        let listener = std::thread::spawn(move || {
            for line in complete(BufReader::new(pipe).lines()) {
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

    /// The id of the process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The next line of output; None after the worker has ended.
    pub(crate) fn hear(&self) -> Option<Line> {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => Some(line),
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => None,
            Err(error) => panic!("the worker hangs: {error}"),
        }
    }

    /// Reads lines up to and including the first match.
    pub(crate) fn hear_until(&self, fits: impl Fn(&Line) -> bool) -> Vec<Line> {
        let mut heard = Vec::new();
        while let Some(line) = self.hear() {
            let last = fits(&line);
            heard.push(line);
            if last {
                return heard;
            }
        }
        panic!("the worker ended too early: {heard:?}");
    }

    /// All lines that a suspended worker has written so far.
    pub(crate) fn heard_by_now(&self) -> Vec<Line> {
        let mut heard = Vec::new();
        while let Ok(line) = self.lines.recv_timeout(Duration::from_millis(20)) {
            heard.push(line);
        }
        heard
    }

    /// Suspends the worker and waits until it is suspended.
    pub(crate) fn stop(&self) {
        self.signal(Signal::STOP);
        let found = waitpid(Some(self.id()), WaitOptions::UNTRACED).expect("a child can be waited for");
        assert!(found.is_some_and(|(_, status)| status.stopped()), "it is stopped");
    }

    /// Resumes a suspended worker.
    pub(crate) fn wake(&self) {
        self.signal(Signal::CONT);
    }

    /// Kills the worker like `kill -9`, and returns the rest of its output.
    pub(crate) fn kill(mut self) -> Vec<Line> {
        self.child.kill().expect("it can be killed");
        self.rest().1
    }

    /// Waits for the end of the worker, and returns whether it succeeded with the rest of its output.
    pub(crate) fn end(mut self) -> (bool, Vec<Line>) {
        self.rest()
    }

    fn rest(&mut self) -> (bool, Vec<Line>) {
        let mut heard = Vec::new();
        while let Some(line) = self.hear() {
            heard.push(line);
        }
        let status = self.child.wait().expect("a child can be waited for");
        if let Some(listener) = self.listener.take() {
            listener.join().expect("every line of a worker can be read");
        }
        (status.success(), heard)
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

fn complete(lines: Lines<BufReader<ChildStdout>>) -> impl Iterator<Item = Line> {
    lines.map(|line| {
        let text = line.expect("a worker writes text");
        text.parse().expect("every line of a worker can be parsed")
    })
}

/// Whether a program is installed.
pub(crate) fn is_there(program: &str) -> bool {
    Command::new(program)
        .arg("-V")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok()
}
