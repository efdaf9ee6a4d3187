//! Parses provider references, and upgrades those of older states.
//!
//! A reference is `provider["registry.terraform.io/hashicorp/aws"]`, optionally preceded by a module path without keys,
//! and optionally followed by an alias and an instance key (OpenTofu only). Older states name only the type of the
//! provider: `module.x.provider.aws.west`.

use super::address::{Key, ResourceAddress, is_identifier};

/// Whether a text is a provider reference.
pub(super) fn is_reference(text: &str) -> bool {
    provider_part(text).is_some_and(|rest| rest.is_empty())
}

/// Splits a reference of the old form, which has no source address, into the module path including its trailing dot,
/// the provider's name, and the alias.
fn split_legacy(text: &str) -> Option<(&str, &str, Option<&str>)> {
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

/// Skips the provider reference at the start of a text, and returns the rest; None if the text doesn't begin with a
/// reference.
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

/// Skips `.name` at the start of a text, and returns the rest. Old writers left a space after the dot.
fn split_name(text: &str) -> Option<&str> {
    let named = text.strip_prefix('.')?.trim_start_matches(' ');
    let end = named.find(['.', '[']).unwrap_or(named.len());
    let (name, rest) = named.split_at(end);
    is_identifier(name).then_some(rest)
}

/// Whether a text is `host/namespace/type`, `namespace/type` or `type`.
fn is_source(text: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty()
            && !part
                .chars()
                .any(|c| c.is_whitespace() || c.is_control() || matches!(c, '"' | '$' | '{' | '}'))
    };
    text.split('/').count() <= 3 && text.split('/').all(is_part)
}

/// Upgrades a reference to version 4. Returns the reason of a refusal as the error.
///
/// `aws.west` is a provider in the module of the resource; `module.m.provider.aws.west` names the module of the
/// provider.
pub(super) fn upgrade(text: &str, address: &ResourceAddress) -> Result<String, &'static str> {
    if text.is_empty() {
        return Ok(implied(address));
    }
    if text.contains("${") {
        return Err(
            "the alias of this provider contains a template, which Terraform 0.11 accepted by mistake: \
             rename the alias and apply with Terraform 0.11",
        );
    }
    let refused = "`provider` isn't a provider reference";
    let absolute = if text.contains("provider.") {
        text.to_owned()
    } else {
        format!("{}provider.{text}", prefix(&address.module))
    };
    if !is_reference(&absolute) {
        return Err(refused);
    }
    let (module, name, alias) = split_legacy(&absolute).ok_or(refused)?;
    Ok(reference(module, name, alias))
}

/// The provider of a resource that names none: the first word of its type, in the module of the resource.
pub(super) fn implied(address: &ResourceAddress) -> String {
    let name = address.kind.split('_').next().unwrap_or_default();
    reference(&prefix(&address.module), name, None)
}

fn prefix(module: &str) -> String {
    if module.is_empty() {
        return String::new();
    }
    format!("{module}.")
}

fn reference(prefix: &str, name: &str, alias: Option<&str>) -> String {
    let source = match name {
        "terraform" => "terraform.io/builtin/terraform".to_owned(),
        name => format!("registry.terraform.io/-/{name}"),
    };
    let alias = alias.map(|alias| format!(".{alias}")).unwrap_or_default();
    format!("{prefix}provider[\"{source}\"]{alias}")
}
