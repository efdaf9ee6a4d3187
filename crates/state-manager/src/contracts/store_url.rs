//! Parser for the URL of a store: `scheme://location?key=value&key=value`.

use state_core::{Error, Result};
use std::borrow::Cow;

/// The parts of a store's URL, percent-decoded.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct StoreUrl {
    pub(crate) scheme: String,
    pub(crate) location: String,
    pub(crate) parameters: Vec<(String, String)>,
}

/// The URL of a store in a folder. Characters that have a meaning in a URL are escaped.
///
/// ```
/// assert_eq!(state_manager::file_url("/srv/states"), "file:///srv/states");
/// assert_eq!(state_manager::file_url("100%?"), "file://100%25%3F");
/// ```
pub fn file_url(path: &str) -> String {
    format!("file://{}", path.replace('%', "%25").replace('?', "%3F"))
}

impl StoreUrl {
    /// Splits a URL into its parts.
    pub(crate) fn parse(url: &str) -> Result<Self> {
        let object = || format!("backend `{}`", shown(url));
        let invalid = |reason: String| Error::invalid(object(), reason);
        let Some((scheme, rest)) = url.split_once("://") else {
            return Err(invalid("a backend is a URL such as file://.state".to_owned()));
        };
        if scheme != "file" && rest.contains('#') {
            // What follows isn't printed: it may be a secret in the wrong place.
            let reason = "the URL of a store has no fragment; write `%23` for a `#` in a name or a value";
            return Err(invalid(reason.to_owned()));
        }
        let (location, query) = rest.split_once('?').unwrap_or((rest, ""));
        let decode = |text: &str| decode(text).map_err(invalid);
        let mut parameters: Vec<(String, String)> = Vec::new();
        for part in query.split('&').filter(|part| !part.is_empty()) {
            let Some((key, value)) = part.split_once('=') else {
                // The part is not printed: it may be a secret in the wrong place.
                return Err(invalid("a parameter of a URL is written `key=value`".to_owned()));
            };
            let key = decode(key)?;
            if parameters.iter().any(|(known, _)| *known == key) {
                return Err(invalid(format!(
                    "the parameter `{}` occurs twice",
                    key.escape_debug()
                )));
            }
            parameters.push((key, decode(value)?));
        }
        Ok(Self {
            scheme: scheme.to_owned(),
            location: decode(location)?,
            parameters,
        })
    }

    /// The configuration values in the URL, as pairs of field and value. The URL's location is split at `/` into the
    /// fields that `location` lists, and the last field takes the rest. Each parameter is a value by itself.
    pub(crate) fn field_values(self, location: &[String]) -> Result<Vec<(String, String)>> {
        let object = format!("backend {}://", self.scheme);
        if location.is_empty() && !self.location.is_empty() {
            return Err(Error::invalid(
                object,
                "this backend has no location: only parameters may follow `://`",
            ));
        }
        let parts = self.location.splitn(location.len().max(1), '/');
        let mut given: Vec<(String, String)> = location
            .iter()
            .cloned()
            .zip(parts.map(str::to_owned))
            .filter(|(_, part)| !part.is_empty())
            .collect();
        for (key, value) in self.parameters {
            if given.iter().any(|(known, _)| *known == key) {
                return Err(Error::invalid(object, format!("`{key}` occurs twice")));
            }
            given.push((key, value));
        }
        Ok(given)
    }
}

/// A URL without user name and password. No built-in backend reads them from the URL, but people write them there, and
/// messages must not repeat them. A `file` URL is returned unchanged, because `@` and `:` may be part of its path.
pub(crate) fn without_userinfo(url: &str) -> Cow<'_, str> {
    let Some((scheme, rest)) = url.split_once("://").filter(|(scheme, _)| *scheme != "file") else {
        return Cow::Borrowed(url);
    };
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    if let Some((_, host)) = authority.rsplit_once('@') {
        return Cow::Owned(format!("{scheme}://{host}{path}"));
    }
    // `user:password` with a `/`, `?` or `#` in the password: everything up to the last `@` may belong to it.
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|digit| digit.is_ascii_digit());
    match (authority.split_once(':'), rest.rsplit_once('@')) {
        (Some((_, port)), Some((_, host))) if !is_port(port) => Cow::Owned(format!("{scheme}://{host}")),
        _ => Cow::Borrowed(url),
    }
}

/// Removes user name and password from a parameter of a URL whose value is a URL or an address itself: everything
/// before the last `@` of the value, except its scheme. A value without `@` is returned unchanged.
pub(crate) fn parameter_without_userinfo(parameter: &str) -> Cow<'_, str> {
    let decoded = parameter
        .split_once('=')
        .map(|(name, value)| (name, decode(value)));
    let Some((name, Ok(value))) = decoded else {
        return Cow::Borrowed(parameter);
    };
    let Some((_, after)) = value.rsplit_once('@') else {
        return Cow::Borrowed(parameter);
    };
    let scheme = value.split_once("://").map_or("", |(scheme, _)| scheme);
    let separator = if scheme.is_empty() { "" } else { "://" };
    Cow::Owned(format!("{name}={scheme}{separator}{after}"))
}

/// A URL without its parameters and without a fragment, as messages print it.
fn shown(url: &str) -> String {
    let url = without_userinfo(url);
    let ends: &[char] = match url.starts_with("file://") {
        true => &['?'],
        false => &['?', '#'],
    };
    let bare = url.split_once(ends).map_or(&*url, |(bare, _)| bare);
    bare.escape_debug().to_string()
}

/// Decodes the percent-encoded characters of a part of a URL.
pub(crate) fn decode(text: &str) -> std::result::Result<String, String> {
    let wrong =
        || "`%` must be followed by two hexadecimal digits; write `%25` for a percent sign".to_owned();
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        if first != b'%' {
            bytes.push(first);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2).ok_or_else(wrong)?;
        let digit = |b: u8| char::from(b).to_digit(16);
        let (Some(high), Some(low)) = (digit(digits[0]), digit(digits[1])) else {
            return Err(wrong());
        };
        // Two hexadecimal digits always fit into one byte.
        bytes.extend(u8::try_from(high * 16 + low).ok());
        rest = after;
    }
    String::from_utf8(bytes).map_err(|_| "it isn't UTF-8".to_owned())
}

#[cfg(test)]
mod tests {
    use super::{StoreUrl, file_url, without_userinfo};
    use proptest::prelude::*;
    use state_core::testkit::run::property_config;

    /// The configuration values in a URL for a backend whose location has these fields.
    fn given(url: &str, location: &[&str]) -> Result<Vec<(String, String)>, String> {
        let location: Vec<String> = location.iter().map(|&name| name.to_owned()).collect();
        let parsed = StoreUrl::parse(url).and_then(|url| url.field_values(&location));
        parsed.map_err(|error| error.to_string())
    }

    #[test]
    fn location_fills_its_fields_and_last_field_takes_the_rest() {
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(
            given("file:///a/b?lock-timeout=3", &["path"]),
            Ok(vec![pair("path", "/a/b"), pair("lock-timeout", "3")])
        );
        assert_eq!(
            given("s3://bucket/deep/er", &["bucket", "prefix"]),
            Ok(vec![pair("bucket", "bucket"), pair("prefix", "deep/er")])
        );
        assert_eq!(
            given("s3://bucket", &["bucket", "prefix"]),
            Ok(vec![pair("bucket", "bucket")])
        );
        assert_eq!(
            given("x://?a=b%26c&d=", &[]),
            Ok(vec![pair("a", "b&c"), pair("d", "")])
        );
    }

    #[test]
    fn invalid_url_is_refused_without_printing_its_parameters() {
        for (url, reason) in [
            (".state", "a URL such as"),
            ("file://x?hunter2", "`key=value`"),
            ("file://x?token=hunter2&token=hunter2", "occurs twice"),
            ("file://x?token=hunter2%", "%25"),
            ("file://x?token=hunter2%0", "%25"),
            ("file://x?token=hunter2%+1", "%25"),
            ("file://x?token=hunter2%ff", "UTF-8"),
            ("file://x?path=hunter2", "occurs twice"),
            ("s3://bucket/x#hunter2", "%23"),
            ("s3://bucket?region=x#hunter2", "%23"),
        ] {
            let error = given(url, &["path"]).unwrap_err();
            assert!(error.contains(reason) && !error.contains("hunter2"), "{error}");
        }
        assert!(given("memory://x", &[]).unwrap_err().contains("only parameters"));
    }

    #[test]
    fn printed_url_contains_no_user_and_no_password() {
        for (url, printed) in [
            ("s3://bucket/a@b", "s3://bucket/a@b"),
            ("s3://me:hunter2@bucket/x", "s3://bucket/x"),
            ("s3://me:hun@ter2@bucket", "s3://bucket"),
            ("s3://hunter2@bucket?region=r", "s3://bucket?region=r"),
            ("s3://me:hun/ter2@bucket/x", "s3://bucket/x"),
            ("s3://me:hun?ter2@bucket/x", "s3://bucket/x"),
            ("kv://host:8500/a@b", "kv://host:8500/a@b"),
            ("file:///srv/a:b@c/d", "file:///srv/a:b@c/d"),
            ("/srv/a@b", "/srv/a@b"),
        ] {
            assert_eq!(without_userinfo(url), printed, "{url}");
        }
    }

    proptest! {
        #![proptest_config(property_config())]

        #[test]
        fn any_path_round_trips_through_its_url(path in "\\PC{1,40}") {
            let expected = vec![("path".to_owned(), path.clone())];
            prop_assert_eq!(given(&file_url(&path), &["path"]), Ok(expected));
        }

        #[test]
        fn parser_never_panics(url in ".{0,60}") {
            let _checked = given(&url, &["path"]);
        }
    }
}
