//! Recognition of strings that look like secrets: formats of tokens and keys, passwords in URLs, names of fields, and
//! random characters; also inside of a text in JSON or YAML.
//!
//! The result is a guess that a person must judge. The rules use neither the network nor other values.
//!
//! ```
//! use state_core::suspects::{Suspicion, suspicion};
//!
//! assert_eq!(suspicion("dsn", "postgres://anna:hunter22@db/shop"), Some(Suspicion::UrlPassword));
//! assert_eq!(suspicion("url", "https://example.com/"), None);
//! ```

mod structured;

#[cfg(test)]
mod tests;

named! {
    /// The reason why a string looks like a secret.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
    #[serde(rename_all = "kebab-case")]
    #[non_exhaustive]
    pub enum Suspicion {
        /// A private key in PEM, or a secret key of age.
        PrivateKey = "private-key",
        /// A token or key in the format of a known service.
        ServiceToken = "service-token",
        /// A JSON web token.
        WebToken = "web-token",
        /// A connection string with a key or a password.
        ConnectionString = "connection-string",
        /// A URL with a password.
        UrlPassword = "url-password",
        /// A field whose name announces a secret.
        FieldName = "field-name",
        /// A string of random characters.
        RandomText = "random-text",
    }
}

/// Returns why a string looks like a secret; `None` if it doesn't. `field` is the name of the field that contains the
/// string. For an item of a list, pass the name of the field that contains the list, or an empty string.
pub fn suspicion(field: &str, text: &str) -> Option<Suspicion> {
    if text.contains("PRIVATE KEY-----")
        || has_token(text, "AGE-SECRET-KEY-1", is_upper_or_digit, 50)
        || has_encoded_private_key(text)
    {
        Some(Suspicion::PrivateKey)
    } else if TOKENS
        .iter()
        .any(|(prefix, allowed, least)| has_token(text, prefix, *allowed, *least))
    {
        Some(Suspicion::ServiceToken)
    } else if has_web_token(text) {
        Some(Suspicion::WebToken)
    } else if KEYS.iter().any(|key| has_token(text, key, is_base64, 20)) || has_password_field(text) {
        Some(Suspicion::ConnectionString)
    } else if has_url_password(text) {
        Some(Suspicion::UrlPassword)
    } else if is_secret_name(field) && may_be_password(text) {
        Some(Suspicion::FieldName)
    } else if is_random(text) && !is_digest_name(field) {
        Some(Suspicion::RandomText)
    } else {
        structured::find_in(text, &suspicion)
    }
}

/// Returns the Shannon entropy of a text, in bits per character.
fn entropy(text: &str) -> f64 {
    let mut counts = std::collections::BTreeMap::<char, f64>::new();
    for character in text.chars() {
        *counts.entry(character).or_default() += 1.0;
    }
    let length: f64 = counts.values().sum();
    counts
        .values()
        .map(|count| -(count / length) * (count / length).log2())
        .sum()
}

type Allowed = fn(u8) -> bool;

/// Token prefixes, the bytes allowed after each prefix, and the minimum number of such bytes. Source: the documentation
/// of the services.
const TOKENS: [(&str, Allowed, usize); 26] = [
    ("AKIA", is_upper_or_digit, 16),
    ("ASIA", is_upper_or_digit, 16),
    ("ghp_", is_alphanumeric, 36),
    ("gho_", is_alphanumeric, 36),
    ("ghu_", is_alphanumeric, 36),
    ("ghs_", is_alphanumeric, 36),
    ("ghr_", is_alphanumeric, 36),
    ("github_pat_", is_base64url, 22),
    ("glpat-", is_base64url, 20),
    ("gldt-", is_base64url, 20),
    ("xoxb-", is_base64url, 10),
    ("xoxp-", is_base64url, 10),
    ("xoxa-", is_base64url, 10),
    ("xoxr-", is_base64url, 10),
    ("xoxs-", is_base64url, 10),
    ("xapp-", is_base64url, 10),
    ("sk_live_", is_alphanumeric, 16),
    ("rk_live_", is_alphanumeric, 16),
    ("AIza", is_base64url, 35),
    ("ya29.", is_base64url, 20),
    ("hvs.", is_base64url, 24),
    ("dop_v1_", is_alphanumeric, 64),
    ("npm_", is_alphanumeric, 36),
    ("shpat_", is_alphanumeric, 32),
    ("hooks.slack.com/services/", is_webhook, 30),
    // The signature of a shared access signature of Azure, in base64 that is encoded for a URL.
    ("sig=", is_encoded_base64, 40),
];

/// Fields of connection strings that hold a key in base64.
const KEYS: [&str; 2] = ["AccountKey=", "SharedAccessKey="];

const fn is_upper_or_digit(byte: u8) -> bool {
    byte.is_ascii_uppercase() || byte.is_ascii_digit()
}

const fn is_alphanumeric(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

const fn is_base64url(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')
}

const fn is_webhook(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'/'
}

const fn is_encoded_base64(byte: u8) -> bool {
    is_base64(byte) || byte == b'%'
}

const fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=')
}

/// Whether the prefix occurs at the beginning of a word, followed by at least `least` allowed bytes.
fn has_token(text: &str, prefix: &str, allowed: Allowed, least: usize) -> bool {
    text.match_indices(prefix).any(|(at, _)| {
        let begins_word = !text[..at].ends_with(|before: char| before.is_ascii_alphanumeric());
        let rest = text.as_bytes().iter().skip(at + prefix.len());
        begins_word && rest.take_while(|&&byte| allowed(byte)).take(least).count() == least
    })
}

/// Whether a text contains a private key in PEM that is encoded in base64, as kubeconfigs and manifests hold it.
fn has_encoded_private_key(text: &str) -> bool {
    // The beginning of `-----BEGIN RSA PRIVATE KEY-----` and its relatives, up to a letter that no public key or certificate
    // has there. Three bytes become four characters, so a beginning has whole groups of three bytes.
    const BEGINNINGS: [&str; 6] = [
        "LS0tLS1CRUdJTiBSU0EgUFJJ",
        "LS0tLS1CRUdJTiBQUklW",
        "LS0tLS1CRUdJTiBFQyBQUklW",
        "LS0tLS1CRUdJTiBPUEVO",
        "LS0tLS1CRUdJTiBFTkNS",
        "LS0tLS1CRUdJTiBEU0EgUFJJ",
    ];
    text.contains("LS0tLS1CRUdJTi") && BEGINNINGS.iter().any(|beginning| text.contains(beginning))
}

/// Whether a text contains a JSON web token: three parts in base64, of which the first two are JSON objects.
fn has_web_token(text: &str) -> bool {
    text.match_indices("eyJ").any(|(at, _)| {
        let word = text[at..].split(|c: char| !c.is_ascii() || !(is_base64url(c as u8) || c == '.'));
        let mut parts = word.take(1).flat_map(|word| word.split('.'));
        let header = parts.next().is_some_and(|header| header.len() >= 10);
        let payload = parts.next().is_some_and(|payload| payload.starts_with("eyJ"));
        header && payload && parts.next().is_some_and(|signature| signature.len() >= 10)
    })
}

/// Whether a text is a connection string with a password: `Server=db;User Id=anna;Password=…`.
fn has_password_field(text: &str) -> bool {
    let fields = || text.split(';').filter_map(|field| field.split_once('='));
    let is_password = |name: &str| {
        let name = name.trim();
        name.eq_ignore_ascii_case("password") || name.eq_ignore_ascii_case("pwd")
    };
    fields().count() >= 2 && fields().any(|(name, value)| is_password(name) && is_filled_in(value.trim()))
}

/// Whether a text contains a URL with a user and a password.
fn has_url_password(text: &str) -> bool {
    text.match_indices("://").any(|(at, separator)| {
        let rest = &text[at + separator.len()..];
        let authority = rest
            .split(|c: char| c.is_whitespace() || matches!(c, '/' | '?' | '#' | '"' | '\''))
            .next();
        let user = authority.and_then(|authority| authority.rsplit_once('@'));
        let password = user.and_then(|(user, _)| user.split_once(':'));
        password.is_some_and(|(_, password)| is_filled_in(password))
    })
}

/// Whether a text is neither empty nor a placeholder for a value that is inserted later.
fn is_filled_in(text: &str) -> bool {
    let is_mask = text.chars().all(|c| matches!(c, '*' | 'x' | 'X' | '.'));
    !is_mask && !text.starts_with(['$', '{', '<', '%'])
}

/// Substrings of the names of fields that contain secrets.
const NAMES: [&str; 14] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "apikey",
    "accesskey",
    "privatekey",
    "credential",
    "connectionstring",
    "clientsecret",
    "sharedkey",
    "authkey",
    "adminpass",
];

/// Last words of the names of fields that describe a secret without containing it: `secret_arn`, `password_length`.
const OTHER_NAMES: [&str; 16] = [
    "arn", "id", "ids", "name", "names", "length", "version", "versions", "type", "enabled", "policy", "url",
    "uri", "endpoint", "expiry", "path",
];

/// Whether the name of a field announces a secret: `db_password`, but not `password_length` or `secret_arn`.
pub(crate) fn is_secret_name(field: &str) -> bool {
    let mut words = field.split(['_', '-', '.']).map(str::to_ascii_lowercase);
    let joined: String = words.clone().collect();
    let last = words.next_back().unwrap_or_default();
    // In camel case, the last word begins with a capital letter.
    let last_capital = field
        .rfind(|c: char| c.is_ascii_uppercase())
        .map(|at| field[at..].to_ascii_lowercase());
    let is_other = |word: &str| OTHER_NAMES.contains(&word);
    let describes = is_other(&last) || last_capital.is_some_and(|word| is_other(&word));
    !describes && NAMES.iter().any(|name| joined.contains(name))
}

/// Endings of the names of fields that hold a digest of public content.
const DIGEST_NAMES: [&str; 7] = [
    "hash",
    "digest",
    "checksum",
    "fingerprint",
    "etag",
    "md5",
    "sha256",
];

/// Whether the name of a field announces a digest: `sourceCodeHash` or `output_base64sha256`. A field `password_hash`
/// is reported nevertheless, because [`suspicion`] checks [`is_secret_name`] first.
fn is_digest_name(field: &str) -> bool {
    let field = field.to_ascii_lowercase();
    DIGEST_NAMES.iter().any(|name| field.ends_with(name))
}

/// Whether a text can be a password: at least 6 bytes (which excludes booleans), no placeholder, no URL, and no name of
/// a cloud resource.
fn may_be_password(text: &str) -> bool {
    let is_name = ["arn:", "projects/", "/subscriptions/", "http://", "https://"];
    text.len() >= 6 && is_filled_in(text) && !is_name.iter().any(|prefix| text.starts_with(prefix))
}

/// Lengths of strings that are tested for randomness, in bytes.
const RANDOM_LENGTHS: std::ops::RangeInclusive<usize> = 20..=200;

/// Minimum entropy of a random string, in bits per character. Words, paths and identifiers usually have less.
const RANDOM_BITS: f64 = 4.0;

/// Whether a text is one word of random letters and digits. Digests and UUIDs don't count: they have no mix of upper
/// and lower case.
fn is_random(text: &str) -> bool {
    let is_word = text.bytes().all(|byte| is_base64(byte) || is_base64url(byte));
    if !RANDOM_LENGTHS.contains(&text.len()) || !is_word || text.starts_with('/') {
        return false;
    }
    let has = |class: fn(&u8) -> bool| text.bytes().filter(class).count() >= 3;
    let mixed = has(u8::is_ascii_lowercase) && has(u8::is_ascii_uppercase) && has(u8::is_ascii_digit);
    // A path, or a name made of words, has few changes between cases, and its digits are adjacent.
    let changes = |class: fn(&u8) -> bool| {
        let pairs = text.as_bytes().windows(2);
        pairs.filter(|pair| class(&pair[0]) != class(&pair[1])).count()
    };
    let is_mixed_up =
        changes(u8::is_ascii_uppercase) * 5 >= text.len() && changes(u8::is_ascii_digit) * 12 >= text.len();
    mixed && is_mixed_up && entropy(text) >= RANDOM_BITS
}
