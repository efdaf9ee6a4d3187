//! `cargo xtask servers start|stop|status`: real object stores on loopback, for tests and for trying things out.
//!
//! Ceph's radosgw speaks S3 and checks signatures, Azurite speaks Azure Blob. s3rver ignores conditions: it is there to
//! be refused. What clients need is printed on stdout as `export NAME=value` lines, so that
//! `eval "$(cargo xtask servers start)"` is all that a shell has to say; everything else goes to stderr.
//!
//! All that a server writes lies in `servers/<name>` of the target folder: its data, its logs, and the process ids by
//! which `stop` finds it again. Ports are those that were free. What can't be installed is skipped, loudly, and only
//! where it can't: without root, apt or npm.

mod ceph;
mod home;
mod install;
mod npm;

use std::thread;

use home::Home;
use install::Readiness;

use crate::process::Failure;

/// A server that tests talk to.
struct Server {
    name: &'static str,
    about: &'static str,
    /// Whether `start` without names means it too.
    by_default: bool,
    /// Programs and packages: there, made to be there, or why not.
    install: fn(&Home) -> Result<Readiness, Failure>,
    /// Starts it in an empty home, and returns once it answers and its bucket is there.
    launch: fn(&Home) -> Result<(), Failure>,
    /// What clients need to know.
    exports: fn(&Home) -> Result<Exports, Failure>,
}

/// Names and values for the environment of clients.
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

/// The bucket, or container, that each server has.
const BUCKET: &str = "states";

/// `cargo xtask servers ...`
pub(crate) fn run(args: &[String]) -> Result<(), Failure> {
    let Some((verb, names)) = args.split_first() else {
        return Err(Failure(help()));
    };
    let unknown = names.iter().find(|name| find(name).is_none());
    if let Some(unknown) = unknown {
        return Err(Failure(format!("there is no server `{unknown}`; {}", help())));
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
        unknown => Err(Failure(format!("`servers {unknown}` is nothing; {}", help()))),
    }
}

/// Every server, for as long as the tests run.
pub(crate) struct Running {
    /// For the environment of the tests.
    pub(crate) exports: Exports,
    /// Those that weren't there before.
    started: Vec<&'static Server>,
}

/// Starts all servers; those that ran already are used, and stay.
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
    // Whatever comes of it, what it started is stopped when it is dropped.
    running.exports = start(&all)?;
    Ok(running)
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Err(failure) = stop(&self.started) {
            eprintln!("warning: {failure}");
        }
    }
}

/// Side by side: most of it is waiting.
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
        eprintln!("{}: runs already", server.name);
        return (server.exports)(&home);
    }
    // What a run before left when it was cut short.
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
        let state = if running { "runs" } else { "doesn't run" };
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

/// How it is called.
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
    fn what_is_not_understood_is_named_and_starts_nothing() {
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
