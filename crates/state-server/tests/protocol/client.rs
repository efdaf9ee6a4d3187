//! A server over a store in memory, and a client that sends requests as bytes.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use state_core::head::SealingPolicy;
use state_core::{Clock, MemoryBackend};
use state_formats::Formats;
use state_manager::{Actor, Environment, Stacks};
use state_server::session::ForceUnlock;
use state_server::{Access, AuditLog, AuditRecord, HttpOptions, Server, ServerHandle, Sessions, Token};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub(crate) const TOKEN: &str = "0123456789abcdef0123";

/// The stack that most tests use.
pub(crate) const PATH: &str = "/v1/state/shop/production";

/// The limit of a body.
pub(crate) const MAX_BODY: usize = 1 << 20;

/// A server, its store and its audit records.
pub(crate) struct Fixture {
    pub(crate) stacks: Stacks,
    pub(crate) address: SocketAddr,
    pub(crate) audit: Arc<Mutex<Vec<AuditRecord>>>,
    handle: ServerHandle,
}

/// The status and the body of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
}

impl Answer {
    /// Asserts that the answer has this status.
    #[track_caller]
    pub(crate) fn is(self, status: u16) -> String {
        assert_eq!(self.status, status, "{self:?}");
        self.body
    }
}

impl Fixture {
    pub(crate) async fn start() -> Self {
        Self::with_rule(ForceUnlock::Allowed).await
    }

    pub(crate) async fn with_rule(rule: ForceUnlock) -> Self {
        let environment = Environment::system(Actor::default());
        let clock: Arc<dyn Clock> = Arc::clone(&environment.clock);
        let stacks = Stacks::new(Arc::new(MemoryBackend::default()), environment);
        let sessions = Sessions::new(stacks.clone(), Formats::standard(), Arc::clone(&clock))
            .with_new_stacks(SealingPolicy::Plaintext)
            .with_force_unlock(rule);
        let audit = Arc::new(Mutex::new(Vec::new()));
        let records = Arc::clone(&audit);
        let log = AuditLog::new(move |record| records.lock().unwrap().push(record.clone()));
        let access = Access::new(vec![Token::new("tess", TOKEN).unwrap()]);
        let options = HttpOptions {
            max_body: MAX_BODY,
            body_timeout: Duration::from_millis(300),
        };
        let server = Server::new(sessions, access, log, clock).with_options(options);
        let handle = server.start(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
        Self {
            stacks,
            address: handle.address(),
            audit,
            handle,
        }
    }

    pub(crate) async fn shut_down(self) {
        self.handle.shut_down().await;
    }

    /// Sends a request with credentials.
    pub(crate) async fn send(&self, method: &str, path: &str, body: impl AsRef<[u8]>) -> Answer {
        let body = body.as_ref();
        let head = request(method, path, &format!("Content-Length: {}\r\n", body.len()));
        self.send_bytes(&[head.as_bytes(), body].concat()).await
    }

    /// Sends bytes, and reads the answer until the server closes the connection.
    pub(crate) async fn send_bytes(&self, bytes: &[u8]) -> Answer {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        // The server may answer, and close the connection, before it has received everything.
        drop(stream.write_all(bytes).await);
        let mut answer = Vec::new();
        drop(stream.read_to_end(&mut answer).await);
        let text = String::from_utf8(answer).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        Answer {
            status: status.unwrap_or(0),
            body: body.to_owned(),
        }
    }

    /// Locks the stack for a client.
    pub(crate) async fn lock(&self, id: &str) -> Answer {
        self.send("LOCK", PATH, lock_info(id)).await
    }

    /// Writes a state under a lock.
    pub(crate) async fn post(&self, id: &str, state: impl AsRef<[u8]>) -> Answer {
        self.send("POST", &format!("{PATH}?ID={id}"), state).await
    }

    pub(crate) async fn get(&self) -> Answer {
        self.send("GET", PATH, "").await
    }
}

/// The head of a request with credentials.
pub(crate) fn request(method: &str, path: &str, headers: &str) -> String {
    let credentials = BASE64_STANDARD.encode(format!("tess:{TOKEN}"));
    format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
        Authorization: Basic {credentials}\r\n{headers}\r\n"
    )
}

pub(crate) fn lock_info(id: &str) -> String {
    format!(
        r#"{{"ID":"{id}","Operation":"OperationTypeApply","Info":"","Who":"anna@laptop","Version":"1.11.4","Created":"2026-11-20T19:57:34.079541713Z","Path":""}}"#
    )
}

/// A state with one resource.
pub(crate) fn state(serial: u64, lineage: &str, value: &str) -> String {
    format!(
        r#"{{
  "version": 4,
  "terraform_version": "1.11.4",
  "serial": {serial},
  "lineage": "{lineage}",
  "outputs": {{}},
  "resources": [
    {{
      "mode": "managed",
      "type": "terraform_data",
      "name": "db",
      "provider": "provider[\"terraform.io/builtin/terraform\"]",
      "instances": [
        {{
          "schema_version": 0,
          "attributes": {{
            "id": "b6d44c98",
            "input": {{
              "value": "{value}",
              "type": "string"
            }},
            "output": {{
              "value": "{value}",
              "type": "string"
            }},
            "triggers_replace": null
          }},
          "sensitive_attributes": []
        }}
      ]
    }}
  ],
  "check_results": null
}}
"#
    )
}
