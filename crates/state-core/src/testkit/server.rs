//! An HTTP server on loopback for tests of clients. It records all requests and gives each the same answer.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};

/// A server that runs until the process ends. It reads one request per connection and sends the given answer.
#[derive(Debug)]
pub struct CannedServer {
    port: u16,
    requests: Receiver<String>,
}

impl CannedServer {
    /// Starts a server that gives every request this answer, for example
    /// `HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n`.
    ///
    /// # Panics
    /// Panics if no port is free.
    pub fn start(answer: impl Into<String>) -> Self {
        let answer = answer.into();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("the bound address").port();
        let (sender, requests) = channel();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let mut request = [0; 4096];
                let length = stream.read(&mut request).unwrap_or_default();
                // A client may drop a connection before it sends a request.
                if length > 0 {
                    drop(sender.send(String::from_utf8_lossy(&request[..length]).into_owned()));
                }
                drop(stream.write_all(answer.as_bytes()));
            }
        });
        Self { port, requests }
    }

    /// The URL of the server.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The requests since the last call: the first 4 KiB of each.
    pub fn requests(&self) -> Vec<String> {
        self.requests.try_iter().collect()
    }
}
