//! A mock of Google Cloud Storage: the part of its XML interface that the tests need. A write can have the object's
//! generation, the number of its version, as a condition. Tests with the mock don't prove that Google's servers behave
//! in the same way.

use crate::http::{self, Answer, Request};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

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

impl Mock {
    pub(super) fn start() -> Self {
        let bucket = Arc::<Mutex<Bucket>>::default();
        let shared = Arc::clone(&bucket);
        let port = http::start(move |request| {
            answer(
                request,
                &mut shared.lock().unwrap_or_else(PoisonError::into_inner),
            )
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

fn answer(request: &Request, bucket: &mut Bucket) -> Answer {
    // `/bucket/path`, or `/bucket` for a list.
    let path = request.path.trim_start_matches('/');
    let (bucket_name, name) = path.split_once('/').unwrap_or((path, ""));
    if bucket_name != BUCKET {
        let body = "<?xml version='1.0'?><Error><Code>NoSuchBucket</Code></Error>";
        return Answer::xml("404 Not Found", body);
    }
    match request.method.as_str() {
        "GET" if name.is_empty() => list(request, bucket),
        "GET" | "HEAD" => match bucket.objects.get(name) {
            Some((generation, bytes)) => found(request, *generation, bytes),
            None => Answer::empty("404 Not Found"),
        },
        "PUT" => put(request, name, bucket),
        "DELETE" => match bucket.objects.remove(name) {
            Some(_) => Answer::empty("204 No Content"),
            None => Answer::empty("404 Not Found"),
        },
        _ => Answer::empty("501 Not Implemented"),
    }
}

/// Writes an object if its generation matches the condition of the request. Generation 0 means that the object must not
/// exist.
fn put(request: &Request, name: &str, bucket: &mut Bucket) -> Answer {
    let now = bucket.objects.get(name).map_or(0, |(generation, _)| *generation);
    let wanted = request.headers.get("x-goog-if-generation-match");
    if wanted.is_some_and(|wanted| wanted.parse() != Ok(now)) {
        return Answer::empty("412 Precondition Failed");
    }
    bucket.generation += 1;
    let generation = bucket.generation;
    bucket
        .objects
        .insert(name.to_owned(), (generation, request.body.clone()));
    Answer {
        headers: described(generation),
        ..Answer::empty("200 OK")
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
        return Answer::empty("416 Range Not Satisfiable");
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
    let (prefix, behind) = (request.parameter("prefix"), request.parameter("start-after"));
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
    Answer::xml("200 OK", &body)
}
