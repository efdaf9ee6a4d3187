//! Stores that can't be used: `statectl` reports each failure within a time limit, with its own exit code, a hint and
//! no secrets.

use super::gcs_mock::{Manner, Mock};
use super::{CommandOutput, run, server, statectl, unique_url};
use crate::store::environment;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;
use std::time::Duration;

/// Maximum time until `statectl` reports an error.
const LIMIT: Duration = Duration::from_secs(30);

/// A secret that must not be printed.
const CANARY: &str = "hunter22-canary";

/// Invalid access keys, which no server accepts.
pub(super) const KEYS: [(&str, &str); 3] = [
    ("AWS_ACCESS_KEY_ID", "k"),
    ("AWS_SECRET_ACCESS_KEY", CANARY),
    ("AWS_REGION", "r"),
];

/// [`CANARY`] in base64, in which Azure's keys are encoded.
const CANARY_IN_BASE64: &str = "aHVudGVyMjItY2FuYXJ5";

/// Runs a command that must fail with this exit code and a text on stderr, with a hint, within [`LIMIT`], and without
/// [`CANARY`] in its output.
#[track_caller]
pub(super) fn refused(command: &mut Command, code: i32, expected: &str) -> CommandOutput {
    let clock = environment().clock;
    let begun = clock.elapsed();
    let ran = run(command).exits(code);
    let took = clock.elapsed() - begun;
    assert!(took < LIMIT, "the command took {took:?}");
    assert!(ran.err.contains(expected), "{expected}: {ran:?}");
    assert!(ran.err.contains("hint"), "{ran:?}");
    assert!(!format!("{ran:?}").contains(CANARY), "{ran:?}");
    ran
}

/// Returns the URL of a server with another endpoint and no other parameters.
pub(super) fn elsewhere(server: &str, endpoint: &str) -> String {
    let bucket = server.split('?').next().unwrap_or(server);
    format!("{bucket}?endpoint={endpoint}")
}

#[test]
fn wrong_credentials_are_reported_as_access_denied() {
    let Some(server) = server("STATE_TEST_S3_URL") else {
        return;
    };
    let url = unique_url(&server);
    for variable in ["AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID"] {
        for command in ["list", "init"] {
            let mut command = statectl(&["--backend", &url, command]);
            refused(command.env(variable, CANARY), 19, "access denied");
        }
    }
}

#[test]
fn wrong_azure_key_is_reported_as_access_denied() {
    let Some(server) = server("STATE_TEST_AZURE_URL") else {
        return;
    };
    let url = unique_url(&server);
    for command in ["list", "init"] {
        let mut command = statectl(&["--backend", &url, command]);
        let ran = refused(
            command.env("AZURE_STORAGE_ACCOUNT_KEY", CANARY_IN_BASE64),
            19,
            "access denied",
        );
        assert!(!format!("{ran:?}").contains(CANARY_IN_BASE64), "{ran:?}");
    }
}

#[test]
fn missing_bucket_is_named() {
    for (variable, there, missing) in [
        ("STATE_TEST_S3_URL", "s3://states", "s3://no-such-bucket"),
        ("STATE_TEST_AZURE_URL", "az://states", "az://no-such-container"),
    ] {
        let Some(server) = server(variable) else {
            continue;
        };
        let url = server.replacen(there, missing, 1);
        // The hint repeats the URL, so compare the line of the error itself.
        let expected = format!("error: the bucket or container {missing} does not exist");
        for command in ["list", "init"] {
            let ran = refused(&mut statectl(&["--backend", &url, command]), 10, &expected);
            assert!(ran.err.contains(&format!("create {missing} first")), "{ran:?}");
        }
    }
}

#[test]
fn read_only_credentials_can_only_read() {
    let (Some(server), Some(key), Some(secret)) = (
        server("STATE_TEST_S3_URL"),
        server("STATE_TEST_S3_READER_KEY"),
        server("STATE_TEST_S3_READER_SECRET"),
    ) else {
        return;
    };
    let url = unique_url(&server);
    run(&mut statectl(&["--backend", &url, "init"])).exits(0);
    run(&mut statectl(&["--backend", &url, "stack", "new", "shop"])).exits(0);
    let reader = |arguments: &[&str]| {
        let mut command = statectl(&[&["--backend", &url], arguments].concat());
        command
            .env("AWS_ACCESS_KEY_ID", &key)
            .env("AWS_SECRET_ACCESS_KEY", &secret);
        command
    };
    run(&mut reader(&["stack", "ls"])).exits(0);
    run(&mut reader(&["list"])).exits(0);
    refused(&mut reader(&["stack", "new", "other"]), 19, "access denied");
    refused(
        &mut reader(&["lock", "acquire", "-m", "freeze"]),
        19,
        "access denied",
    );
}

#[test]
fn server_without_listener_or_tls_is_unreachable() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("the listener has an address").port();
    drop(listener);
    for scheme in ["http", "https"] {
        let url = elsewhere("s3://states", &format!("{scheme}://127.0.0.1:{port}"));
        refused(
            statectl(&["--backend", &url, "list"]).envs(KEYS),
            19,
            "can't be reached",
        );
    }
    let plain = answering("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    let url = elsewhere("s3://states", &format!("https://127.0.0.1:{plain}"));
    refused(
        statectl(&["--backend", &url, "list"]).envs(KEYS),
        19,
        "can't be reached",
    );
}

#[test]
fn silent_server_is_unreachable() {
    let port = silent();
    std::thread::scope(|scope| {
        for scheme in ["http", "https"] {
            scope.spawn(move || {
                let url = elsewhere("s3://states", &format!("{scheme}://127.0.0.1:{port}"));
                refused(
                    statectl(&["--backend", &url, "list"]).envs(KEYS),
                    19,
                    "can't be reached",
                );
            });
        }
    });
}

/// Without credentials, the client queries the metadata service of the cloud. Here the metadata service never answers,
/// as on a network that drops packets.
#[test]
fn missing_credentials_error_names_the_variables() {
    let port = silent();
    let url = elsewhere("s3://states", &format!("http://127.0.0.1:{port}"));
    let mut command = statectl(&["--backend", &url, "list"]);
    for name in [
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    ] {
        command.env_remove(name);
    }
    command
        .env("AWS_REGION", "r")
        .env("AWS_METADATA_ENDPOINT", format!("http://127.0.0.1:{port}"));
    let clock = environment().clock;
    let begun = clock.elapsed();
    refused(&mut command, 19, "no credentials: set AWS_ACCESS_KEY_ID");
    let took = clock.elapsed() - begun;
    assert!(took < Duration::from_secs(9), "the command took {took:?}");
}

/// Errors that Google's servers document. Only a mock returns them here.
#[test]
fn gcs_mock_errors_are_classified() {
    let mock = Mock::start(Manner::Smooth);
    let missing = mock.url("no-such-bucket");
    for command in ["list", "init"] {
        refused(
            &mut statectl(&["--backend", &missing, command]),
            10,
            "the bucket or container gs://no-such-bucket does not exist",
        );
    }
    for (status, code) in [
        ("401 Unauthorized", "AuthenticationRequired"),
        ("403 Forbidden", "AccessDenied"),
    ] {
        let body = format!("<?xml version='1.0'?><Error><Code>{code}</Code><Message>No.</Message></Error>");
        let port = answering(&format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/xml\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        ));
        let url = elsewhere("gs://states", &format!("http://127.0.0.1:{port}"));
        for command in ["list", "init"] {
            let ran = refused(&mut statectl(&["--backend", &url, command]), 19, "access denied");
            assert!(ran.err.contains(code), "{ran:?}");
        }
    }
}

/// Starts a server that accepts every connection and never answers. Returns its port.
fn silent() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("the listener has an address").port();
    std::thread::spawn(move || {
        let calls: Vec<_> = listener.incoming().collect();
        drop(calls);
    });
    port
}

/// S3 rejects a request if its signed time differs too much from the clock of the server.
#[test]
fn clock_skew_is_named_in_the_hint() {
    let body = "<?xml version=\"1.0\"?><Error><Code>RequestTimeTooSkewed</Code><Message>The difference between the \
                request time and the current time is too large.</Message></Error>";
    let answer = format!(
        "HTTP/1.1 403 Forbidden\r\ncontent-type: application/xml\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    let port = answering(&answer);
    let url = elsewhere("s3://states", &format!("http://127.0.0.1:{port}"));
    let ran = refused(
        statectl(&["--backend", &url, "list"]).envs(KEYS),
        19,
        "RequestTimeTooSkewed",
    );
    assert!(ran.err.contains("clock"), "{ran:?}");
}

/// Starts a server that gives the same answer to every request. Returns its port.
fn answering(answer: &str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("the listener has an address").port();
    let answer = answer.to_owned();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut stream = stream;
            let mut request = [0; 4096];
            if stream.read(&mut request).is_ok() {
                // A client that has closed the connection gets no answer.
                drop(stream.write_all(answer.as_bytes()));
            }
        }
    });
    port
}
