//! Names of nodes and groups: the declaration of an instance, and the group of a resource.

use clap::ValueEnum;
use state_core::Entry;

/// How to group nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum GroupBy {
    /// By module or parent resource
    Module,
    /// By the kind of the resource
    Type,
    /// By the provider of the resource
    Provider,
}

impl GroupBy {
    /// The group of a resource whose node has this name.
    pub(super) fn group(self, entry: &Entry, name: &str) -> String {
        let kind = || crate::entry::kind(entry);
        match self {
            Self::Module => match &entry.parent {
                Some(parent) => parent.to_string(),
                None => module(name).unwrap_or_else(|| "(root)".to_owned()),
            },
            Self::Type => kind().unwrap_or_else(|| entry.entry_type.name().to_owned()),
            Self::Provider => match &*entry.provider {
                Some(provider) => provider.address.to_string(),
                // Without a provider in the state, use the prefix of the kind: `aws_instance`, `aws:s3/bucket:Bucket`.
                None => kind()
                    .and_then(|kind| Some(kind.split(['_', ':']).next()?.to_owned()))
                    .unwrap_or_else(|| "(none)".to_owned()),
            },
        }
    }
}

/// An address without the index at its end: `a.b["x"]` and `a.b["y"]` are instances of `a.b`.
pub(super) fn declaration(address: &str) -> &str {
    let indices = indices(address);
    match indices.last() {
        Some(&(start, end)) if end == address.len() && start > 0 => &address[..start],
        _ => address,
    }
}

/// The module path at the beginning of a Terraform address, without indices.
fn module(address: &str) -> Option<String> {
    let mut plain = String::with_capacity(address.len());
    let mut at = 0;
    for (start, end) in indices(address) {
        plain.push_str(&address[at..start]);
        at = end;
    }
    plain.push_str(&address[at..]);
    let mut words = plain.split('.');
    let mut modules = Vec::new();
    while words.next() == Some("module") {
        modules.push(format!("module.{}", words.next()?));
    }
    (!modules.is_empty()).then(|| modules.join("."))
}

/// The start and end of each index in an address: `[0]`, `["a]b"]`.
fn indices(address: &str) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let (mut start, mut is_quoted, mut is_escaped) = (None, false, false);
    for (at, c) in address.char_indices() {
        match (start, c) {
            _ if is_escaped => is_escaped = false,
            (Some(_), '\\') if is_quoted => is_escaped = true,
            (Some(_), '"') => is_quoted = !is_quoted,
            (None, '[') => start = Some(at),
            (Some(from), ']') if !is_quoted => {
                found.push((from, at + 1));
                start = None;
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{declaration, module};

    #[test]
    fn declaration_has_no_index_at_its_end() {
        assert_eq!(declaration("a.b[0]"), "a.b");
        assert_eq!(declaration(r#"m["x"].b["a]\"[b"]"#), r#"m["x"].b"#);
        assert_eq!(declaration("a[0].b"), "a[0].b");
        for odd in ["[0]", "a.b]", "a[", r#"a["x]"#, "urn:x::y"] {
            assert_eq!(declaration(odd), odd);
        }
    }

    #[test]
    fn module_path_has_no_indices() {
        assert_eq!(
            module(r#"module.a["x.y"].module.b.t.n[0]"#).as_deref(),
            Some("module.a.module.b")
        );
        assert_eq!(module("t.n"), None);
        assert_eq!(module("module"), None);
    }
}
