//! Clients that do harm: wrong credentials, path tricks, large and slow requests, and connections that end early.

use crate::client::{Fixture, MAX_BODY, PATH, TOKEN, request, state};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

#[tokio::test]
async fn requests_without_credentials_are_refused() {
    let server = Fixture::start().await;
    server.send("POST", PATH, state(1, "l", "x")).await.is(200);
    for method in ["GET", "POST", "LOCK", "UNLOCK", "DELETE", "X"] {
        let head = format!("{method} {PATH} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n");
        // The body never arrives: it isn't waited for.
        let none = format!("{head}Content-Length: 10\r\n\r\n");
        server.send_bytes(none.as_bytes()).await.is(401);
        let wrong = format!("{head}Authorization: Basic dGVzczp3cm9uZw==\r\nContent-Length: 0\r\n\r\n");
        server.send_bytes(wrong.as_bytes()).await.is(401);
    }
    let audit = server.audit.lock().unwrap();
    let refused = audit.iter().filter(|record| record.status == 401);
    assert!(refused.clone().count() == 12 && refused.into_iter().all(|record| record.stack.is_none()));
    let text = serde_json::to_string(&*audit).unwrap();
    assert!(!text.contains(TOKEN) && !text.contains("dGVzczp3"), "{text}");
}

#[tokio::test]
async fn path_tricks_name_no_stack() {
    let server = Fixture::start().await;
    for path in [
        "/v1/state/a/..%2f..%2fb",
        "/v1/state/../..",
        "/v1/state/%2e%2e/b",
        "/v1/state/a/b%00",
        "/v1/state/a/%ff",
        "/v1/state/a/con",
        "/v1/state//b",
        "/v1/state/a/b/c",
        "/v1/state/a",
        "/",
        "*",
    ] {
        let answer = server.send("POST", path, state(1, "l", "x")).await;
        assert!([400, 404].contains(&answer.status), "{path}: {answer:?}");
    }
    assert!(server.stacks.names().await.unwrap().is_empty());
    server.send("GET", "/healthz", "").await.is(200);
}

#[tokio::test]
async fn large_slow_and_changed_bodies_are_refused() {
    let server = Fixture::start().await;
    let post = |headers: &str| request("POST", PATH, headers);
    let announced = post(&format!("Content-Length: {}\r\n", MAX_BODY + 1));
    server.send_bytes(announced.as_bytes()).await.is(413);
    let mut chunked = post("Transfer-Encoding: chunked\r\n").into_bytes();
    for _ in 0..=MAX_BODY / 65536 {
        chunked.extend_from_slice(b"10000\r\n");
        chunked.resize(chunked.len() + 65536, b' ');
        chunked.extend_from_slice(b"\r\n");
    }
    server.send_bytes(&chunked).await.is(413);
    let slow = post("Content-Length: 100\r\n");
    server.send_bytes(slow.as_bytes()).await.is(408);
    let text = state(1, "l", "x");
    let changed = format!(
        "Content-Length: {}\r\nContent-MD5: 1B2M2Y8AsgTpgAmY7PhCfg==\r\n",
        text.len()
    );
    let changed = format!("{}{text}", post(&changed));
    server.send_bytes(changed.as_bytes()).await.is(400);
    let flood = post(&"X-Flood: 0123456789\r\n".repeat(2000));
    let answer = server.send_bytes(flood.as_bytes()).await;
    assert!([0, 400, 431].contains(&answer.status), "{answer:?}");
    server.get().await.is(404);
}

#[tokio::test]
async fn half_open_connections_do_not_stop_others() {
    let server = Fixture::start().await;
    let mut idle = Vec::new();
    for _ in 0..200 {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(b"GET /v1").await.unwrap();
        idle.push(stream);
    }
    server.send("POST", PATH, state(1, "l", "x")).await.is(200);
    server.get().await.is(200);
}

#[tokio::test]
async fn slow_uploads_do_not_stop_small_ones() {
    let server = Fixture::start().await;
    let mut slow = Vec::new();
    for _ in 0..40 {
        let head = request("POST", PATH, &format!("Content-Length: {MAX_BODY}\r\n"));
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(format!("{head}{{").as_bytes()).await.unwrap();
        slow.push(stream);
    }
    // One after the other, four at a time, they would take three seconds.
    let posted = server.send("POST", PATH, state(1, "l", "x"));
    let answer = tokio::time::timeout(Duration::from_secs(2), posted).await;
    answer.expect("a small state doesn't wait").is(200);
}

#[tokio::test]
async fn name_in_another_case_reads_no_state() {
    let server = Fixture::start().await;
    server.send("POST", PATH, state(1, "l", "x")).await.is(200);
    let refused = server.send("GET", "/v1/state/shop/Production", "").await.is(422);
    assert!(refused.contains("shop/production"), "{refused}");
    server.get().await.is(200);
}

#[tokio::test]
async fn write_is_finished_after_its_client_left() {
    let server = Fixture::start().await;
    let text = state(1, "l", "x");
    let head = request("POST", PATH, &format!("Content-Length: {}\r\n", text.len()));
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream
        .write_all(format!("{head}{text}").as_bytes())
        .await
        .unwrap();
    // The request may not have been read yet: a client that closes earlier sent nothing.
    tokio::time::sleep(Duration::from_millis(20)).await;
    drop(stream);
    for _ in 0..500 {
        if server.get().await.status == 200 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the write is lost");
}

#[tokio::test]
async fn shutdown_finishes_accepted_requests() {
    let server = Fixture::start().await;
    let stacks = server.stacks.clone();
    let text = state(1, "l", "x");
    let head = request("POST", PATH, &format!("Content-Length: {}\r\n", text.len()));
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream
        .write_all(format!("{head}{text}").as_bytes())
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    let address = server.address;
    server.shut_down().await;
    assert!(
        TcpStream::connect(address).await.is_err(),
        "the server accepts no more"
    );
    let stack = stacks.get(&"shop/production".parse().unwrap()).await.unwrap();
    assert_eq!(stack.unwrap().history().await.unwrap().len(), 1);
}

#[tokio::test]
async fn addresses_beyond_loopback_are_refused() {
    use state_core::MemoryBackend;
    use state_manager::{Actor, Environment, Stacks};
    use state_server::{Access, AuditLog, Server, Sessions};
    use std::sync::Arc;

    let environment = Environment::system(Actor::default());
    let clock = Arc::clone(&environment.clock);
    let stacks = Stacks::new(Arc::new(MemoryBackend::default()), environment);
    let sessions = Sessions::new(stacks, state_formats::Formats::standard(), Arc::clone(&clock));
    let server = Server::new(sessions, Access::new(Vec::new()), AuditLog::none(), clock);
    let refused = server.start(SocketAddr::from(([0, 0, 0, 0], 0))).await;
    assert_eq!(refused.unwrap_err().kind(), std::io::ErrorKind::PermissionDenied);
}
