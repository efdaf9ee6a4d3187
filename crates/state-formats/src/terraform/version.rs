//! What a document is, before anything of it is read: every form that is no state has its own sentence.

use crate::error::{Error, Result};
use crate::opentofu;
use state_core::json::{Document, Limits, View};

/// What Terraform 0.1 and 0.2 wrote begins with these bytes.
const BINARY_MAGIC: &[u8] = b"tfstate";

/// How deep a state may nest: what is kept of it still fits the 64 levels of a snapshot of ours.
const MAX_DEPTH: usize = 60;

/// Scans the text strictly.
pub(crate) fn document(bytes: &[u8]) -> Result<Document<'_>> {
    if bytes.is_empty() {
        return Err(Error::NoState);
    }
    if bytes.starts_with(BINARY_MAGIC) {
        return not_a_state(
            "this is the binary format of Terraform 0.1 and 0.2 (version 0), which no living tool reads",
        );
    }
    let limits = Limits {
        max_depth: MAX_DEPTH,
        ..Limits::default()
    };
    Document::parse(bytes, &limits).map_err(Error::malformed)
}

/// The version of a state that can be read: 1 to 4. Refuses whatever is none.
pub(crate) fn check_version(document: &Document<'_>) -> Result<u64> {
    let root = document.root();
    if root.members().is_none() {
        let message = format!("a state is an object, found {}", root.kind());
        return Err(Error::at(document, &root, message));
    }
    check_neighbours(&root)?;
    if root.get("deployment").is_some() || root.get("checkpoint").is_some() {
        return not_a_state("this is a Pulumi deployment, not a Terraform state");
    }
    let Some(version) = root.get("version") else {
        return Err(Error::at(
            document,
            &root,
            "a state has a `version`; there is none",
        ));
    };
    let Some(number) = version.as_u64() else {
        let message = format!(
            "`version` must be a positive whole number, written in digits alone; found {}",
            version.kind()
        );
        return Err(Error::at(document, &version, message));
    };
    if number == 4 {
        return Ok(number);
    }
    let is_pointer = root.get("backend").or_else(|| root.get("state_store")).is_some();
    if number == 3 && is_pointer && root.get("modules").is_none() {
        return not_a_state(
            "this is the backend pointer of a working directory (.terraform/terraform.tfstate); \
             the state itself is where that backend keeps it: use `terraform state pull`",
        );
    }
    if matches!(number, 1..=3) {
        return Ok(number);
    }
    Err(Error::Version {
        found: number,
        reason: reason(number, &root),
    })
}

/// Documents of other kinds that people mistake for a state.
pub(crate) fn check_neighbours(root: &View<'_>) -> Result<()> {
    if opentofu::is_envelope(root) {
        return Err(opentofu::refusal(root));
    }
    Ok(())
}

fn not_a_state<T>(what: &str) -> Result<T> {
    Err(Error::NotAState {
        what: what.to_owned(),
    })
}

fn reason(number: u64, root: &View<'_>) -> String {
    match number {
        0 => "such a version never existed".to_owned(),
        _ => match root.get("terraform_version").and_then(|version| version.as_str()) {
            Some(version) if is_version(&version) => format!("it was written by Terraform {version}"),
            _ => "it was written by a newer Terraform".to_owned(),
        },
    }
}

/// Whether a text is a version as Terraform understands it: numbers with dots, perhaps `-pre` and `+build`.
pub(crate) fn is_version(text: &str) -> bool {
    let text = text.strip_prefix('v').unwrap_or(text);
    let end = text.find(['-', '+', '~']).unwrap_or(text.len());
    let (numbers, suffix) = text.split_at(end);
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let is_suffix = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.' | b'~');
    text.len() <= 100 && numbers.split('.').all(is_number) && suffix.bytes().all(is_suffix)
}
