//! Receives the body of a request: limited in length and time, and compared with its checksum.

use super::HttpOptions;
use axum::body::Body;
use axum::http::header::CONTENT_LENGTH;
use axum::http::{HeaderMap, StatusCode};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use md5::{Digest, Md5};

/// Header with the MD5 checksum of the body, in base64.
const CHECKSUM: &str = "content-md5";

/// The reason why a body was refused.
pub(super) type Refusal = (StatusCode, String);

/// Returns the length that a request announces, in bytes. The connection ends the body there.
pub(super) fn announced(headers: &HeaderMap) -> Option<usize> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Receives a body of at most `limit` bytes.
pub(super) async fn receive(
    headers: &HeaderMap,
    body: Body,
    limit: usize,
    options: &HttpOptions,
) -> Result<Vec<u8>, Refusal> {
    let too_large = || {
        let reason = format!("body: longer than {limit} bytes");
        (StatusCode::PAYLOAD_TOO_LARGE, reason)
    };
    // Refused before the first byte is received.
    if announced(headers).is_some_and(|length| length > limit) {
        return Err(too_large());
    }
    let collected = tokio::time::timeout(options.body_timeout, Limited::new(body, limit).collect()).await;
    let received = match collected {
        Err(_) => {
            let reason = format!("body: it didn't arrive within {:?}", options.body_timeout);
            return Err((StatusCode::REQUEST_TIMEOUT, reason));
        }
        Ok(Err(error)) if error.is::<LengthLimitError>() => return Err(too_large()),
        Ok(Err(_)) => {
            let reason = "body: the connection ended before its end".to_owned();
            return Err((StatusCode::BAD_REQUEST, reason));
        }
        Ok(Ok(collected)) => collected.to_bytes(),
    };
    check(headers, &received)?;
    Ok(received.into())
}

/// Compares the body with the checksum that the client sent, if it sent one.
fn check(headers: &HeaderMap, body: &[u8]) -> Result<(), Refusal> {
    let Some(expected) = headers.get(CHECKSUM) else {
        return Ok(());
    };
    let actual = BASE64_STANDARD.encode(Md5::digest(body));
    if expected.as_bytes() == actual.as_bytes() {
        return Ok(());
    }
    let reason = "body: it doesn't match Content-MD5, so it was changed on its way".to_owned();
    Err((StatusCode::BAD_REQUEST, reason))
}

#[cfg(test)]
mod tests {
    use super::receive;
    use crate::HttpOptions;
    use axum::body::Body;
    use axum::http::{HeaderMap, HeaderValue, StatusCode};
    use std::time::Duration;

    async fn received(md5: Option<&'static str>, body: Body, limit: usize) -> Result<Vec<u8>, StatusCode> {
        let mut headers = HeaderMap::new();
        if let Some(md5) = md5 {
            headers.insert("content-md5", HeaderValue::from_static(md5));
        }
        let options = HttpOptions {
            body_timeout: Duration::from_millis(50),
            ..HttpOptions::default()
        };
        let received = receive(&headers, body, limit, &options).await;
        received.map_err(|(status, _)| status)
    }

    #[tokio::test]
    async fn bodies_are_limited_and_compared_with_the_checksum() {
        let right = Some("iB5oXrnk+Qrr/NqxkzlqVg==");
        assert_eq!(received(None, "".into(), 0).await, Ok(Vec::new()));
        let md5 = Some("1B2M2Y8AsgTpgAmY7PhCfg==");
        assert_eq!(received(md5, "".into(), 9).await, Ok(Vec::new()));
        for wrong in [right, Some("?")] {
            assert_eq!(
                received(wrong, "other".into(), 9).await,
                Err(StatusCode::BAD_REQUEST)
            );
        }
        let long = received(None, "0123456789".into(), 9).await;
        assert_eq!(long, Err(StatusCode::PAYLOAD_TOO_LARGE));
    }

    #[tokio::test]
    async fn body_that_never_arrives_times_out() {
        let endless = Body::new(http_body_util::StreamBody::new(futures_util::stream::pending::<
            Result<hyper::body::Frame<bytes::Bytes>, std::io::Error>,
        >()));
        assert_eq!(received(None, endless, 9).await, Err(StatusCode::REQUEST_TIMEOUT));
    }
}
