//! Access control: the names and tokens of clients, sent with basic authentication.

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use state_core::Digest;
use std::fmt;
use subtle::{Choice, ConstantTimeEq};
use zeroize::Zeroizing;

/// Fewest characters of a token. Tokens are random, so a slow hash isn't needed against guesses.
pub const MIN_TOKEN: usize = 20;

/// The name and the secret of one client. Only a digest of the secret is kept.
#[derive(Clone)]
pub struct Token {
    user: String,
    digest: Digest,
}

impl Token {
    /// A token for a user.
    ///
    /// # Errors
    /// The reason why the name or the secret is refused; it doesn't repeat them.
    pub fn new(user: &str, secret: &str) -> Result<Self, &'static str> {
        if user.is_empty() || user.contains(':') || user.chars().any(char::is_control) {
            return Err("a user name is not empty, and has neither colons nor control characters");
        }
        if secret.len() < MIN_TOKEN {
            return Err("a token has at least 20 characters: create one with `openssl rand -hex 32`");
        }
        Ok(Self {
            user: user.to_owned(),
            digest: Digest::of(secret.as_bytes()),
        })
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({})", self.user)
    }
}

/// The clients that may use a server.
#[derive(Clone, Debug)]
pub struct Access {
    tokens: Vec<Token>,
}

impl Access {
    /// Access with any of these tokens. Without tokens, all requests are refused.
    pub const fn new(tokens: Vec<Token>) -> Self {
        Self { tokens }
    }

    /// The user whose name and token a request has; none if they are missing or wrong.
    pub(super) fn user(&self, headers: &HeaderMap) -> Option<&str> {
        let (user, secret) = credentials(headers)?;
        let user = Digest::of(user.as_bytes());
        let secret = Digest::of(secret.as_bytes());
        // All tokens are compared, and as digests: the time depends neither on the position nor on the length of a match.
        let mut found = None;
        for token in &self.tokens {
            let is_user = equal(&Digest::of(token.user.as_bytes()), &user);
            let is_match = is_user & equal(&token.digest, &secret);
            if bool::from(is_match) {
                found = Some(&*token.user);
            }
        }
        found
    }
}

fn equal(one: &Digest, other: &Digest) -> Choice {
    one.as_bytes().ct_eq(other.as_bytes())
}

/// The user and the secret of a request with basic authentication.
fn credentials(headers: &HeaderMap) -> Option<(String, Zeroizing<String>)> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, encoded) = value.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = Zeroizing::new(BASE64_STANDARD.decode(encoded.trim()).ok()?);
    let text = std::str::from_utf8(&decoded).ok()?;
    let (user, secret) = text.split_once(':')?;
    Some((user.to_owned(), Zeroizing::new(secret.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::{Access, Token};
    use axum::http::header::AUTHORIZATION;
    use axum::http::{HeaderMap, HeaderValue};
    use base64::Engine;
    use base64::prelude::BASE64_STANDARD;

    const SECRET: &str = "0123456789abcdef0123";

    fn headers(text: &str) -> HeaderMap {
        HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_str(text).unwrap())])
    }

    fn basic(user: &str, secret: &str) -> HeaderMap {
        headers(&format!(
            "Basic {}",
            BASE64_STANDARD.encode(format!("{user}:{secret}"))
        ))
    }

    #[test]
    fn only_the_right_name_and_token_are_accepted() {
        let access = Access::new(vec![Token::new("anna", SECRET).unwrap()]);
        assert_eq!(access.user(&basic("anna", SECRET)), Some("anna"));
        for refused in [
            basic("anna", "0123456789abcdef0124"),
            basic("bert", SECRET),
            basic("anna", ""),
            headers("Basic !"),
            headers("Basic"),
            headers(&format!("Bearer {SECRET}")),
            HeaderMap::new(),
        ] {
            assert_eq!(access.user(&refused), None, "{refused:?}");
        }
        assert_eq!(Access::new(Vec::new()).user(&basic("anna", SECRET)), None);
    }

    #[test]
    fn short_tokens_and_names_with_colons_are_refused() {
        assert!(Token::new("anna", "short").is_err());
        assert!(Token::new("a:b", SECRET).is_err());
        assert!(!format!("{:?}", Token::new("anna", SECRET).unwrap()).contains(SECRET));
    }
}
