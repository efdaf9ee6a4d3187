//! A mock of Google Cloud Storage: the part of its XML interface that the tests need. A write can have the object's
//! generation, the number of its version, as a condition. Tests with the mock don't prove that Google's servers behave
//! in the same way.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// The bucket of a mock: generation and content of each object by path, and the last used generation.
#[derive(Default)]
struct Bucket {
    objects: BTreeMap<String, (u64, Vec<u8>)>,
    generation: u64,
}

/// A running mock. Its threads run until the test process exits.
pub(super) struct Mock {
    port: u16,
    bucket: Arc<Mutex<Bucket>>,
    /// Folder of the service account file. With this account, the client requests no token.
    folder: tempfile::TempDir,
}

/// The only bucket of the mock.
const BUCKET: &str = "states";

/// A fake service account.
const ACCOUNT: &str = r#"{"private_key":"","private_key_id":"","client_email":"","disable_oauth":true}"#;

struct Request {
    method: String,
    path: String,
    query: BTreeMap<String, String>,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

struct Answer {
    status: &'static str,
    headers: Vec<String>,
    body: Vec<u8>,
    /// Value of `content-length`. The answer to HEAD has no body, but the length of the object.
    length: usize,
}

impl Mock {
    pub(super) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("the listener has an address").port();
        let bucket = Arc::<Mutex<Bucket>>::default();
        let shared = Arc::clone(&bucket);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let bucket = Arc::clone(&shared);
                thread::spawn(move || serve(stream, &bucket));
            }
        });
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("account.json"), ACCOUNT).expect("the account file is written");
        Self { port, bucket, folder }
    }

    /// Returns the store URL of a bucket of the mock.
    pub(super) fn url(&self, bucket: &str) -> String {
        let account = self.folder.path().join("account.json");
        let endpoint = format!("http://127.0.0.1:{}", self.port);
        format!(
            "gs://{bucket}?endpoint={endpoint}&service-account={}",
            account.display()
        )
    }

    /// Returns the number of stored objects.
    pub(super) fn objects(&self) -> usize {
        self.bucket
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .objects
            .len()
    }
}

/// Answers all requests of a connection.
fn serve(stream: TcpStream, bucket: &Mutex<Bucket>) {
    let Ok(mut out) = stream.try_clone() else {
        return;
    };
    let mut input = BufReader::new(stream);
    while let Some(request) = read(&mut input) {
        let is_head = request.method == "HEAD";
        let answer = answer(
            &request,
            &mut bucket.lock().unwrap_or_else(PoisonError::into_inner),
        );
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

fn answer(request: &Request, bucket: &mut Bucket) -> Answer {
    // `/bucket/path`, or `/bucket` for a list.
    let path = request.path.trim_start_matches('/');
    let (bucket_name, name) = path.split_once('/').unwrap_or((path, ""));
    if bucket_name != BUCKET {
        let body = "<?xml version='1.0'?><Error><Code>NoSuchBucket</Code></Error>";
        return Answer {
            headers: vec!["content-type: application/xml".to_owned()],
            length: body.len(),
            body: body.into(),
            ..status("404 Not Found")
        };
    }
    match request.method.as_str() {
        "GET" if name.is_empty() => list(request, bucket),
        "GET" | "HEAD" => match bucket.objects.get(name) {
            Some((generation, bytes)) => found(request, *generation, bytes),
            None => status("404 Not Found"),
        },
        "PUT" => put(request, name, bucket),
        "DELETE" => match bucket.objects.remove(name) {
            Some(_) => status("204 No Content"),
            None => status("404 Not Found"),
        },
        _ => status("501 Not Implemented"),
    }
}

fn status(status: &'static str) -> Answer {
    Answer {
        status,
        headers: Vec::new(),
        body: Vec::new(),
        length: 0,
    }
}

/// Writes an object if its generation matches the condition of the request. Generation 0 means that the object must not
/// exist.
fn put(request: &Request, name: &str, bucket: &mut Bucket) -> Answer {
    let now = bucket.objects.get(name).map_or(0, |(generation, _)| *generation);
    let wanted = request.headers.get("x-goog-if-generation-match");
    if wanted.is_some_and(|wanted| wanted.parse() != Ok(now)) {
        return status("412 Precondition Failed");
    }
    bucket.generation += 1;
    let generation = bucket.generation;
    bucket
        .objects
        .insert(name.to_owned(), (generation, request.body.clone()));
    Answer {
        headers: described(generation),
        ..status("200 OK")
    }
}

/// Returns the headers that describe an object of this generation.
fn described(generation: u64) -> Vec<String> {
    vec![
        format!("etag: \"{generation}\""),
        format!("x-goog-generation: {generation}"),
        "last-modified: Sat, 21 Nov 2026 12:00:00 GMT".to_owned(),
    ]
}

/// Returns the content of an object, or the part of it in the `range` header of the request.
fn found(request: &Request, generation: u64, bytes: &[u8]) -> Answer {
    let mut headers = described(generation);
    let range = request
        .headers
        .get("range")
        .and_then(|range| range.strip_prefix("bytes="));
    let Some((first, last)) = range.and_then(|range| range.split_once('-')) else {
        return Answer {
            status: "200 OK",
            headers,
            body: bytes.to_vec(),
            length: bytes.len(),
        };
    };
    let first: usize = first.parse().unwrap_or(0);
    let end = last
        .parse()
        .map_or(bytes.len(), |last: usize| bytes.len().min(last + 1));
    let Some(part) = bytes.get(first..end).filter(|part| !part.is_empty()) else {
        return status("416 Range Not Satisfiable");
    };
    headers.push(format!(
        "content-range: bytes {first}-{}/{}",
        end - 1,
        bytes.len()
    ));
    Answer {
        status: "206 Partial Content",
        headers,
        body: part.to_vec(),
        length: part.len(),
    }
}

/// Lists all objects of a prefix on one page, because the tests create fewer than a thousand objects.
fn list(request: &Request, bucket: &Bucket) -> Answer {
    let text = |name: &str| request.query.get(name).cloned().unwrap_or_default();
    let (prefix, behind) = (text("prefix"), text("start-after"));
    let mut body = String::from("<?xml version=\"1.0\"?><ListBucketResult><IsTruncated>false</IsTruncated>");
    for (name, (generation, bytes)) in &bucket.objects {
        if name.starts_with(&prefix) && *name > behind {
            body.push_str(&format!(
                "<Contents><Key>{name}</Key><Size>{}</Size><ETag>\"{generation}\"</ETag>\
                 <LastModified>2026-11-21T12:00:00.000Z</LastModified></Contents>",
                bytes.len()
            ));
        }
    }
    body.push_str("</ListBucketResult>");
    Answer {
        status: "200 OK",
        headers: vec!["content-type: application/xml".to_owned()],
        length: body.len(),
        body: body.into_bytes(),
    }
}
