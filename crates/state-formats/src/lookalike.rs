//! Recognises files that people import by mistake, and names the command that gives the state instead.

use crate::fields::TopLevel;

/// How many bytes of a text are inspected.
const BEGINNING: usize = 4096;

/// Describes a JSON document that resembles a state and isn't one.
pub(crate) fn of_json(root: &TopLevel<'_>) -> Option<&'static str> {
    let has = |names: &[&str]| names.iter().all(|name| root.get(name).is_some());
    if has(&["format_version", "planned_values"]) || has(&["format_version", "resource_changes"]) {
        return Some(
            "this is a plan as JSON (`terraform show -json PLAN`), which holds only planned values; write the state with \
            `terraform state pull > terraform.tfstate`, and import that",
        );
    }
    // An empty state has no `values`.
    if has(&["format_version", "values"]) || has(&["format_version", "terraform_version"]) {
        return Some(
            "this is the output of `terraform show -json`, which leaves out dependencies, private data and the lineage; write the \
            state with `terraform state pull > terraform.tfstate`, and import that",
        );
    }
    if has(&["ID", "Operation", "Who"]) {
        return Some(
            "this is the lock information that Terraform keeps beside a state; the state is in the file without `.lock.info` and \
            the leading dot",
        );
    }
    None
}

/// Describes a file that isn't JSON.
pub(crate) fn of_bytes(bytes: &[u8]) -> Option<&'static str> {
    if bytes.starts_with(b"PK\x03\x04") || bytes.starts_with(b"PK\x05\x06") {
        return Some(
            "this is a zip archive, such as a plan of `terraform plan -out`; unpack an archive first, and instead of a plan import \
            the state: `terraform state pull > terraform.tfstate`",
        );
    }
    let beginning = String::from_utf8_lossy(&bytes[..bytes.len().min(BEGINNING)]);
    let text = beginning.trim_start();
    let lower = text
        .get(..text.len().min(64))
        .unwrap_or_default()
        .to_ascii_lowercase();
    if lower.starts_with("<!doctype html") || lower.starts_with("<html") {
        return Some(
            "this is a web page, such as the login page or the error of a server; download the state again, with credentials",
        );
    }
    if lower.starts_with("<?xml") || lower.starts_with("<error") {
        return Some(
            "this is XML, such as the error of an object store; download the state again, with credentials",
        );
    }
    let mut lines = text.lines().map(str::trim_end);
    let first = lines.find(|line| !line.is_empty() && !line.starts_with('#') && !line.starts_with("//"))?;
    if is_hcl(first) {
        return Some(
            "this is a configuration of Terraform, not a state; write the state with `terraform state pull > terraform.tfstate`",
        );
    }
    is_yaml(first)
        .then_some("this is YAML; a state is JSON, and a program in YAML is deployed with `statectl up FILE`")
}

/// Whether a line begins a block of a Terraform configuration.
fn is_hcl(line: &str) -> bool {
    let blocks = [
        "terraform",
        "provider",
        "resource",
        "data",
        "module",
        "variable",
        "output",
        "locals",
        "moved",
        "import",
        "removed",
    ];
    let word = line.split([' ', '{']).next().unwrap_or_default();
    blocks.contains(&word) && line.contains(['{', '"'])
}

/// Whether a line begins a YAML document: `---`, or a key and a colon.
fn is_yaml(line: &str) -> bool {
    let is_key = |key: &str| {
        !key.is_empty()
            && key
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'))
    };
    let is_member = |(key, rest): (&str, &str)| is_key(key) && (rest.is_empty() || rest.starts_with(' '));
    line == "---" || line.starts_with("%YAML") || line.split_once(':').is_some_and(is_member)
}
