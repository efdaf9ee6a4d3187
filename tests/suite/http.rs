//! A small HTTP server for the mocks of object stores in these tests.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

/// A request. The names of its headers are in lower case.
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: BTreeMap<String, String>,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

impl Request {
    /// Returns the value of a parameter; the empty text if it is missing.
    pub(crate) fn parameter(&self, name: &str) -> String {
        self.query.get(name).cloned().unwrap_or_default()
    }
}

/// The answer to a request.
pub(crate) struct Answer {
    pub(crate) status: &'static str,
    pub(crate) headers: Vec<String>,
    pub(crate) body: Vec<u8>,
    /// Value of `content-length`. The answer to HEAD has no body, but the length of the object.
    pub(crate) length: usize,
}

impl Answer {
    /// An answer without a body.
    pub(crate) const fn empty(status: &'static str) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: Vec::new(),
            length: 0,
        }
    }

    /// An answer with an XML document.
    pub(crate) fn xml(status: &'static str, document: &str) -> Self {
        Self {
            status,
            headers: vec!["content-type: application/xml".to_owned()],
            body: document.into(),
            length: document.len(),
        }
    }
}

/// Starts a server on a free port of this machine and returns the port. Each connection has a thread. The server runs
/// until the test process exits.
pub(crate) fn start(answer: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("the listener has an address").port();
    let answer = Arc::new(answer);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answer = Arc::clone(&answer);
            thread::spawn(move || serve(stream, &*answer));
        }
    });
    port
}

/// Answers all requests of a connection.
fn serve(stream: TcpStream, answer: &impl Fn(&Request) -> Answer) {
    let Ok(mut out) = stream.try_clone() else {
        return;
    };
    let mut input = BufReader::new(stream);
    while let Some(request) = read(&mut input) {
        let is_head = request.method == "HEAD";
        let answer = answer(&request);
        let mut head = format!("HTTP/1.1 {}\r\n", answer.status);
        for header in &answer.headers {
            head.push_str(&format!("{header}\r\n"));
        }
        head.push_str(&format!("content-length: {}\r\n\r\n", answer.length));
        let body = if is_head { &[] } else { &*answer.body };
        // Write head and body at once, because a second write would wait for a delayed acknowledgement of the first.
        if out.write_all(&[head.as_bytes(), body].concat()).is_err() {
            return;
        }
    }
}

/// Reads a request; `None` if the connection was closed or the request is malformed.
fn read(input: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut line = String::new();
    input.read_line(&mut line).ok()?;
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, target) = (words.next()?, words.next()?);
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        input.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else {
            break;
        };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length = headers
        .get("content-length")
        .and_then(|text| text.parse().ok())
        .unwrap_or(0);
    let mut body = vec![0; length];
    input.read_exact(&mut body).ok()?;
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let query = query.split('&').filter_map(|part| part.split_once('='));
    Some(Request {
        method,
        path: decoded(path),
        query: query
            .map(|(key, value)| (key.to_owned(), decoded(value)))
            .collect(),
        headers,
        body,
    })
}

/// Decodes the percent-encoding of a URL.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        let digits = after.first_chunk::<2>().filter(|_| first == b'%');
        let byte = digits.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        if let Some(byte) = byte {
            bytes.push(byte);
            rest = &after[2..];
        } else {
            bytes.push(first);
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
