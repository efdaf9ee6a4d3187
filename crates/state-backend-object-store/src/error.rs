//! Translates errors of `object_store` into [`state_core::Error`], without the secrets that a store may echo.

use object_store::Error as StoreError;
use state_core::Error;
use state_core::error::Source;
use std::error::Error as _;
use std::fmt;
use std::time::Duration;

/// How many characters of a store's answer an error message shows.
const MAX_CHARACTERS: usize = 400;

/// Why a request brought no usable answer.
#[derive(Debug)]
pub(crate) enum RequestFailure {
    /// The store or the connection reported an error.
    Store(StoreError),
    /// The body of the answer is shorter than announced.
    Truncated { received: u64, expected: u64 },
    /// The object is larger than the limit and wasn't read.
    TooLarge { most: u64 },
    /// A list names an object twice. A server that repeats a page would be asked for the next one forever.
    RepeatedList,
    /// No answer arrived within the time limit. The request may still take effect.
    Timeout(Duration),
    /// The task that made the request panicked, or its runtime ended.
    TaskDied,
}

impl From<StoreError> for RequestFailure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl RequestFailure {
    /// Whether the object doesn't exist.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self, Self::Store(StoreError::NotFound { .. })) && !self.is_about_the_bucket()
    }

    /// Whether the store reports that a condition of the request wasn't met. The request may be a retry whose first
    /// attempt succeeded. S3 also reports this while another conditional write to the object is in progress.
    pub(crate) fn is_contested(&self) -> bool {
        matches!(
            self,
            Self::Store(
                StoreError::AlreadyExists { .. }
                    | StoreError::Precondition { .. }
                    | StoreError::NotFound { .. }
                    | StoreError::NotModified { .. }
            )
        )
    }

    /// Whether the same request may succeed later: the store was busy, limits the rate of writes to one object, or didn't
    /// answer in time.
    pub(crate) fn is_unclear(&self) -> bool {
        !self.is_contested() && self.refusal("").is_none()
    }

    /// Returns the error if the store definitely refused the request, and would refuse it again.
    pub(crate) fn refusal(&self, object: &str) -> Option<Error> {
        let error = match self {
            Self::Store(error) => error,
            Self::TooLarge { most } => return Some(Error::corrupt(object, *most, self.to_string())),
            Self::RepeatedList => return Some(Error::corrupt(object, 0, self.to_string())),
            _ => return None,
        };
        let owned = || object.to_owned();
        match error {
            _ if self.is_about_the_bucket() => {
                // The first three parts of a URL are the scheme, an empty part, and the bucket.
                let container: Vec<&str> = object.split('/').take(3).collect();
                Some(Error::NoContainer {
                    object: container.join("/"),
                })
            }
            StoreError::PermissionDenied { .. } | StoreError::Unauthenticated { .. } => Some(Error::Denied {
                object: owned(),
                source: self.source(),
            }),
            StoreError::NotImplemented { .. } | StoreError::NotSupported { .. } => {
                let missing = format!("conditional writes, which this backend needs ({self})");
                Some(Error::unsupported(object, missing))
            }
            StoreError::InvalidPath { .. } | StoreError::UnknownConfigurationKey { .. } => {
                Some(Error::invalid(owned(), self.to_string()))
            }
            _ => None,
        }
    }

    fn is_about_the_bucket(&self) -> bool {
        const CODES: [&str; 3] = ["NoSuchBucket", "ContainerNotFound", "ContainerBeingDeleted"];
        let Self::Store(error) = self else {
            return false;
        };
        let text = error.to_string();
        CODES.iter().any(|code| text.contains(code))
    }

    /// Returns the message, as the source of an error of this workspace.
    pub(crate) fn source(&self) -> Source {
        self.to_string().into()
    }

    /// Returns the error for a failed read.
    pub(crate) fn unavailable(&self, object: &str) -> Error {
        let refusal = self.refusal(object);
        refusal.unwrap_or_else(|| Error::unavailable(object, self.source()))
    }

    /// Returns the error for a write that had no effect and never will.
    pub(crate) fn not_applied(&self, object: &str) -> Error {
        Error::not_applied(object, self.source())
    }

    /// Returns the error for a write that may have had an effect, or may still have one.
    pub(crate) fn indeterminate(&self, object: &str) -> Error {
        Error::indeterminate(object, self.source())
    }
}

impl fmt::Display for RequestFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => f.write_str(&redacted(&with_causes(error))),
            Self::Truncated { received, expected } => {
                write!(
                    f,
                    "the answer was cut off: {received} of {expected} bytes arrived"
                )
            }
            Self::TooLarge { most } => write!(f, "it is larger than the limit of {most} bytes"),
            Self::RepeatedList => f.write_str("the server's list names an object twice"),
            Self::Timeout(limit) => write!(f, "no answer within {limit:?}"),
            Self::TaskDied => f.write_str("the task that sent the request ended early"),
        }
    }
}

/// Joins an error with its causes, each once: the last cause is the reason why a connection failed.
fn with_causes(error: &StoreError) -> String {
    let mut with_causes = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        let text = source.to_string();
        if !with_causes.contains(&text) {
            with_causes = format!("{with_causes}: {text}");
        }
        cause = source.source();
    }
    with_causes
}

/// Returns a store's error text without the query of a URL, which may hold signatures and tokens. Of a document in the
/// body only code and message are kept, because S3 echoes the signed request in it.
fn redacted(text: &str) -> String {
    let (line, body) = match text.find(['<', '{', '\n']) {
        Some(at) => text.split_at(at),
        None => (text, ""),
    };
    let mut redacted: Vec<String> = line.split_whitespace().map(without_query).collect();
    redacted.extend(["Code", "Message"].iter().filter_map(|tag| element(body, tag)));
    let mut redacted = redacted.join(" ");
    if let Some((at, _)) = redacted.char_indices().nth(MAX_CHARACTERS) {
        redacted.truncate(at);
    }
    redacted
}

fn without_query(word: &str) -> String {
    match word.split_once('?') {
        Some((bare, _)) if bare.contains("://") => bare.to_owned(),
        _ => word.to_owned(),
    }
}

/// Returns the text of an XML element that contains no other elements.
fn element(body: &str, tag: &str) -> Option<String> {
    let (_, rest) = body.split_once(&format!("<{tag}>"))?;
    let (text, _) = rest.split_once('<')?;
    Some(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::{RequestFailure, StoreError, redacted};
    use state_core::ErrorKind;

    fn generic(text: &str) -> RequestFailure {
        RequestFailure::Store(StoreError::Generic {
            store: "S3",
            source: text.to_owned().into(),
        })
    }

    #[test]
    fn echoed_request_is_not_repeated_in_errors() {
        let answer = "Error performing PUT https://bucket/x?sig=SECRET&se=1 in 3ms - Server returned \
                    non-2xx status code: 403 Forbidden: <?xml version=\"1.0\"?><Error><Code>SignatureDoesNotMatch</Code>\
                    <Message>It does\n not match.</Message><CanonicalRequest>x-amz-security-token:SECRET</CanonicalRequest></Error>";
        let redacted = redacted(answer);
        assert!(!redacted.contains("SECRET"), "{redacted}");
        assert!(
            redacted.ends_with("403 Forbidden: SignatureDoesNotMatch It does not match."),
            "{redacted}"
        );
        assert!(redacted.contains("https://bucket/x "), "{redacted}");
        let error = generic(answer).unavailable("head");
        assert!(!format!("{error:?}").contains("SECRET"), "{error:?}");
    }

    #[test]
    fn missing_bucket_differs_from_missing_object() {
        let missing = |body: &str| {
            RequestFailure::Store(StoreError::NotFound {
                path: "format".to_owned(),
                source: body.to_owned().into(),
            })
        };
        assert!(missing("<Code>NoSuchKey</Code>").is_missing());
        let bucket = missing("<Code>NoSuchBucket</Code>");
        assert!(!bucket.is_missing());
        let error = bucket.refusal("s3://b/states/format").unwrap();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert_eq!(error.to_string(), "the bucket or container s3://b does not exist");
    }

    #[test]
    fn unclear_failures_do_not_count_as_refusals() {
        for unclear in [
            generic("503"),
            RequestFailure::Timeout(std::time::Duration::ZERO),
            RequestFailure::TaskDied,
        ] {
            assert!(unclear.refusal("x").is_none());
            assert_eq!(unclear.indeterminate("x").kind(), ErrorKind::Indeterminate);
        }
    }
}
