//! Other spellings of a secret in a longer string: in JSON text, in a URL, and with indented lines.

use crate::json::write_string;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Returns the secret in plain text, in JSON, in the JSON of Go programs such as Terraform, and in a URL. White space
/// around the secret is removed, because programs trim a key that they read from a file.
pub(super) fn spellings(secret: &str) -> BTreeSet<String> {
    let plain = secret.trim();
    let mut json = String::new();
    write_string(&mut json, plain);
    // The part between the quotes.
    let json = &json[1..json.len() - 1];
    let go = json
        .replace('&', "\\u0026")
        .replace('<', "\\u003c")
        .replace('>', "\\u003e");
    let [url, lower] = [true, false].map(|is_upper| percent_encoded(plain, is_upper));
    // Forms, and the function `urlencode` of Terraform, write a space as `+`; a plus sign of the secret is `%2B`.
    let forms = [&url, &lower].map(|url| url.replace("%20", "+"));
    let mut all = BTreeSet::from([plain.to_owned(), go, json.to_owned(), url, lower]);
    all.extend(forms);
    all
}

/// Ends of a line, in plain text and in JSON text. The longer ones come first.
const LINE_ENDS: [&str; 4] = ["\\r\\n", "\\n", "\r\n", "\n"];

/// Whether a text has several lines.
pub(super) fn has_lines(text: &str) -> bool {
    LINE_ENDS.iter().any(|end| text.contains(end))
}

/// Returns a text of several lines without the white space at the beginning of each line, so that a secret and its
/// indented copy become equal; `None` for a text of one line. YAML and heredocs indent all lines alike, or leave empty
/// lines as they are.
pub(super) fn unindented(text: &str) -> Option<String> {
    if !has_lines(text) {
        return None;
    }
    let plain = LINE_ENDS
        .iter()
        .fold(text.to_owned(), |text, end| text.replace(end, "\n"));
    let lines: Vec<&str> = plain
        .split('\n')
        .map(|line| line.trim_start_matches([' ', '\t']))
        .collect();
    Some(lines.join("\n"))
}

/// Encodes a text for a URL, with hexadecimal digits in upper or lower case.
fn percent_encoded(text: &str, is_upper: bool) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                encoded.push(char::from(byte));
            }
            // Writing to a string can't fail.
            _ if is_upper => _ = write!(encoded, "%{byte:02X}"),
            _ => _ = write!(encoded, "%{byte:02x}"),
        }
    }
    encoded
}
