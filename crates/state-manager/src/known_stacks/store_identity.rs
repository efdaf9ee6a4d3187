//! The identity of a store, under which a client remembers what it saw there.

use state_core::Digest;
use std::path::{Component, Path, PathBuf};

/// Names and addresses of this machine. Endpoints with the others are spelled with the first.
const LOOPBACK: [&str; 3] = ["127.0.0.1", "localhost", "[::1]"];

/// The texts under which a store is remembered.
///
/// A store of objects has one text: its URL and the settings that distinguish stores with the same URL. All spellings that
/// lead to one store by the rules of URLs give the same text: another case of scheme and host, slashes at the ends, the
/// default port of the scheme, and the names of this machine. Two names of one server in the DNS give two texts.
///
/// A store in files has two texts: its path as the user named it, and the path without symbolic links. Under the first
/// text, the pins are still found after an attacker replaced the store, or a folder above it, by a symbolic link to
/// another store. The second text is equal for all spellings of one store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreIdentity {
    named: String,
    /// The text for the path without symbolic links; none if it equals `named`.
    resolved: Option<String>,
}

impl StoreIdentity {
    /// The identity of the store at a URL without secrets. `configured` looks up a field of the store's configuration,
    /// `variable` an environment variable.
    pub fn of(
        url: &str,
        configured: impl Fn(&str) -> Option<String>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Self {
        let url = url.split(['?', '#']).next().unwrap_or_default();
        if let Some(path) = url.strip_prefix("file://") {
            return Self::of_folder(Path::new(path));
        }
        let (scheme, place) = url.split_once("://").unwrap_or(("", url));
        let scheme = scheme.to_ascii_lowercase();
        // Backends ignore slashes at both ends of the prefix, so a store must not have another identity with them.
        let place: Vec<&str> = place.split('/').filter(|part| !part.is_empty()).collect();
        let mut store = format!("{scheme}://{}", place.join("/"));
        let found = |field: &str, variables: &[&str]| {
            let set = |text: &String| !text.is_empty();
            let variable = || variables.iter().find_map(|name| variable(name).filter(set));
            configured(field)
                .filter(set)
                .or_else(variable)
                .unwrap_or_default()
        };
        let (endpoints, accounts) = variables(&scheme);
        store.push_str(&format!(
            "\nendpoint {}",
            plain_endpoint(&found("endpoint", endpoints))
        ));
        store.push_str(&format!("\naccount {}", found("account", accounts)));
        // An emulator on this machine isn't the account whose name its URL may repeat. Other stores keep their identity.
        let emulator = configured("emulator").or_else(|| variable("AZURE_STORAGE_USE_EMULATOR"));
        if emulator.is_some_and(|on| !on.is_empty() && on != "false") {
            store.push_str("\nemulator");
        }
        Self {
            named: store,
            resolved: None,
        }
    }

    /// The identity of a store in files.
    pub fn of_folder(path: &Path) -> Self {
        let named = plain(path);
        let resolved = canonical(&named);
        let text = |path: &Path| format!("file://{}", path.display());
        Self {
            named: text(&named),
            resolved: (resolved != named).then(|| text(&resolved)),
        }
    }

    /// The texts of the store, each once.
    pub(super) fn texts(&self) -> impl Iterator<Item = &String> {
        std::iter::once(&self.named).chain(&self.resolved)
    }

    /// The digest of the identity without symbolic links: equal for all spellings of one store, and another one as soon
    /// as a link leads to another store.
    pub fn digest(&self) -> Digest {
        Digest::of(self.resolved.as_ref().unwrap_or(&self.named).as_bytes())
    }
}

/// The environment variables that set the endpoint and the account of a store with this scheme.
const fn variables(scheme: &str) -> (&'static [&'static str], &'static [&'static str]) {
    match scheme.as_bytes() {
        b"s3" => (&["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"], &[]),
        b"az" => (&["AZURE_STORAGE_ENDPOINT"], &["AZURE_STORAGE_ACCOUNT_NAME"]),
        _ => (&[], &[]),
    }
}

/// The endpoint in the spelling that all spellings of it share.
fn plain_endpoint(endpoint: &str) -> String {
    let Some((scheme, rest)) = endpoint.trim().split_once("://") else {
        return endpoint.trim().trim_end_matches('/').to_owned();
    };
    let scheme = scheme.to_ascii_lowercase();
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = host.to_ascii_lowercase();
    let default = match scheme.as_str() {
        "http" => ":80",
        "https" => ":443",
        _ => "",
    };
    let host = match host.strip_suffix(default) {
        Some(short) if !default.is_empty() => short,
        _ => &host,
    };
    let is_port = |port: &str| {
        port.strip_prefix(':')
            .is_some_and(|port| port.bytes().all(|b| b.is_ascii_digit()))
    };
    let local = LOOPBACK.iter().find_map(|name| {
        let port = host.strip_prefix(name)?;
        (port.is_empty() || is_port(port)).then(|| format!("{}{port}", LOOPBACK[0]))
    });
    let host = local.unwrap_or_else(|| host.to_owned());
    let path: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let path: String = path.into_iter().map(|part| format!("/{part}")).collect();
    format!("{scheme}://{host}{path}")
}

/// The absolute path without `.` and `..`. Links are not followed.
fn plain(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut plain = PathBuf::new();
    for part in absolute.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

/// The path without symbolic links. A store that was deleted keeps its identity, so parts that don't exist are kept as
/// they are.
fn canonical(absolute: &Path) -> PathBuf {
    for existing in absolute.ancestors() {
        if let (Ok(found), Ok(rest)) = (std::fs::canonicalize(existing), absolute.strip_prefix(existing)) {
            return match rest.as_os_str().is_empty() {
                true => found,
                false => found.join(rest),
            };
        }
    }
    absolute.to_owned()
}

#[cfg(test)]
mod tests {
    use super::StoreIdentity;
    use state_core::Digest;

    fn at(url: &str, endpoint: &str) -> Digest {
        let configured = |field: &str| (field == "endpoint").then(|| endpoint.to_owned());
        StoreIdentity::of(url, configured, |_| None).digest()
    }

    #[test]
    fn spellings_of_one_object_store_are_one_identity() {
        let store = at("s3://bucket/a/b", "http://127.0.0.1:9000");
        for (url, endpoint) in [
            ("s3://bucket/a/b/", "http://127.0.0.1:9000"),
            ("s3://bucket//a/b", "http://127.0.0.1:9000"),
            ("S3://bucket/a/b?region=x", "http://127.0.0.1:9000/"),
            ("s3://bucket/a/b", "HTTP://LocalHost:9000"),
            ("s3://bucket/a/b", "http://[::1]:9000//"),
        ] {
            assert_eq!(at(url, endpoint), store, "{url} {endpoint}");
        }
        assert_eq!(
            at("s3://b", "https://store.example"),
            at("s3://b/", "https://Store.example:443/")
        );
        for (url, endpoint) in [
            ("s3://bucket/a", "http://127.0.0.1:9000"),
            ("s3://Bucket/a/b", "http://127.0.0.1:9000"),
            ("s3://bucket/a/b", "http://127.0.0.1:9001"),
            ("s3://bucket/a/b", "https://127.0.0.1:9000"),
            ("s3://bucket/a/b", "http://127.0.0.1:9000/tenant"),
            ("s3://bucket/a/b", "http://localhost.example:9000"),
            ("s3://bucket/a/b", ""),
            ("gs://bucket/a/b", "http://127.0.0.1:9000"),
        ] {
            assert_ne!(at(url, endpoint), store, "{url} {endpoint}");
        }
    }

    #[test]
    fn variables_of_another_cloud_change_no_identity() {
        let digest = |url: &str, name: &'static str| {
            let variable = move |asked: &str| (asked == name).then(|| "https://other.example".to_owned());
            StoreIdentity::of(url, |_| None, variable).digest()
        };
        for url in ["gs://bucket", "az://container"] {
            assert_eq!(digest(url, "AWS_ENDPOINT_URL"), digest(url, "NONE"), "{url}");
        }
        assert_ne!(
            digest("s3://bucket", "AWS_ENDPOINT_URL"),
            digest("s3://bucket", "NONE")
        );
        assert_ne!(
            digest("az://c", "AZURE_STORAGE_ENDPOINT"),
            digest("az://c", "NONE")
        );
    }

    #[test]
    fn emulator_is_another_store_than_its_account() {
        let digest = |emulator: Option<&str>, variable: Option<&str>| {
            let configured = |field: &str| match field {
                "emulator" => emulator.map(str::to_owned),
                "account" => Some("production".to_owned()),
                _ => None,
            };
            let variable = |name: &str| variable.filter(|_| name == "AZURE_STORAGE_USE_EMULATOR");
            let variable = |name: &str| variable(name).map(str::to_owned);
            StoreIdentity::of("az://container/p", configured, variable).digest()
        };
        let account = digest(None, None);
        assert_eq!(digest(Some("false"), Some("true")), account);
        assert_ne!(digest(Some("true"), None), account);
        assert_eq!(digest(None, Some("true")), digest(Some("true"), None));
    }
}
