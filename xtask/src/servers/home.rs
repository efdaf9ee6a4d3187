//! The folder of one server: its data, logs, process ids and port.

use std::fs::{self, File};
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use std::os::unix::process::CommandExt as _;

use crate::process::{Failure, probe, target};

/// The folder of a server. Installed tools are in `tools` beside it and survive `stop`; the folder itself doesn't.
pub(crate) struct Home {
    folder: PathBuf,
    tools: PathBuf,
}

/// Marker file: it exists once the start has finished.
const READY: &str = "ready";

impl Home {
    pub(crate) fn of(name: &str) -> Self {
        let servers = target().join("servers");
        Self {
            folder: servers.join(name),
            tools: servers.join("tools").join(name),
        }
    }

    /// Returns the path of a file in the folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Returns the folder for what npm installs for this server.
    pub(crate) fn tools(&self) -> &Path {
        &self.tools
    }

    /// Creates the folder, with subfolders for data and process ids.
    pub(crate) fn prepare(&self) -> Result<(), Failure> {
        ["data", "run"].iter().try_for_each(|name| self.make(name))
    }

    pub(crate) fn make(&self, name: &str) -> Result<(), Failure> {
        let path = self.path(name);
        fs::create_dir_all(&path).map_err(|error| failed(&path, &error))
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> Result<PathBuf, Failure> {
        let path = self.path(name);
        fs::write(&path, text).map_err(|error| failed(&path, &error))?;
        Ok(path)
    }

    pub(crate) fn mark_running(&self) -> Result<(), Failure> {
        self.write(READY, "").map(drop)
    }

    /// Whether the server was started completely, and all its processes are running.
    pub(crate) fn is_running(&self) -> bool {
        let processes = self.processes();
        self.path(READY).exists() && !processes.is_empty() && processes.iter().all(|id| self.owns(*id))
    }

    /// Chooses a free port and stores it under a name.
    pub(crate) fn take_port(&self, name: &str) -> Result<u16, Failure> {
        let free = TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr());
        let port = free
            .map_err(|error| Failure(format!("no free port: {error}")))?
            .port();
        self.write(name, &port.to_string())?;
        Ok(port)
    }

    /// Returns a port that was chosen before.
    pub(crate) fn port(&self, name: &str) -> Result<u16, Failure> {
        let path = self.path(name);
        let text = fs::read_to_string(&path).map_err(|error| failed(&path, &error))?;
        text.parse().map_err(|_| {
            Failure(format!(
                "{} has no port: run `cargo xtask servers stop`, then `start`",
                path.display()
            ))
        })
    }

    /// Starts a process that outlives this one, with its output in a log.
    pub(crate) fn spawn(&self, name: &str, command: &mut Command) -> Result<(), Failure> {
        let path = self.path(&format!("run/{name}.log"));
        let log = File::create(&path).map_err(|error| failed(&path, &error))?;
        let errors = log.try_clone().map_err(|error| failed(&path, &error))?;
        let child = command
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors)
            .process_group(0)
            .spawn()
            .map_err(|error| Failure(format!("{name} did not start: {error}")))?;
        self.write(&format!("run/{name}.pid"), &child.id().to_string())?;
        Ok(())
    }

    /// Why the running server gives no answer to a client, for a message; `None` if it answers.
    ///
    /// A test that failed for lack of an answer can't say whether its own requests were wrong or the server hung.
    pub(crate) fn silence(&self, limit: Duration) -> Option<String> {
        let failure = ask(self.port("port").ok()?, limit).err()?;
        let mut text = format!("no answer within {limit:?} ({failure})");
        for id in self.processes() {
            let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
            let shown = ["State", "VmRSS", "VmSwap", "Threads"];
            let lines = status
                .lines()
                .filter(|line| shown.iter().any(|name| line.starts_with(name)));
            text += &format!("\n--- process {id}: {}", lines.collect::<Vec<_>>().join(", "));
        }
        Some(text + &self.last_words())
    }

    /// Ends the server's processes and removes its folder. Returns whether there was anything to stop.
    pub(crate) fn stop(&self) -> Result<bool, Failure> {
        let owned = |home: &Self| -> Vec<u32> {
            let ids = home.processes().into_iter();
            ids.filter(|id| home.owns(*id)).collect()
        };
        for signal in ["-TERM", "-KILL"] {
            let ids = owned(self);
            if ids.is_empty() {
                break;
            }
            let mut kill = Command::new("kill");
            kill.arg(signal).args(ids.iter().map(u32::to_string));
            // A process that has ended meanwhile is fine; the loop checks which are left.
            let _answer = probe(&mut kill);
            wait(Duration::from_secs(3), || owned(self).is_empty());
        }
        let left = owned(self);
        if !left.is_empty() {
            return Err(Failure(format!("processes {left:?} do not end")));
        }
        match fs::remove_dir_all(&self.folder) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(failed(&self.folder, &error)),
        }
    }

    /// Returns the last lines of the server's logs, which show why the server didn't start.
    pub(crate) fn last_words(&self) -> String {
        let mut text = String::new();
        for path in self.files("log") {
            let log = fs::read(&path).unwrap_or_default();
            let log = String::from_utf8_lossy(&log);
            let lines: Vec<&str> = log.lines().collect();
            let tail = &lines[lines.len().saturating_sub(8)..];
            text += &format!("\n--- {}\n{}", path.display(), tail.join("\n"));
        }
        text
    }

    fn processes(&self) -> Vec<u32> {
        let read = |path: PathBuf| fs::read_to_string(path).ok()?.trim().parse().ok();
        self.files("pid").into_iter().filter_map(read).collect()
    }

    fn files(&self, extension: &str) -> Vec<PathBuf> {
        let found = fs::read_dir(self.path("run")).into_iter().flatten().flatten();
        let mut files: Vec<PathBuf> = found
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|found| found == extension))
            .collect();
        files.sort();
        files
    }

    /// Whether a process belongs to this server: its id may have been reused by another program.
    fn owns(&self, id: u32) -> bool {
        let line = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line);
        [&self.folder, &self.tools]
            .iter()
            .any(|folder| line.contains(&*folder.to_string_lossy()))
    }
}

/// Sends a request and waits for the first byte of an answer, whatever it says.
fn ask(port: u16, limit: Duration) -> std::io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&SocketAddr::from(([127, 0, 0, 1], port)), limit)?;
    stream.set_read_timeout(Some(limit))?;
    stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    stream.read_exact(&mut [0])
}

/// Waits until a port accepts connections.
pub(crate) fn wait_for_port(port: u16, time_limit: Duration) -> Result<(), Failure> {
    if wait(time_limit, || TcpStream::connect(("127.0.0.1", port)).is_ok()) {
        return Ok(());
    }
    Err(Failure(format!(
        "no answer at 127.0.0.1:{port} after {time_limit:?}"
    )))
}

/// Waits until a condition holds; returns whether it did within the time limit.
pub(crate) fn wait(time_limit: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let pause = Duration::from_millis(100);
    let mut waited = Duration::ZERO;
    while waited < time_limit {
        if is_so() {
            return true;
        }
        thread::sleep(pause);
        waited += pause;
    }
    is_so()
}

fn failed(path: &Path, error: &std::io::Error) -> Failure {
    Failure(format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::{Home, wait};
    use std::io::Write as _;
    use std::net::TcpListener;
    use std::process::Command;
    use std::time::Duration;

    fn home(name: &str) -> Home {
        let home = Home::of(&format!("test-{name}-{}", std::process::id()));
        home.prepare().unwrap();
        home
    }

    #[test]
    fn process_of_another_program_is_not_killed() {
        let home = home("stranger");
        let mut stranger = Command::new("sleep").arg("60").spawn().unwrap();
        home.write("run/stale.pid", &stranger.id().to_string()).unwrap();
        home.mark_running().unwrap();
        assert!(!home.is_running());
        assert!(home.stop().unwrap(), "the folder must exist before `stop`");
        assert!(
            stranger.try_wait().unwrap().is_none(),
            "the other program must not be killed"
        );
        stranger.kill().unwrap();
        stranger.wait().unwrap();
    }

    #[test]
    fn server_without_an_answer_is_described() {
        let home = home("silent");
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        home.write("port", &server.local_addr().unwrap().port().to_string())
            .unwrap();
        home.write("run/own.pid", &std::process::id().to_string())
            .unwrap();
        let limit = Duration::from_millis(100);
        let silence = home.silence(limit).unwrap();
        assert!(silence.starts_with("no answer within 100ms"), "{silence}");
        assert!(silence.contains("State:"), "{silence}");
        let answer = std::thread::spawn(move || {
            for mut client in server.incoming().take(2).flatten() {
                let _sent = client.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
            }
        });
        assert_eq!(home.silence(Duration::from_secs(10)), None);
        answer.join().unwrap();
        home.stop().unwrap();
    }

    #[test]
    fn spawned_process_runs_until_stop_and_leaves_nothing() {
        let home = home("own");
        // Its command line names the folder, as those of real servers do.
        let folder = home.path("data");
        let mut command = Command::new("sh");
        command.args(["-c", "while sleep 0.1; do :; done"]).arg(&folder);
        home.spawn("loop", &mut command).unwrap();
        assert!(!home.is_running(), "the start isn't done");
        home.mark_running().unwrap();
        assert!(wait(Duration::from_secs(5), || home.is_running()));
        assert!(home.stop().unwrap());
        assert!(!home.is_running() && !folder.exists());
        assert!(!home.stop().unwrap(), "a second `stop` must find no folder");
    }
}
