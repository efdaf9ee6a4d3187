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
        "AZURE_STORAGE_USE_EMULATOR",
        "GOOGLE_APPLICATION_CREDENTIALS",
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
fn emulator_of_a_project_receives_no_credentials() {
    let server = server();
    let sandbox = Sandbox::new();
    sandbox.write("statectl.toml", "backend = \"az://container/p?emulator=true\"\n");
    let url = server.url();
    let public = [
        ("AZURITE_BLOB_STORAGE_URL", &*url),
        ("AZURE_STORAGE_ACCOUNT_NAME", "canary"),
    ];
    for (name, value) in [
        ("AZURE_STORAGE_TOKEN", "CANARY"),
        ("AZURE_STORAGE_SAS_KEY", "sv=2021&sig=CANARY"),
        // Not base64: a client that used the key would refuse it.
        ("AZURE_STORAGE_ACCOUNT_KEY", "CANARY"),
    ] {
        let variables = [&public[..], &[(name, value)]].concat();
        with_keys(&sandbox, &["list"], &variables).exits(10);
        let requests = server.requests();
        assert!(!requests.is_empty(), "{name}");
        for request in requests {
            assert!(!request.to_uppercase().contains("CANARY"), "{name}: {request}");
            assert!(
                request.contains("SharedKey devstoreaccount1:"),
                "{name}: {request}"
            );
        }
    }
}

#[test]
fn key_of_the_command_line_is_not_for_the_emulator_of_a_project() {
    let server = server();
    let sandbox = Sandbox::new();
    let url = "az://container/p?emulator=true";
    sandbox.write("statectl.toml", format!("backend = \"{url}\"\n"));
    let azurite = [("AZURITE_BLOB_STORAGE_URL", &*server.url())];
    let list = ["list", "--backend-config", "access-key=Q0FOQVJZ"];
    let refused = with_keys(&sandbox, &list, &azurite).exits(20);
    assert!(
        refused.stderr.contains("statectl.toml names the emulator"),
        "{refused:?}"
    );
    assert_eq!(server.requests(), [""; 0]);
    let own = [&list[..], &["--backend", url]].concat();
    with_keys(&sandbox, &own, &azurite).exits(10);
    assert!(
        !server.requests().is_empty(),
        "the command line names the emulator"
    );
}

#[test]
fn project_settings_name_no_key_file_of_a_service_account() {
    let sandbox = Sandbox::new();
    let account = r#"{"private_key": "x", "private_key_id": "x", "client_email": "x",
        "gcs_base_url": "https://127.0.0.1:1", "disable_oauth": true}"#;
    let file = sandbox.write("account.json", account);
    let file = file.to_str().unwrap();
    let url = format!("gs://states?service-account={file}");
    sandbox.write("statectl.toml", format!("backend = \"{url}\"\n"));
    let refused = with_keys(&sandbox, &["list"], &[]).exits(20);
    assert!(
        refused.stderr.contains("names the service account"),
        "{refused:?}"
    );
    with_keys(&sandbox, &["list"], &[("GOOGLE_APPLICATION_CREDENTIALS", file)]).exits(19);
    with_keys(&sandbox, &["list", "--backend", &url], &[]).exits(19);
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
        "s3:me:CANARY@states",
        "s3://states?region=r&access-key-id=CANARY&secret-access-key=CANARY&zz=1",
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
        sandbox.write("statectl.toml", format!("backend = '{url}'\n"));
        for arguments in [&["list"][..], &["config", "show"]] {
            let ran = with_keys(&sandbox, arguments, &[]);
            let shown = format!("{}{}", ran.stdout, ran.stderr);
            assert!(!shown.contains("CANARY"), "{url}: {ran:?}");
        }
        std::fs::remove_file(sandbox.path().join("statectl.toml")).unwrap();
    }
}
