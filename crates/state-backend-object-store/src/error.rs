//! From what a store says to what the caller should do, without what must stay secret.

use object_store::Error as StoreError;
use state_core::Error;
use state_core::error::Source;
use std::error::Error as _;
use std::fmt;
use std::time::Duration;

/// As much of what a store says as anybody wants to read.
const MOST: usize = 400;

/// Why a request brought no answer that can be used.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The store, or the way to it, said so.
    Store(StoreError),
    /// The answer ends before it should.
    Short { there: u64, wanted: u64 },
    /// The object is larger than it may be; it wasn't read.
    Large { most: u64 },
    /// No answer in time: it may still take effect.
    Slow(Duration),
    /// The task that asked has died.
    Lost,
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl Trouble {
    /// Whether the object isn't there.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self, Self::Store(StoreError::NotFound { .. })) && !self.is_about_the_bucket()
    }

    /// Whether the store says that a condition of the request wasn't met. It may be the condition of a second try,
    /// of which the first one took effect; and S3 says so too while others are about to write.
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

    /// The error for a request that the store certainly refused, and will refuse again.
    pub(crate) fn refusal(&self, object: &str) -> Option<Error> {
        let error = match self {
            Self::Store(error) => error,
            Self::Large { most } => return Some(Error::corrupt(object, *most, self.to_string())),
            _ => return None,
        };
        let owned = || object.to_owned();
        match error {
            _ if self.is_about_the_bucket() => {
                // What a URL begins with: scheme, nothing, bucket.
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
                let missing = format!("what a write needs here ({self})");
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

    /// As the source of an error of ours.
    pub(crate) fn source(&self) -> Source {
        self.to_string().into()
    }

    /// A read that failed.
    pub(crate) fn unavailable(&self, object: &str) -> Error {
        let refusal = self.refusal(object);
        refusal.unwrap_or_else(|| Error::unavailable(object, self.source()))
    }

    /// A write that had no effect and never will.
    pub(crate) fn not_applied(&self, object: &str) -> Error {
        Error::not_applied(object, self.source())
    }

    /// A write that may have had an effect, or may yet have one.
    pub(crate) fn indeterminate(&self, object: &str) -> Error {
        Error::indeterminate(object, self.source())
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => f.write_str(&told(&whole(error))),
            Self::Short { there, wanted } => {
                write!(f, "the answer was cut off: {there} of {wanted} bytes came")
            }
            Self::Large { most } => write!(f, "it has more than the {most} bytes that it may have"),
            Self::Slow(limit) => write!(f, "no answer within {limit:?}"),
            Self::Lost => f.write_str("the task that asked the store has died"),
        }
    }
}

/// An error with its causes, each told once: why a connection failed is the last of them.
fn whole(error: &StoreError) -> String {
    let mut whole = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        let text = source.to_string();
        if !whole.contains(&text) {
            whole = format!("{whole}: {text}");
        }
        cause = source.source();
    }
    whole
}

/// What a store said, without the query of a URL, where signatures and tokens stand, and of a document that it sent
/// only its code and message: S3 echoes in there what was signed.
fn told(text: &str) -> String {
    let (line, body) = match text.find(['<', '{', '\n']) {
        Some(at) => text.split_at(at),
        None => (text, ""),
    };
    let mut told: Vec<String> = line.split_whitespace().map(without_query).collect();
    told.extend(["Code", "Message"].iter().filter_map(|tag| element(body, tag)));
    let mut told = told.join(" ");
    if let Some((at, _)) = told.char_indices().nth(MOST) {
        told.truncate(at);
    }
    told
}

fn without_query(word: &str) -> String {
    match word.split_once('?') {
        Some((bare, _)) if bare.contains("://") => bare.to_owned(),
        _ => word.to_owned(),
    }
}

/// The text of an XML element that has no others inside.
fn element(body: &str, tag: &str) -> Option<String> {
    let (_, rest) = body.split_once(&format!("<{tag}>"))?;
    let (text, _) = rest.split_once('<')?;
    Some(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::{StoreError, Trouble, told};
    use state_core::ErrorKind;

    fn generic(text: &str) -> Trouble {
        Trouble::Store(StoreError::Generic {
            store: "S3",
            source: text.to_owned().into(),
        })
    }

    #[test]
    fn what_a_store_echoes_of_a_request_is_not_told() {
        let said = "Error performing PUT https://bucket/x?sig=SECRET&se=1 in 3ms - Server returned \
                    non-2xx status code: 403 Forbidden: <?xml version=\"1.0\"?><Error><Code>SignatureDoesNotMatch</Code>\
                    <Message>It does\n not match.</Message><CanonicalRequest>x-amz-security-token:SECRET</CanonicalRequest></Error>";
        let told = told(said);
        assert!(!told.contains("SECRET"), "{told}");
        assert!(
            told.ends_with("403 Forbidden: SignatureDoesNotMatch It does not match."),
            "{told}"
        );
        assert!(told.contains("https://bucket/x "), "{told}");
        let error = generic(said).unavailable("head");
        assert!(!format!("{error:?}").contains("SECRET"), "{error:?}");
    }

    #[test]
    fn a_bucket_that_is_not_there_is_not_an_object_that_is_not_there() {
        let missing = |body: &str| {
            Trouble::Store(StoreError::NotFound {
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
    fn only_what_a_store_certainly_refused_is_a_refusal() {
        for unclear in [
            generic("503"),
            Trouble::Slow(std::time::Duration::ZERO),
            Trouble::Lost,
        ] {
            assert!(unclear.refusal("x").is_none());
            assert_eq!(unclear.indeterminate("x").kind(), ErrorKind::Indeterminate);
        }
    }
}
