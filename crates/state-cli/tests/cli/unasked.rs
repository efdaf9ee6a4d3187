//! Requests that the user didn't ask for: credentials aren't sent to an endpoint that only project settings name, and
//! completion sends no request.

use crate::sandbox::{CommandOutput, Sandbox, run};
use state_core::testkit::server::CannedServer;

const KEYS: [(&str, &str); 3] = [
    ("AWS_ACCESS_KEY_ID", "CANARY"),
    ("AWS_SECRET_ACCESS_KEY", "CANARY"),
    ("AWS_REGION", "r"),
];

/// Starts a server without any object.
fn server() -> CannedServer {
    CannedServer::start("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
}

fn with_keys(sandbox: &Sandbox, arguments: &[&str], variables: &[(&str, &str)]) -> CommandOutput {
    let mut command = sandbox.command(arguments);
    for name in [
        "AWS_ENDPOINT_URL",
        "AWS_ENDPOINT_URL_S3",
        "AZURE_STORAGE_ENDPOINT",
    ] {
        command.env_remove(name);
    }
    run(command.envs(KEYS).envs(variables.iter().copied()))
}

#[test]
fn project_settings_send_credentials_to_no_endpoint() {
    let server = server();
    let endpoint = server.url();
    for parameter in ["endpoint", "endp%6fint"] {
        let sandbox = Sandbox::new();
        sandbox.write(
            "statectl.toml",
            format!("backend = \"s3://states?{parameter}={endpoint}\"\n"),
        );
        for arguments in [
            &["list"][..],
            &["init"],
            &["up", "--yes"],
            &["refresh"],
            &["doctor"],
            &["stack", "ls"],
        ] {
            sandbox.write("state.yaml", "resources: {}\n");
            let refused = with_keys(&sandbox, arguments, &[]).exits(20);
            assert!(
                refused.stderr.contains("statectl.toml names the endpoint"),
                "{refused:?}"
            );
            assert!(refused.stderr.contains("--backend"), "{refused:?}");
        }
    }
    assert_eq!(server.requests(), [""; 0]);
}

#[test]
fn endpoint_that_the_user_names_too_is_used() {
    let server = server();
    let endpoint = server.url();
    let sandbox = Sandbox::new();
    let url = format!("s3://states?endpoint={endpoint}");
    sandbox.write("statectl.toml", format!("backend = \"{url}\"\n"));
    let is_used = || !server.requests().is_empty();
    with_keys(&sandbox, &["list"], &[("AWS_ENDPOINT_URL", &endpoint)]).exits(10);
    assert!(is_used(), "the environment names the endpoint");
    with_keys(&sandbox, &["list", "--backend", &url], &[]).exits(10);
    assert!(is_used(), "the URL on the command line names the endpoint");
    let config = format!("endpoint={endpoint}");
    with_keys(&sandbox, &["list", "--backend-config", &config], &[]).exits(10);
    assert!(is_used(), "`--backend-config` names the endpoint");
    std::fs::create_dir_all(sandbox.path().join("user-config/statectl")).unwrap();
    sandbox.write(
        "user-config/statectl/config.toml",
        format!("[profiles.mine]\nbackend = \"{url}\"\n"),
    );
    with_keys(&sandbox, &["list"], &[]).exits(10);
    assert!(is_used(), "the user's settings name the endpoint");
}

#[test]
fn completion_sends_no_request_for_a_project() {
    let server = server();
    let endpoint = server.url();
    let sandbox = Sandbox::new();
    sandbox.write("statectl.toml", "backend = \"s3://states\"\n");
    for kind in ["stacks", "addresses", "revisions", "outputs", "operations"] {
        let variables = [("AWS_ENDPOINT_URL", &*endpoint)];
        let offered = with_keys(&sandbox, &["__words", kind], &variables).exits(0);
        assert_eq!((&*offered.stdout, &*offered.stderr), ("", ""));
    }
    assert_eq!(server.requests(), [""; 0]);
}

#[test]
fn disabled_certificate_check_is_refused_with_a_hint() {
    let sandbox = Sandbox::new();
    let url = "s3://states?endpoint=https://127.0.0.1:1";
    for arguments in [&["list", "--backend", url][..], &["doctor", url]] {
        let variables = [("AWS_ALLOW_INVALID_CERTIFICATES", "true")];
        let refused = with_keys(&sandbox, arguments, &variables).exits(2);
        assert!(refused.stderr.contains("SSL_CERT_FILE"), "{refused:?}");
        assert!(
            refused.stderr.contains("ALLOW_INVALID_CERTIFICATES"),
            "{refused:?}"
        );
    }
}

#[test]
fn message_repeats_no_user_and_no_password_of_a_url() {
    let sandbox = Sandbox::new();
    for url in [
        "s3://me:CANARY@states",
        "s3://CANARY@states/x",
        "s3://me:CAN/ARY@states",
        "kv://me:CANARY@host",
        "s3://states?endpoint=http://me:CANARY@127.0.0.1:1",
        "s3://states?region=http%3A%2F%2Fme:CANARY%40host",
    ] {
        for arguments in [
            &["list"][..],
            &["list", "--json"],
            &["init"],
            &["doctor"],
            &["config", "show"],
            &["whoami"],
        ] {
            let ran = with_keys(&sandbox, &[arguments, &["--backend", url]].concat(), &[]);
            let shown = format!("{}{}", ran.stdout, ran.stderr);
            assert!(!shown.contains("CANARY"), "{url}: {ran:?}");
        }
    }
}
