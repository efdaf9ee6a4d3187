//! Checks the kind and version of a document before it is read. Each recognised document that isn't a state has a
//! specific error.

use super::opentofu;
use crate::error::{Error, Result};
use crate::fields::{TopLevel, required};
use crate::format::{Confidence, Content, Detection};
use crate::state_file::StateFile;
use state_core::json::{Document, IndexedText};

/// First bytes of the binary states of Terraform 0.1 and 0.2.
const BINARY_MAGIC: &[u8] = b"tfstate";

/// Detects a state. The field `version` alone is a weak sign, because other formats have this field too.
pub(super) fn detect(content: &Content<'_>) -> Detection {
    let refused = |confidence, error| Detection::Refused { confidence, error };
    if let Err(error) = refuse_binary(content.bytes()) {
        return refused(Confidence::Certain, error);
    }
    let Ok(document) = content.document() else {
        return Detection::No;
    };
    let Some(root) = content.top_level() else {
        return Detection::No;
    };
    if let Err(error) = refuse_encrypted(root) {
        return refused(Confidence::Certain, error);
    }
    if root.get("version").is_none() {
        return Detection::No;
    }
    match recognised(&document, root) {
        Ok(description) => Detection::of(Confidence::Possible, Some(description)),
        Err(error) => refused(Confidence::Possible, error),
    }
}

/// Describes a document if it is a state.
fn recognised(document: &Document<'_>, root: &TopLevel<'_>) -> Result<String> {
    let version = check_version(document, root)?;
    // States up to Terraform 0.11 have `modules`; Pulumi's checkpoints have the same version numbers, but no `modules`.
    let missing = match version {
        4 if root.get("terraform_version").is_some() || root.get("lineage").is_some() => None,
        4 => Some("it has neither `terraform_version` nor `lineage`"),
        _ if root.get("modules").is_some() => None,
        _ => Some("it has no `modules`, unlike Terraform's states of that version"),
    };
    if let Some(missing) = missing {
        let reason = format!("`version` is {version}, but {missing}");
        return Err(Error::Unrecognised { reason });
    }
    let writer = root.get("terraform_version").and_then(|view| view.as_str());
    let writer = writer
        .filter(|text| is_version(text))
        .map(|version| format!(", written by {version}"));
    Ok(format!(
        "a state of Terraform or OpenTofu, format version {version}{}",
        writer.unwrap_or_default()
    ))
}

/// Parses the text, and refuses an empty or binary file.
pub(super) fn parse(file: StateFile) -> Result<IndexedText> {
    if file.bytes().is_empty() {
        return Err(Error::NoState);
    }
    refuse_binary(file.bytes())?;
    file.parse()
}

fn refuse_binary(bytes: &[u8]) -> Result<()> {
    if bytes.starts_with(BINARY_MAGIC) {
        return not_a_state(
            "this is the binary format of Terraform 0.1 and 0.2 (version 0), which no current tool reads",
        );
    }
    Ok(())
}

/// The version of a readable state, 1 to 4. Refuses all other documents.
pub(super) fn check_version(document: &Document<'_>, root: &TopLevel<'_>) -> Result<u64> {
    let whole = document.root();
    if whole.members().is_none() {
        let message = format!("a state must be an object, found {}", whole.kind());
        return Err(Error::at(document, &whole, message));
    }
    refuse_encrypted(root)?;
    if root.get("deployment").is_some() || root.get("checkpoint").is_some() {
        return not_a_state("this is a Pulumi deployment, not a Terraform state");
    }
    let version = required(document, whole, "a state", "version")?;
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
            the state itself is in that backend: use `terraform state pull`",
        );
    }
    if matches!(number, 1..=3) {
        return Ok(number);
    }
    Err(Error::Version {
        found: number,
        reason: reason(number, root),
    })
}

/// Refuses a state that OpenTofu encrypted.
fn refuse_encrypted(root: &TopLevel<'_>) -> Result<()> {
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

fn reason(number: u64, root: &TopLevel<'_>) -> String {
    match number {
        0 => "such a version never existed".to_owned(),
        _ => match root.get("terraform_version").and_then(|version| version.as_str()) {
            Some(version) if is_version(&version) => format!("it was written by Terraform {version}"),
            _ => "it was written by a newer Terraform".to_owned(),
        },
    }
}

/// Whether Terraform accepts a text as a version: numbers with dots, optionally `-pre` and `+build`.
pub(super) fn is_version(text: &str) -> bool {
    let text = text.strip_prefix('v').unwrap_or(text);
    let end = text.find(['-', '+', '~']).unwrap_or(text.len());
    let (numbers, suffix) = text.split_at(end);
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let is_suffix = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.' | b'~');
    text.len() <= 100 && numbers.split('.').all(is_number) && suffix.bytes().all(is_suffix)
}
