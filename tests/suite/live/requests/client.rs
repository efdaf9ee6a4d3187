//! A client whose requests are counted: a home folder of its own, behind a counting proxy.

use super::limits::{Limit, bound};
use super::report;
use crate::live::proxy::{CountingProxy, Measured};
use crate::live::{CommandOutput, run, statectl, unique_url};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Delay of each request. It must be longer than the pauses of a client between requests that it sends concurrently, also
/// on a machine that is busy with other tests.
pub(super) const DELAY: Duration = Duration::from_millis(800);

/// A client with identity, known stacks and a program in its home folder.
pub(super) struct Client<'a> {
    home: tempfile::TempDir,
    known_stacks: PathBuf,
    url: String,
    /// Name of the server in the report.
    server: &'static str,
    pub(super) proxy: &'a CountingProxy,
}

/// Starts a proxy in front of a server; returns the proxy and the URL of the server behind it.
pub(super) fn behind_proxy(server: &str) -> (CountingProxy, String) {
    let (before, rest) = server
        .split_once("endpoint=http://")
        .expect("the server is named by its endpoint");
    let (address, rest) = rest.split_at(rest.find(['/', '&']).unwrap_or(rest.len()));
    let proxy = CountingProxy::start(address);
    let server = format!("{before}endpoint=http://{}{rest}", proxy.address());
    (proxy, server)
}

impl<'a> Client<'a> {
    /// A client of a new store, on the server with this URL.
    pub(super) fn new(proxy: &'a CountingProxy, server: &str) -> Self {
        let home = tempfile::tempdir().expect("a folder");
        Self {
            known_stacks: home.path().join("state"),
            home,
            url: unique_url(server),
            server: if server.starts_with("az") {
                "Azurite"
            } else {
                "radosgw"
            },
            proxy,
        }
    }

    pub(super) fn home(&self) -> &Path {
        self.home.path()
    }

    /// Writes the program that `up` deploys.
    pub(super) fn program(&self, text: &str) {
        std::fs::write(self.home().join("state.yaml"), text).expect("the program is written");
    }

    /// Forgets all stacks, so that the next command is one of a client that never saw them.
    pub(super) fn forget_stacks(&self) {
        std::fs::remove_dir_all(&self.known_stacks).expect("the known stacks are removed");
    }

    pub(super) fn statectl(&self, arguments: &[&str]) -> Command {
        let mut command = statectl(arguments);
        command
            .current_dir(self.home())
            .env("HOME", self.home())
            .env("XDG_STATE_HOME", &self.known_stacks)
            .env("XDG_CONFIG_HOME", self.home().join("config"))
            .env("STATECTL_BACKEND", &self.url);
        command
    }

    #[track_caller]
    pub(super) fn run(&self, arguments: &[&str]) -> CommandOutput {
        run(&mut self.statectl(arguments)).exits(0)
    }

    /// Counts the requests of a command, reports them, and returns why they exceed a limit; none if they don't.
    #[track_caller]
    pub(super) fn measure(&self, limit: &Limit, sessions: usize) -> Option<String> {
        self.measure_delayed(limit, sessions, DELAY)
    }

    /// As [`Self::measure`], with another delay of each request.
    #[track_caller]
    pub(super) fn measure_delayed(&self, limit: &Limit, sessions: usize, delay: Duration) -> Option<String> {
        let measured = self.proxy.measure(delay, || {
            self.run(limit.arguments);
        });
        report::requests(limit, self.server, sessions, &measured);
        self.excess(limit, sessions, &measured)
    }

    fn excess(&self, limit: &Limit, sessions: usize, measured: &Measured) -> Option<String> {
        let is_within =
            measured.requests > 0 && measured.requests <= limit.requests && measured.rounds <= limit.rounds;
        let what = format!("{} on {} after {sessions} sessions", limit.name, self.server);
        (!is_within).then(|| {
            format!(
                "{what}: {} requests in {} rounds, at most {} in {} are allowed:\n{}",
                measured.requests,
                measured.rounds,
                bound(limit.requests),
                bound(limit.rounds),
                measured.lines.join("\n")
            )
        })
    }
}
