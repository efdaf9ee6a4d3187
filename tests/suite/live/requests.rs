//! The number of requests and of rounds of a command on an object store. Neither depends on the number of sessions since
//! the last checkpoint. The first use of a store, with its probe, has limits too.

use super::proxy::{CountingProxy, Measured};
use super::{run, servers, statectl, unique_url};
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

/// The numbers of sessions after which the commands are measured.
const SESSIONS: [usize; 2] = [1, 30];

/// A command, and the highest number of its requests and rounds.
const LIMITS: &[(&[&str], usize, usize)] = &[
    (&["list"], 8, 3),
    (&["show", "r1"], 8, 3),
    (&["outputs"], 8, 3),
    (&["history", "-n", "20"], 8, 3),
    (&["diff", "@-", "@"], 8, 3),
    (&["blame", "r1"], 8, 3),
    // A session reads the snapshots of the rollbacks since the last checkpoint in a round of their own.
    (&["taint", "r2", "--yes"], 16, 9),
    (&["undo", "--yes"], 17, 10),
];

/// A client with a home folder of its own: identity, memory of stacks, and a program with some resources.
struct Client {
    home: tempfile::TempDir,
    url: String,
}

impl Client {
    fn new(url: String) -> Self {
        let home = tempfile::tempdir().expect("a folder");
        let mut program = "name: shop\nresources:\n".to_owned();
        for number in 0..10 {
            writeln!(
                program,
                "  r{number}: {{ kind: 'random:id', inputs: {{ bytes: 4 }} }}"
            )
            .expect("a line");
        }
        std::fs::write(home.path().join("state.yaml"), program).expect("the program is written");
        Self { home, url }
    }

    fn statectl(&self, arguments: &[&str]) -> Command {
        let mut command = statectl(arguments);
        let home: &Path = self.home.path();
        command
            .current_dir(home)
            .env("HOME", home)
            .env("XDG_STATE_HOME", home.join("state"))
            .env("XDG_CONFIG_HOME", home.join("config"))
            .env("STATECTL_BACKEND", &self.url);
        command
    }

    #[track_caller]
    fn run(&self, arguments: &[&str]) {
        run(&mut self.statectl(arguments)).exits(0);
    }
}

/// The highest number of requests and rounds of the first use of a store, with the probe.
const FIRST_USE: (usize, usize) = (150, 25);

#[test]
fn requests_do_not_depend_on_the_number_of_sessions() {
    std::thread::scope(|scope| {
        for server in servers() {
            scope.spawn(move || measure(&server));
        }
    });
}

#[test]
fn store_is_probed_and_made_in_at_most_25_rounds() {
    for server in servers() {
        let (proxy, client) = counted(&server);
        let measured = proxy.measure(|| client.run(&["init"]));
        let (requests, rounds) = FIRST_USE;
        require(&measured, &format!("init on {server}"), requests, rounds);
    }
}

/// A client of a new store on this server, behind a proxy.
fn counted(server: &str) -> (CountingProxy, Client) {
    let (before, rest) = server
        .split_once("endpoint=http://")
        .expect("the server is named by its endpoint");
    let (address, rest) = rest.split_at(rest.find(['/', '&']).unwrap_or(rest.len()));
    let proxy = CountingProxy::start(address);
    let server = format!("{before}endpoint=http://{}{rest}", proxy.address());
    (proxy, Client::new(unique_url(&server)))
}

fn measure(server: &str) {
    let (proxy, client) = counted(server);
    client.run(&["up", "--yes"]);
    let mut sessions = 0;
    for wanted in SESSIONS {
        while sessions < wanted {
            let command = if sessions % 2 == 0 { "taint" } else { "untaint" };
            client.run(&[command, "r5", "--yes"]);
            sessions += 1;
        }
        for (arguments, requests, rounds) in LIMITS {
            let measured = proxy.measure(|| client.run(arguments));
            require(
                &measured,
                &format!("{arguments:?} after {sessions} sessions"),
                *requests,
                *rounds,
            );
        }
    }
}

#[track_caller]
fn require(measured: &Measured, what: &str, requests: usize, rounds: usize) {
    assert!(
        measured.requests > 0 && measured.requests <= requests && measured.rounds <= rounds,
        "{what}: {} requests in {} rounds, at most {requests} in {rounds} are allowed:\n{}",
        measured.requests,
        measured.rounds,
        measured.lines.join("\n")
    );
}
