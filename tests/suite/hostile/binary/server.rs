//! A server that speaks the part of S3's protocol that the backend uses, over stores that an attacker edits between two
//! requests. Each run of the program has a store of its own. All stores have the same URL, because a client remembers
//! stacks by their URL; the access key of a request selects the store.

use crate::http::{self, Answer, Request};
use bytes::Bytes;
use futures_util::TryStreamExt;
use state_backend_object_store::object_store::memory::InMemory;
use state_backend_object_store::object_store::path::Path;
use state_backend_object_store::object_store::{
    Error, GetOptions, GetRange, ListResult, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutOptions,
    UpdateVersion,
};
use state_backend_object_store::testkit::HostileStore;
use state_core::testkit::hostile::{Attacker, StoreImage};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The name of every bucket.
const BUCKET: &str = "states";

/// A running server for the stores of many runs.
pub(super) struct Server {
    port: u16,
    buckets: Arc<Mutex<BTreeMap<String, Arc<Bucket>>>>,
    /// Number of the next access key.
    next: AtomicU64,
}

/// A store under attack.
pub(super) struct Bucket {
    /// The access key that selects this store.
    pub(super) key: String,
    pub(super) store: Arc<InMemory>,
    pub(super) attacker: Attacker,
    hostile: HostileStore,
    /// Held during a request, so that the attacker records exactly the bytes that the client wrote.
    in_request: Mutex<()>,
    /// The contents that the store returned to the client, in order, each with the path of its object.
    served: Mutex<Vec<(String, Bytes)>>,
}

impl Server {
    pub(super) fn start() -> Self {
        let buckets = Arc::<Mutex<BTreeMap<String, Arc<Bucket>>>>::default();
        let shared = Arc::clone(&buckets);
        let port = http::start(move |request| {
            let bucket = access_key(request).and_then(|key| lock(&shared).get(key).cloned());
            match bucket {
                Some(bucket) => bucket.answer(request),
                None => Answer::empty("403 Forbidden"),
            }
        });
        Self {
            port,
            buckets,
            next: AtomicU64::new(0),
        }
    }

    /// The URL of the stores of this server.
    pub(super) fn url(&self) -> String {
        format!("s3://{BUCKET}?endpoint=http://127.0.0.1:{}", self.port)
    }

    /// Serves a store under a new access key. The attacker has recorded the present version of each object.
    pub(super) fn open(&self, store: InMemory) -> Arc<Bucket> {
        let store = Arc::new(store);
        let attacker = Attacker::default();
        let inner: Arc<dyn ObjectStore> = Arc::<InMemory>::clone(&store);
        let hostile = HostileStore::new(inner, attacker.clone());
        wait(hostile.record_all()).expect("a store in memory is readable");
        let bucket = Arc::new(Bucket {
            key: format!("run{}", self.next.fetch_add(1, Ordering::Relaxed)),
            store,
            attacker,
            hostile,
            in_request: Mutex::default(),
            served: Mutex::default(),
        });
        lock(&self.buckets).insert(bucket.key.clone(), Arc::clone(&bucket));
        bucket
    }

    /// Stops serving a store.
    pub(super) fn close(&self, bucket: &Bucket) {
        lock(&self.buckets).remove(&bucket.key);
    }
}

impl Bucket {
    /// The contents that the store returned to the client, in order, each with the path of its object.
    pub(super) fn served(&self) -> Vec<(String, Bytes)> {
        lock(&self.served).clone()
    }

    fn answer(&self, request: &Request) -> Answer {
        let _guard = lock(&self.in_request);
        // `/bucket/path`, or `/bucket` for a list.
        let path = request.path.trim_start_matches('/');
        let (bucket, object) = path.split_once('/').unwrap_or((path, ""));
        if bucket != BUCKET {
            return Answer::empty("404 Not Found");
        }
        let path = Path::from(object);
        let answered = wait(async {
            match request.method.as_str() {
                "GET" if object.is_empty() => self.list(request).await,
                "GET" | "HEAD" => self.get(&path, request).await,
                "PUT" if request.query.is_empty() => self.put(&path, request).await,
                "DELETE" if request.query.is_empty() => {
                    self.hostile.delete(&path).await?;
                    Ok(Answer::empty("204 No Content"))
                }
                _ => Ok(Answer::empty("501 Not Implemented")),
            }
        });
        answered.unwrap_or_else(|error| match error {
            // S3 deletes missing objects successfully.
            Error::NotFound { .. } if request.method == "DELETE" => Answer::empty("204 No Content"),
            Error::NotFound { .. } => Answer::empty("404 Not Found"),
            Error::AlreadyExists { .. } | Error::Precondition { .. } => {
                Answer::empty("412 Precondition Failed")
            }
            _ => Answer::empty("500 Internal Server Error"),
        })
    }

    async fn get(&self, path: &Path, request: &Request) -> Result<Answer, Error> {
        let options = GetOptions {
            head: request.method == "HEAD",
            range: request.headers.get("range").and_then(|range| parsed_range(range)),
            ..GetOptions::default()
        };
        let is_part = options.range.is_some();
        let found = self.hostile.get_opts(path, options).await?;
        let (meta, range) = (found.meta.clone(), found.range.clone());
        let mut headers = described(&meta);
        if request.method == "HEAD" {
            let length = usize::try_from(meta.size).unwrap_or(usize::MAX);
            return Ok(Answer {
                headers,
                length,
                ..Answer::empty("200 OK")
            });
        }
        let bytes = found.bytes().await?;
        lock(&self.served).push((path.to_string(), bytes.clone()));
        let mut status = "200 OK";
        if is_part {
            status = "206 Partial Content";
            let last = range.end.saturating_sub(1);
            headers.push(format!(
                "content-range: bytes {}-{last}/{}",
                range.start, meta.size
            ));
        }
        Ok(Answer {
            status,
            headers,
            length: bytes.len(),
            body: bytes.to_vec(),
        })
    }

    async fn put(&self, path: &Path, request: &Request) -> Result<Answer, Error> {
        let mode = match (
            request.headers.get("if-none-match"),
            request.headers.get("if-match"),
        ) {
            (Some(_), _) => PutMode::Create,
            (None, Some(tag)) => PutMode::Update(UpdateVersion {
                e_tag: Some(tag.clone()),
                version: None,
            }),
            (None, None) => PutMode::Overwrite,
        };
        let body = Bytes::from(request.body.clone());
        let options = PutOptions::from(mode);
        let stored = self.hostile.put_opts(path, body.into(), options).await?;
        let tag = stored.e_tag.unwrap_or_default();
        Ok(Answer {
            headers: vec![format!("etag: {tag}")],
            ..Answer::empty("200 OK")
        })
    }

    /// Lists all objects of a prefix on one page, because the tests create fewer than a thousand objects.
    async fn list(&self, request: &Request) -> Result<Answer, Error> {
        let prefix = request.parameter("prefix");
        let behind = request.parameter("start-after");
        let is_shallow = request.parameter("delimiter") == "/";
        let folder = Path::from(prefix.as_str());
        let listed = if is_shallow {
            self.hostile.list_with_delimiter(Some(&folder)).await?
        } else {
            let stream = match behind.as_str() {
                "" => self.hostile.list(Some(&folder)),
                behind => self.hostile.list_with_offset(Some(&folder), &Path::from(behind)),
            };
            ListResult {
                common_prefixes: Vec::new(),
                objects: stream.try_collect().await?,
                extensions: Default::default(),
            }
        };
        let mut body =
            String::from("<?xml version=\"1.0\"?><ListBucketResult><IsTruncated>false</IsTruncated>");
        let mut objects = listed.objects;
        objects.sort_by(|one, other| one.location.cmp(&other.location));
        for meta in objects {
            body.push_str(&format!(
                "<Contents><Key>{}</Key><Size>{}</Size><ETag>{}</ETag><LastModified>{}</LastModified></Contents>",
                meta.location,
                meta.size,
                meta.e_tag.unwrap_or_default(),
                meta.last_modified.to_rfc3339()
            ));
        }
        for folder in listed.common_prefixes {
            body.push_str(&format!(
                "<CommonPrefixes><Prefix>{folder}/</Prefix></CommonPrefixes>"
            ));
        }
        body.push_str("</ListBucketResult>");
        Ok(Answer::xml("200 OK", &body))
    }
}

/// The headers that describe an object.
fn described(meta: &ObjectMeta) -> Vec<String> {
    vec![
        format!("etag: {}", meta.e_tag.clone().unwrap_or_default()),
        format!("last-modified: {}", meta.last_modified.to_rfc2822()),
    ]
}

/// Parses `bytes=0-99` and `bytes=10-`.
fn parsed_range(header: &str) -> Option<GetRange> {
    let (first, last) = header.strip_prefix("bytes=")?.split_once('-')?;
    let first = first.parse().ok()?;
    Some(match last.parse::<u64>() {
        Ok(last) => GetRange::Bounded(first..last + 1),
        Err(_) => GetRange::Offset(first),
    })
}

/// The access key in the signature of a request.
fn access_key(request: &Request) -> Option<&str> {
    let (_, credential) = request.headers.get("authorization")?.split_once("Credential=")?;
    credential.split('/').next()
}

/// The present objects of a store.
pub(super) fn image(store: &InMemory) -> StoreImage {
    let attacker = Attacker::default();
    let inner: Arc<dyn ObjectStore> = Arc::new(store.fork());
    wait(HostileStore::new(inner, attacker.clone()).record_all()).expect("a store in memory is readable");
    let objects = attacker.objects().into_iter();
    StoreImage::new(objects.filter_map(|object| {
        let bytes = attacker.versions(&object).pop().flatten()?;
        Some((object, bytes))
    }))
}

/// Runs a future on this thread.
pub(super) fn wait<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime starts").block_on(future)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
