//! `cargo xtask servers start|stop|status`: real object stores on loopback, for tests and experiments.
//!
//! Ceph's radosgw serves S3 and checks signatures, Azurite serves Azure Blob. s3rver ignores the conditions of
//! writes, so tests use it as a store that must be refused. Standard output gets `export NAME=value` lines for
//! clients, so that `eval "$(cargo xtask servers start)"` sets up a shell; all other output goes to stderr.
//!
//! All files of a server are in `servers/<name>` of the target folder: its data, its logs, and the process ids by which
//! `stop` finds it. Ports are chosen from those that are free. A server is skipped with a message if it can't be
//! installed, which happens only without root, apt or npm.

mod ceph;
mod home;
mod install;
mod npm;

use std::thread;
use std::time::Duration;

use home::Home;
use install::Readiness;

use crate::process::Failure;

/// A server that tests use.
struct Server {
    name: &'static str,
    about: &'static str,
    /// Whether `start` without names starts this server.
    by_default: bool,
    /// Installs programs and packages, or returns why that isn't possible.
    install: fn(&Home) -> Result<Readiness, Failure>,
    /// Starts the server in an empty home; returns once it answers and has its bucket.
    launch: fn(&Home) -> Result<(), Failure>,
    /// Returns the settings for clients.
    exports: fn(&Home) -> Result<Exports, Failure>,
}

/// Names and values of environment variables for clients.
pub(crate) type Exports = Vec<(&'static str, String)>;

static SERVERS: [Server; 3] = [
    Server {
        name: "ceph",
        about: "Ceph's radosgw: S3",
        by_default: true,
        install: ceph::install,
        launch: ceph::launch,
        exports: ceph::exports,
    },
    Server {
        name: "azurite",
        about: "Azurite: Azure Blob",
        by_default: true,
        install: npm::install_azurite,
        launch: npm::launch_azurite,
        exports: npm::azurite_exports,
    },
    Server {
        name: "s3rver",
        about: "s3rver: S3 without conditions",
        by_default: false,
        install: npm::install_s3rver,
        launch: npm::launch_s3rver,
        exports: npm::s3rver_exports,
    },
];

/// The bucket or container that each server has.
const BUCKET: &str = "states";

/// `cargo xtask servers ...`
pub(crate) fn run(args: &[String]) -> Result<(), Failure> {
    let Some((verb, names)) = args.split_first() else {
        return Err(Failure(help()));
    };
    let unknown = names.iter().find(|name| find(name).is_none());
    if let Some(unknown) = unknown {
        return Err(Failure(format!("no server `{unknown}`; {}", help())));
    }
    let chosen: Vec<&Server> = SERVERS
        .iter()
        .filter(|server| match names {
            [] => server.by_default || verb != "start",
            names => names.iter().any(|name| name == server.name),
        })
        .collect();
    match verb.as_str() {
        "start" => {
            for (name, value) in start(&chosen)? {
                println!("export {name}='{value}'");
            }
            Ok(())
        }
        "stop" => stop(&chosen),
        "status" => status(&chosen),
        unknown => Err(Failure(format!("no command `servers {unknown}`; {}", help()))),
    }
}

/// The servers for the tests, which are stopped when this is dropped.
pub(crate) struct Running {
    /// Environment variables for the tests.
    pub(crate) exports: Exports,
    /// The servers that this process started.
    started: Vec<&'static Server>,
}

/// Starts all servers. Servers that are already running are used, and not stopped afterwards.
pub(crate) fn for_tests() -> Result<Running, Failure> {
    let all: Vec<&'static Server> = SERVERS.iter().collect();
    let started = all
        .iter()
        .copied()
        .filter(|server| !Home::of(server.name).is_running())
        .collect();
    let mut running = Running {
        exports: Vec::new(),
        started,
    };
    // On any outcome, the drop stops the servers that were started here.
    running.exports = start(&all)?;
    Ok(running)
}

impl Drop for Running {
    fn drop(&mut self) {
        for server in &self.started {
            if let Some(silence) = Home::of(server.name).silence(Duration::from_secs(10)) {
                eprintln!("warning: {}: {silence}", server.name);
            }
        }
        if let Err(failure) = stop(&self.started) {
            eprintln!("warning: {failure}");
        }
    }
}

/// Starts the servers in parallel, since starting is mostly waiting.
fn start(servers: &[&'static Server]) -> Result<Exports, Failure> {
    let outcomes: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = servers
            .iter()
            .map(|server| scope.spawn(|| start_one(server)))
            .collect();
        threads.into_iter().map(thread::ScopedJoinHandle::join).collect()
    });
    let mut exports = Vec::new();
    for outcome in outcomes {
        let outcome = outcome.map_err(|_| Failure("a server's thread panicked".to_owned()))?;
        exports.extend(outcome?);
    }
    Ok(exports)
}

fn start_one(server: &Server) -> Result<Exports, Failure> {
    let home = Home::of(server.name);
    if home.is_running() {
        eprintln!("{}: already running", server.name);
        return (server.exports)(&home);
    }
    // Remove the remains of an interrupted run.
    home.stop()?;
    match (server.install)(&home)? {
        Readiness::Ready => {}
        Readiness::Skipped(why) => {
            eprintln!("SKIP {}: {why}", server.name);
            return Ok(Vec::new());
        }
    }
    eprintln!("{}: starting", server.name);
    if let Err(failure) = home.prepare().and_then(|()| (server.launch)(&home)) {
        let log = home.last_words();
        home.stop()?;
        return Err(Failure(format!("{}: {failure}{log}", server.name)));
    }
    home.mark_running()?;
    eprintln!("{}: ready", server.name);
    (server.exports)(&home)
}

fn stop(servers: &[&Server]) -> Result<(), Failure> {
    servers.iter().try_for_each(|server| {
        let home = Home::of(server.name);
        if home.stop()? {
            eprintln!("{}: stopped", server.name);
        }
        Ok(())
    })
}

fn status(servers: &[&Server]) -> Result<(), Failure> {
    for server in servers {
        let home = Home::of(server.name);
        let running = home.is_running();
        let state = if running { "running" } else { "not running" };
        eprintln!("{} ({}): {state}", server.name, server.about);
        if running {
            for (name, value) in (server.exports)(&home)? {
                println!("export {name}='{value}'");
            }
        }
    }
    Ok(())
}

fn find(name: &str) -> Option<&'static Server> {
    SERVERS.iter().find(|server| server.name == name)
}

/// Returns the help text.
pub(crate) fn help() -> String {
    let mut text = String::from("usage: cargo xtask servers start|stop|status [NAME...]\n\nServers:\n");
    for server in &SERVERS {
        let note = if server.by_default {
            ""
        } else {
            " (only when it is named)"
        };
        text += &format!("  {:<10}{}{note}\n", server.name, server.about);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{SERVERS, help, run};

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn unknown_words_are_refused_and_start_nothing() {
        for (line, named) in [
            ("", "usage:"),
            ("begin", "`servers begin`"),
            ("start minio", "`minio`"),
        ] {
            let failure = run(&words(line)).expect_err("it isn't understood");
            assert!(failure.0.contains(named), "{line}: {failure}");
        }
    }

    #[test]
    fn help_names_every_server() {
        for server in &SERVERS {
            assert!(help().contains(server.name), "{}", server.name);
        }
    }
}
