//! The grammar of provider references, old and new.
//!
//! `provider["registry.terraform.io/hashicorp/aws"]`, perhaps behind a module path without keys, perhaps with an alias
//! and OpenTofu's instance key after it; older states name the type alone: `module.x.provider.aws.west`.

use super::address::{Key, is_identifier};

/// Whether a text is a provider reference.
pub(super) fn is_reference(text: &str) -> bool {
    provider_part(text).is_some_and(|rest| rest.is_empty())
}

/// Module path with its last dot, name and alias of a reference that has no source, if it is one.
pub(super) fn split_legacy(text: &str) -> Option<(&str, &str, Option<&str>)> {
    let at = match text.starts_with("provider.") {
        true => 0,
        false => text.find(".provider.")? + 1,
    };
    let (module, rest) = text.split_at(at);
    let named = rest.strip_prefix("provider.")?.trim_start_matches(' ');
    Some(match named.split_once('.') {
        Some((name, alias)) => (module, name, Some(alias.trim_start_matches(' '))),
        None => (module, named, None),
    })
}

/// What follows the reference.
fn provider_part(text: &str) -> Option<&str> {
    let mut rest = text;
    while let Some(module) = rest.strip_prefix("module.") {
        let (name, after) = module.split_once('.')?;
        rest = is_identifier(name).then_some(after)?;
    }
    rest = rest.strip_prefix("provider")?;
    rest = match Key::split_off(rest) {
        Some((Key::Text(source), after)) => is_source(&source).then_some(after)?,
        Some((Key::Number(_), _)) => return None,
        None => split_name(rest)?,
    };
    if rest.starts_with('.') {
        rest = split_name(rest)?;
    }
    if rest.starts_with('[') {
        rest = Key::split_off(rest)?.1;
    }
    Some(rest)
}

/// What follows `.name`. Old writers let a space stand after the dot.
fn split_name(text: &str) -> Option<&str> {
    let named = text.strip_prefix('.')?.trim_start_matches(' ');
    let end = named.find(['.', '[']).unwrap_or(named.len());
    let (name, rest) = named.split_at(end);
    is_identifier(name).then_some(rest)
}

/// `host/namespace/type`, or the last one or two of these.
fn is_source(text: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty()
            && !part
                .chars()
                .any(|c| c.is_whitespace() || c.is_control() || matches!(c, '"' | '$' | '{' | '}'))
    };
    text.split('/').count() <= 3 && text.split('/').all(is_part)
}
