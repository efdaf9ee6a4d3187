//! The number of requests and of rounds of a command on an object store. Their limits don't depend on the number of sessions
//! since the last checkpoint. The first use of a store, with its probe, has limits too.

mod client;
mod limits;
mod report;

use super::proxy::CountingProxy;
use super::servers;
use client::{Client, behind_proxy};
use limits::{AFTER_CRASH, FIRST_CONTACT, FIRST_USE, LISTS, MANY_STACKS, READS, UP_AT_ONCE, UP_SLOW, WRITES};
use std::fmt::Write;
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The environment variable with the numbers of sessions after which commands are measured, separated by commas.
const SESSIONS: &str = "STATE_COUNT_SESSIONS";

/// The numbers of sessions in CI. `cargo xtask bench count` measures after 1,000 too.
const IN_CI: [usize; 2] = [1, 100];

/// Number of resources of a large deployment.
const MANY: usize = 100;

fn sessions() -> Vec<usize> {
    let Ok(listed) = std::env::var(SESSIONS) else {
        return IN_CI.to_vec();
    };
    let numbers = listed.split(',').map(|number| number.parse().expect("a number"));
    numbers.collect()
}

/// Runs a measurement on all servers at the same time. Each returns what exceeds its limits.
fn on_each_server(measure: impl Fn(&str) -> Vec<String> + Sync) {
    let measure = &measure;
    let excesses: Vec<String> = std::thread::scope(|scope| {
        let running: Vec<_> = servers()
            .into_iter()
            .map(|server| scope.spawn(move || measure(&server)))
            .collect();
        running
            .into_iter()
            .flat_map(|thread| thread.join().expect("the measurement ends"))
            .collect()
    });
    assert!(excesses.is_empty(), "{}", excesses.join("\n\n"));
}

#[test]
fn requests_do_not_depend_on_the_number_of_sessions() {
    on_each_server(|server| {
        let (proxy, server) = behind_proxy(server);
        let measured = sessions()
            .into_iter()
            .map(|sessions| after(&proxy, &server, sessions));
        measured.flatten().collect()
    });
}

/// Measures the commands on a new stack after this many sessions.
fn after(proxy: &CountingProxy, server: &str, sessions: usize) -> Vec<String> {
    let client = Client::new(proxy, server);
    client.program(&small_program());
    client.run(&["up", "--yes"]);
    let exported = client.run(&["export", "--show-secrets"]).out;
    std::fs::write(client.home().join("exported.json"), exported).expect("the export is written");
    for session in 0..sessions {
        let command = if session % 2 == 0 { "taint" } else { "untaint" };
        client.run(&[command, "r5", "--yes"]);
    }
    let mut excesses: Vec<String> = READS
        .iter()
        .filter_map(|limit| client.measure(limit, sessions))
        .collect();
    for limit in FIRST_CONTACT {
        client.forget_stacks();
        excesses.extend(client.measure(limit, sessions));
    }
    excesses.extend(WRITES.iter().filter_map(|limit| client.measure(limit, sessions)));
    crash(&client);
    excesses.extend(
        AFTER_CRASH
            .iter()
            .filter_map(|limit| client.measure(limit, sessions)),
    );
    excesses
}

#[test]
fn store_is_probed_and_made_in_at_most_25_rounds() {
    on_each_server(|server| {
        let (proxy, server) = behind_proxy(server);
        let excess = Client::new(&proxy, &server).measure(&FIRST_USE, 0);
        excess.into_iter().collect()
    });
}

#[test]
fn list_of_stacks_costs_two_requests_a_stack() {
    on_each_server(|server| {
        let (proxy, server) = behind_proxy(server);
        let client = Client::new(&proxy, &server);
        client.run(&["init"]);
        client.program(&program(1, |_| {
            "{ kind: 'random:id', inputs: { bytes: 4 } }".to_owned()
        }));
        make_stacks(&client);
        let listed = client.run(&["stack", "ls"]).out;
        assert_eq!(listed.matches("stack-").count(), MANY_STACKS, "{listed}");
        LISTS
            .iter()
            .filter_map(|limit| client.measure(limit, 0))
            .collect()
    });
}

/// Deploys the program to many stacks, some at a time.
fn make_stacks(client: &Client<'_>) {
    let next = AtomicUsize::new(0);
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= MANY_STACKS {
                break;
            }
            client.run(&["up", "--yes", "--stack", &format!("stack-{number}")]);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(work);
        }
    });
}

#[test]
fn deployment_of_100_resources_shares_batches() {
    on_each_server(|server| {
        let (proxy, server) = behind_proxy(server);
        let client = Client::new(&proxy, &server);
        client.run(&["init"]);
        client.program(&program(MANY, |_| {
            "{ kind: 'random:id', inputs: { bytes: 4 } }".to_owned()
        }));
        let excess = client.measure(&UP_AT_ONCE, 0);
        excess.into_iter().collect()
    });
}

#[test]
fn slow_deployment_takes_about_one_request_a_step() {
    on_each_server(|server| {
        let (proxy, server) = behind_proxy(server);
        let client = Client::new(&proxy, &server);
        client.run(&["init"]);
        // 0.2 to 3 seconds, in an order without a pattern.
        let seconds = |number: usize| 0.2 + 2.8 * ((number * 37) % MANY) as f64 / (MANY - 1) as f64;
        let sleep = |number| {
            format!(
                "{{ kind: command, inputs: {{ create: [sleep, '{:.2}'] }} }}",
                seconds(number)
            )
        };
        client.program(&program(MANY, sleep));
        // The delay of a store in the same region. A longer one lets more steps share a request.
        let excess = client.measure_delayed(&UP_SLOW, 0, Duration::from_millis(30));
        excess.into_iter().collect()
    });
}

fn small_program() -> String {
    program(10, |_| "{ kind: 'random:id', inputs: { bytes: 4 } }".to_owned())
}

/// A program of the stack `shop` with this many resources `r0`, `r1` and so on.
fn program(resources: usize, resource: impl Fn(usize) -> String) -> String {
    let mut program = "name: shop\nresources:\n".to_owned();
    for number in 0..resources {
        writeln!(program, "  r{number}: {}", resource(number)).expect("a line");
    }
    program
}

/// Kills a `statectl up` during a provider call.
fn crash(client: &Client<'_>) {
    let (started, ended) = (client.home().join("started"), client.home().join("ended"));
    let script = "touch started; while ! test -e ended; do sleep 0.1; done";
    let slow = format!("  slow: {{ kind: command, inputs: {{ create: [sh, -c, '{script}'] }} }}\n");
    client.program(&(small_program() + &slow));
    let mut running = client
        .statectl(&["up", "--yes"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the worker runs");
    while !started.exists() {
        assert!(matches!(running.try_wait(), Ok(None)), "the command ended early");
        std::thread::sleep(Duration::from_millis(20));
    }
    running.kill().expect("the command is killed");
    running.wait().expect("the command ends");
    std::fs::write(ended, "").expect("the provider's command ends");
    std::fs::remove_file(started).expect("the file is removed");
}
