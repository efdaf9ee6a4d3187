//! `statectl serve`: its token file, its address and its audit lines.

use crate::programs::signal;
use crate::sandbox::Sandbox;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Stdio;

/// Writes a token file that only its owner can read.
fn tokens(sandbox: &Sandbox, text: &str) {
    let file = sandbox.write("tokens", text);
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(file, mode).unwrap();
}

/// Starts `serve`, sends a request with these headers, and ends the server. Returns the answer, and what the server printed on
/// stdout.
pub(crate) fn answered(sandbox: &Sandbox, path: &str, headers: &str) -> (String, String) {
    tokens(sandbox, "anna 0123456789abcdef0123\n");
    let arguments = ["serve", "--tokens", "tokens", "--listen", "127.0.0.1:0"];
    let mut command = sandbox.command(&arguments);
    let mut server = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(server.stderr.take().unwrap()).lines();
    let address = lines
        .find_map(|line| {
            line.unwrap()
                .strip_prefix("listening on http://")
                .map(str::to_owned)
        })
        .unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{headers}\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    signal(&server, "-TERM");
    let mut out = String::new();
    server.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    assert!(server.wait().unwrap().success());
    (answer, out)
}

#[test]
fn request_without_a_token_is_refused_and_audited() {
    let sandbox = Sandbox::new();
    sandbox.run(&["init"]).exits(0);
    let (answer, audit) = answered(&sandbox, "/v1/state/shop/production?ID=a", "");
    assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
    assert!(
        audit.contains("\"status\":401") && !audit.contains("0123456789"),
        "{audit}"
    );
}

#[test]
fn stack_that_was_rolled_back_is_not_served() {
    let sandbox = Sandbox::with_shop();
    let name = sandbox.run(&["list", "--json"]).data("list")["stack"]
        .as_str()
        .unwrap()
        .to_owned();
    let path = format!("/v1/state/{name}");
    // The user and the token of the file, in base64.
    let headers = "Authorization: Basic YW5uYTowMTIzNDU2Nzg5YWJjZGVmMDEyMw==\r\n";
    let (answer, _) = answered(&sandbox, &path, headers);
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let (store, kept) = (sandbox.path().join(".state"), sandbox.path().join("kept"));
    let copied = std::process::Command::new("cp")
        .arg("-a")
        .args([&store, &kept])
        .status();
    assert!(copied.unwrap().success());
    sandbox
        .run(&["taint", "terraform_data.database", "--yes"])
        .exits(0);
    std::fs::remove_dir_all(&store).unwrap();
    std::fs::rename(&kept, &store).unwrap();
    let (answer, audit) = answered(&sandbox, &path, headers);
    assert!(answer.starts_with("HTTP/1.1 422 "), "{answer}");
    assert!(answer.contains("rolled back"), "{answer}");
    assert!(audit.contains("rolled back"), "{audit}");
}

#[test]
fn unsafe_token_files_and_addresses_are_refused() {
    let sandbox = Sandbox::new();
    sandbox.run(&["init"]).exits(0);
    let serve = |listen: &str| sandbox.run(&["serve", "--tokens", "tokens", "--listen", listen]);
    sandbox.write("tokens", "anna 0123456789abcdef0123\n");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    std::fs::set_permissions(sandbox.path().join("tokens"), mode).unwrap();
    let refused = serve("127.0.0.1:0").exits(4);
    assert!(refused.stderr.contains("chmod 600"), "{refused:?}");
    tokens(&sandbox, "anna short\n");
    let refused = serve("127.0.0.1:0").exits(1);
    assert!(
        refused.stderr.contains("tokens, line 1") && !refused.stderr.contains("short"),
        "{refused:?}"
    );
    tokens(&sandbox, "anna 0123456789abcdef0123\n");
    let refused = serve("0.0.0.0:0").exits(1);
    assert!(refused.stderr.contains("loopback"), "{refused:?}");
}
