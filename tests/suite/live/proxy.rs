//! A proxy in front of an object store that counts requests and rounds. It delays each request, so that requests which a
//! client sends at the same time overlap.
//!
//! The round of a request is one more than the highest round of the requests that were answered before it arrived. So the
//! highest round is the longest chain of requests that a client sent one after the other.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// A running proxy. It runs until the test process exits.
pub(super) struct CountingProxy {
    address: String,
    counts: Arc<Mutex<Counts>>,
}

#[derive(Debug, Default)]
struct Counts {
    /// The delay of each request; none if nothing is counted now.
    delay: Option<Duration>,
    /// The first line and the round of each request, in the order of their arrival.
    requests: Vec<(String, usize)>,
    /// The highest round of the answered requests.
    answered: usize,
}

/// The requests of one command.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) requests: usize,
    pub(super) rounds: usize,
    /// The first line of each request after its round, for messages.
    pub(super) lines: Vec<String>,
}

impl CountingProxy {
    /// Starts a proxy in front of the server at `host:port`.
    pub(super) fn start(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let counts = Arc::<Mutex<Counts>>::default();
        let (shared, server) = (Arc::clone(&counts), server.to_owned());
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (counts, server) = (Arc::clone(&shared), server.clone());
                thread::spawn(move || relay(client, &server, &counts));
            }
        });
        Self { address, counts }
    }

    /// The address of the proxy, `host:port`.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Counts the requests that `work` sends, and delays each of them.
    pub(super) fn measure(&self, delay: Duration, work: impl FnOnce()) -> Measured {
        *lock(&self.counts) = Counts {
            delay: Some(delay),
            ..Counts::default()
        };
        work();
        let counts = std::mem::take(&mut *lock(&self.counts));
        Measured {
            requests: counts.requests.len(),
            rounds: counts.requests.iter().map(|(_, round)| *round).max().unwrap_or(0),
            lines: counts
                .requests
                .iter()
                .map(|(line, round)| format!("{round} {line}"))
                .collect(),
        }
    }
}

fn lock(counts: &Mutex<Counts>) -> MutexGuard<'_, Counts> {
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Forwards the requests of one connection and their answers.
fn relay(client: TcpStream, server: &str, counts: &Mutex<Counts>) -> Option<()> {
    let mut to_client = client.try_clone().ok()?;
    let mut client = BufReader::new(client);
    loop {
        let request = Message::read(&mut client, None)?;
        let first_line = request.first_line();
        let round = arrived(counts, &first_line).map(|(round, delay)| {
            thread::sleep(delay);
            round
        });
        // A server closes a connection that is idle for some seconds. The client wouldn't see that of a connection that the
        // proxy keeps, and would send its next request in vain.
        let mut upstream = TcpStream::connect(server).ok()?;
        upstream.write_all(&request.bytes).ok()?;
        let method = first_line.split(' ').next().unwrap_or_default();
        let answer = Message::read(&mut BufReader::new(upstream), Some(method))?;
        if let Some(round) = round {
            let mut counts = lock(counts);
            counts.answered = counts.answered.max(round);
        }
        to_client.write_all(&answer.bytes).ok()?;
    }
}

/// Counts a request and returns its round and its delay; none if nothing is counted now.
fn arrived(counts: &Mutex<Counts>, first_line: &str) -> Option<(usize, Duration)> {
    let mut counts = lock(counts);
    let delay = counts.delay?;
    let round = counts.answered + 1;
    counts.requests.push((first_line.to_owned(), round));
    Some((round, delay))
}

/// A request or an answer: head and body, as they were received.
struct Message {
    bytes: Vec<u8>,
}

impl Message {
    /// Reads a request, or the answer to a request with this method.
    fn read(input: &mut BufReader<TcpStream>, answer_to: Option<&str>) -> Option<Self> {
        let mut bytes = Vec::new();
        let (mut length, mut is_chunked) = (0, false);
        loop {
            let before = bytes.len();
            if input.read_until(b'\n', &mut bytes).ok()? == 0 {
                return None;
            }
            let line = String::from_utf8_lossy(&bytes[before..])
                .trim()
                .to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            match line.split_once(": ") {
                Some(("content-length", value)) => length = value.parse().ok()?,
                Some(("transfer-encoding", "chunked")) => is_chunked = true,
                _ => {}
            }
        }
        let mut message = Self { bytes };
        let status = message.first_line();
        let status = status.split(' ').nth(1).unwrap_or_default();
        let is_empty = answer_to == Some("HEAD") || answer_to.is_some() && matches!(status, "204" | "304");
        match (is_empty, is_chunked) {
            (true, _) => {}
            (false, true) => message.read_chunks(input)?,
            (false, false) => message.read_bytes(input, length)?,
        }
        Some(message)
    }

    fn read_bytes(&mut self, input: &mut BufReader<TcpStream>, length: usize) -> Option<()> {
        let before = self.bytes.len();
        self.bytes.resize(before + length, 0);
        input.read_exact(&mut self.bytes[before..]).ok()
    }

    fn read_chunks(&mut self, input: &mut BufReader<TcpStream>) -> Option<()> {
        loop {
            let before = self.bytes.len();
            input.read_until(b'\n', &mut self.bytes).ok()?;
            let size = String::from_utf8_lossy(&self.bytes[before..]).trim().to_owned();
            let size = usize::from_str_radix(&size, 16).ok()?;
            // Each chunk ends with an empty line, the last one too.
            self.read_bytes(input, size + 2)?;
            if size == 0 {
                return Some(());
            }
        }
    }

    fn first_line(&self) -> String {
        let line = self.bytes.split(|&byte| byte == b'\r').next().unwrap_or_default();
        String::from_utf8_lossy(line).into_owned()
    }
}
