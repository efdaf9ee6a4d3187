//! A mock of Google Cloud Storage: the part of its XML interface that the tests need. A write or deletion can have the
//! object's generation, the number of its version, as a condition. Lists have pages. Tests with the mock don't prove
//! that Google's servers behave in the same way.

use crate::http::{self, Answer, Request};
use state_core::Clock;
use state_manager::{Actor, Environment};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Number of objects on a page of a list. Google's pages have a thousand.
const PAGE: usize = 20;

/// The shortest time between two changes of one object, as Google documents it.
const BETWEEN_CHANGES: Duration = Duration::from_secs(1);

/// One of so many requests of a [`Manner::Strained`] server fails.
const FAILURES: usize = 13;

/// How a mock treats requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    /// Every request is carried out at once.
    Smooth,
    /// An object can be changed once a second, and further changes get 429. Some requests get 503, of which every other
    /// one was carried out.
    Strained,
}

struct Object {
    generation: u64,
    modified: Duration,
    bytes: Vec<u8>,
}

/// The bucket of a mock.
struct Bucket {
    manner: Manner,
    clock: Arc<dyn Clock>,
    /// The start of the mock by this clock. It is midnight of the only day of the mock.
    begun: Duration,
    objects: BTreeMap<String, Object>,
    /// The last used generation.
    generation: u64,
    /// The time of the last change of each object, also of deleted ones.
    changes: BTreeMap<String, Duration>,
    requests: usize,
    /// The number of changes that were refused because they came too soon.
    refused: usize,
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
    pub(super) fn start(manner: Manner) -> Self {
        let clock = Environment::system(Actor::default()).clock;
        let bucket = Arc::new(Mutex::new(Bucket {
            manner,
            begun: clock.elapsed(),
            clock,
            objects: BTreeMap::new(),
            generation: 0,
            changes: BTreeMap::new(),
            requests: 0,
            refused: 0,
        }));
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
        self.bucket().objects.len()
    }

    /// Returns the number of changes that came too soon after the last one of the same object.
    pub(super) fn refused(&self) -> usize {
        self.bucket().refused
    }

    fn bucket(&self) -> std::sync::MutexGuard<'_, Bucket> {
        self.bucket.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Answers a request in the manner of the bucket.
fn answer(request: &Request, bucket: &mut Bucket) -> Answer {
    bucket.requests += 1;
    let fails = bucket.manner == Manner::Strained && bucket.requests.is_multiple_of(FAILURES);
    if fails && bucket.requests.is_multiple_of(2) {
        return Answer::empty("503 Service Unavailable");
    }
    let answer = carried_out(request, bucket);
    match fails {
        true => Answer::empty("503 Service Unavailable"),
        false => answer,
    }
}

fn carried_out(request: &Request, bucket: &mut Bucket) -> Answer {
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
            Some(object) => found(request, object),
            None => Answer::empty("404 Not Found"),
        },
        "PUT" | "DELETE" => change(request, name, bucket),
        _ => Answer::empty("501 Not Implemented"),
    }
}

/// Writes or deletes an object if its generation matches the condition of the request. Generation 0 means that the
/// object must not exist.
fn change(request: &Request, name: &str, bucket: &mut Bucket) -> Answer {
    let now = bucket.clock.elapsed() - bucket.begun;
    let last = bucket.changes.get(name);
    if bucket.manner == Manner::Strained && last.is_some_and(|last| now - *last < BETWEEN_CHANGES) {
        bucket.refused += 1;
        let body = "<?xml version='1.0'?><Error><Code>SlowDown</Code></Error>";
        return Answer::xml("429 Too Many Requests", body);
    }
    let generation = bucket.objects.get(name).map_or(0, |object| object.generation);
    let wanted = request.headers.get("x-goog-if-generation-match");
    if wanted.is_some_and(|wanted| wanted.parse() != Ok(generation)) {
        return Answer::empty("412 Precondition Failed");
    }
    if request.method == "DELETE" && generation == 0 {
        return Answer::empty("404 Not Found");
    }
    bucket.changes.insert(name.to_owned(), now);
    if request.method == "DELETE" {
        bucket.objects.remove(name);
        return Answer::empty("204 No Content");
    }
    bucket.generation += 1;
    let object = Object {
        generation: bucket.generation,
        modified: now,
        bytes: request.body.clone(),
    };
    let headers = described(&object);
    bucket.objects.insert(name.to_owned(), object);
    Answer {
        headers,
        ..Answer::empty("200 OK")
    }
}

/// Returns the headers that describe an object.
fn described(object: &Object) -> Vec<String> {
    let generation = object.generation;
    vec![
        format!("etag: \"{generation}\""),
        format!("x-goog-generation: {generation}"),
        format!("last-modified: Sat, 21 Nov 2026 {} GMT", time_of_day(object)),
    ]
}

/// The time of day of an object's last change.
fn time_of_day(object: &Object) -> String {
    let seconds = object.modified.as_secs();
    format!(
        "{:02}:{:02}:{:02}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    )
}

/// Returns the content of an object, or the part of it in the `range` header of the request.
fn found(request: &Request, object: &Object) -> Answer {
    let (bytes, mut headers) = (&object.bytes, described(object));
    let range = request
        .headers
        .get("range")
        .and_then(|range| range.strip_prefix("bytes="));
    let Some((first, last)) = range.and_then(|range| range.split_once('-')) else {
        return Answer {
            status: "200 OK",
            headers,
            body: bytes.clone(),
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

/// Lists a page of the objects of a prefix. The token of the next page is the last name on this one.
fn list(request: &Request, bucket: &Bucket) -> Answer {
    let prefix = request.parameter("prefix");
    let behind = request
        .parameter("continuation-token")
        .max(request.parameter("start-after"));
    let all = bucket.objects.iter();
    let mut left = all.filter(|(name, _)| name.starts_with(&prefix) && **name > behind);
    let page: Vec<_> = left.by_ref().take(PAGE).collect();
    let last = page.last().filter(|_| left.next().is_some());
    let next = last.map_or(String::new(), |(name, _)| {
        format!("<NextContinuationToken>{name}</NextContinuationToken>")
    });
    let mut body = format!(
        "<?xml version=\"1.0\"?><ListBucketResult><IsTruncated>{}</IsTruncated>{next}",
        last.is_some()
    );
    for (name, object) in page {
        body.push_str(&format!(
            "<Contents><Key>{name}</Key><Size>{}</Size><ETag>\"{}\"</ETag>\
             <LastModified>2026-11-21T{}.000Z</LastModified></Contents>",
            object.bytes.len(),
            object.generation,
            time_of_day(object)
        ));
    }
    body.push_str("</ListBucketResult>");
    Answer::xml("200 OK", &body)
}
